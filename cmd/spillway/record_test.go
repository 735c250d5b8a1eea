package main

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/admin"
	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/offload/policy"
	"github.com/spillway-io/spillway/offload/trace"
)

// tracking is a daemon that tracks /a/1, will track /a/2, and does not track /b.
type tracking struct{ admin.Reader }

func (tracking) Cgroups() []admin.Cgroup {
	return []admin.Cgroup{{Path: "/a"}, {Path: "/a/1", Usage: 400 << 20}, {Path: "/a/2"}, {Path: "/b", Usage: 1 << 20}, {Path: "/c"}}
}

func (tracking) Heat(path string) (admin.Heat, error) {
	switch path {
	case "/a/1":
		return admin.Heat{
			Cgroup: path, Source: "mglru", Span: admin.Duration(time.Hour), WorkingSet: 300 << 20,
			Cold:     []admin.HeatAge{{Bytes: 300 << 20}, {Idle: admin.Duration(4 * time.Minute), Bytes: 100 << 20}},
			Promoted: []admin.HeatAge{{Idle: admin.Duration(4 * time.Minute), Bytes: 60 << 20}},
		}, nil
	case "/a/2":
		return admin.Heat{}, errkind.New(errkind.Unknown, "no reading yet")
	case "/b":
		return admin.Heat{}, errkind.New(errkind.Unsupported, "only observed")
	}
	return admin.Heat{}, errkind.New(errkind.NotFound, "no such cgroup")
}

func serve(t *testing.T, src admin.Reader) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: admin.Reads(src, slog.New(slog.DiscardHandler))}
	go srv.Serve(ln)
	t.Cleanup(func() { srv.Close() })
	return socket
}

// TestRecordsWhatIsTracked: of the cgroups named and below, leaves only, each once, those that are tracked.
func TestRecordsWhatIsTracked(t *testing.T) {
	var out bytes.Buffer
	a := &app{out: &out, err: &out, json: true, socket: serve(t, tracking{})}
	file := filepath.Join(t.TempDir(), "t")
	f := recordFlags{length: 2 * time.Second, every: time.Second, out: file}
	if err := a.record(t.Context(), []string{"a/", "/a/1", "b"}, f); err != nil {
		t.Fatal(err)
	}
	var got recording
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err, out.String())
	}
	if got.Jobs != 1 || got.Intervals != 2 || got.Source != "mglru" || got.Untracked != 1 || !strings.Contains(got.Note, "1 cgroup left out") {
		t.Errorf("%+v", got)
	}
	r, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	tr, err := trace.Read(r)
	if err != nil {
		t.Fatal(err)
	}
	for j, err := range tr.Jobs {
		if err != nil {
			t.Fatal(err)
		}
		if j.Name != "/a/1" || len(j.Intervals) != 2 || j.Intervals[0].WorkingSet != 300<<20 {
			t.Errorf("%+v", j)
		}
		// 4 min is the third age; 60 MiB a minute are 1 MiB a second.
		if i := j.Intervals[1]; policy.Age(2) != 4*time.Minute || i.Cold[2] != 100<<20 || i.Promo[2] != 1<<20 {
			t.Errorf("%+v", i)
		}
	}
}

// TestRecordGoesByTheClock: whoever was slow or stopped, interval n is the n-th after the beginning.
func TestRecordGoesByTheClock(t *testing.T) {
	f := recordFlags{every: time.Minute}
	for _, c := range []struct {
		since time.Duration
		next  int
		want  int
	}{
		{time.Minute, 0, 0}, {time.Minute - time.Microsecond, 0, 0}, {2 * time.Minute, 1, 1}, {2*time.Minute + 59*time.Second, 1, 1},
		{10 * time.Minute, 3, 9}, {time.Hour, 2, 59}, {time.Minute, 5, 5},
	} {
		if got := f.ended(c.since, c.next); got != c.want {
			t.Errorf("after %v, %d intervals recorded: the last is %d, want %d", c.since, c.next, got, c.want)
		}
	}
}

// TestRecordSavesAsItGoes: a disk that fills up later costs what came later, not the day before.
func TestRecordSavesAsItGoes(t *testing.T) {
	rec := trace.NewRecorder(time.Minute)
	s := saver{out: filepath.Join(t.TempDir(), "t"), rec: rec}
	at := time.Now()
	if err := s.now(at); err != nil || s.held != 0 {
		t.Fatalf("nothing recorded: %v, %d", err, s.held)
	}
	held := func() (n int) {
		f, err := os.Open(s.out)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		tr, err := trace.Read(f)
		if err != nil {
			t.Fatal(err)
		}
		for j, err := range tr.Jobs {
			if err != nil {
				t.Fatal(err)
			}
			n += len(j.Intervals)
		}
		return n
	}
	for n, want := range []int{1, 1, 3} {
		rec.Add(n, trace.Seen{Name: "/a"})
		if err := s.now(at.Add(time.Duration(n) * saveEvery / 2)); err != nil {
			t.Fatal(err)
		}
		if got := held(); got != want {
			t.Errorf("after %d intervals the file holds %d, want %d", n+1, got, want)
		}
	}
	if err := os.Mkdir(s.out+".part", 0o700); err != nil { // no room for the next
		t.Fatal(err)
	}
	rec.Add(3, trace.Seen{Name: "/a"})
	if err := s.save(); err == nil || held() != 3 {
		t.Errorf("%v, %d intervals", err, held())
	}
}

// TestRecordLeavesNoFile when there was nothing to record, or it was stopped at once.
func TestRecordLeavesNoFile(t *testing.T) {
	a := &app{out: new(bytes.Buffer), err: new(bytes.Buffer), socket: serve(t, tracking{})}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tc := range []struct {
		ctx  context.Context
		name string
		says string
	}{
		{t.Context(), "/a/2", "no reading of these cgroups"}, {t.Context(), "/nowhere", "no cgroup"}, {stopped, "/a", ""},
	} {
		file := filepath.Join(t.TempDir(), "t")
		err := a.record(tc.ctx, []string{tc.name}, recordFlags{length: time.Second, every: time.Second, out: file})
		if err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, want one that says %q", tc.name, err, tc.says)
		}
		if _, err := os.Stat(file); err == nil {
			t.Errorf("%s: a file was left", tc.name)
		}
	}
}
