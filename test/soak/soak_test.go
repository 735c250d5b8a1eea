// Package soak runs the real daemon for a long time on a herd of cgroups that come and go, reloads it, kills it
// and starts it again, and watches that nothing grows and nothing is left behind.
//
// Three minutes by default; SPILLWAY_SOAK=1h go test -count=1 -timeout 2h ./test/soak for longer (`make soak`).
package soak

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/admin"
	"github.com/spillway-io/spillway/internal/probe"
	"github.com/spillway-io/spillway/internal/sys"
	"github.com/spillway-io/spillway/internal/testkit"
	"github.com/spillway-io/spillway/internal/testkit/herd"
)

func TestMain(m *testing.M) {
	herd.Main()
	os.Exit(m.Run())
}

const (
	cgroups    = 16
	hogMiB     = 24
	lifeOf     = 40 * time.Second // of one daemon, then it is killed
	maxRSS     = 40 << 20
	maxJournal = 4 << 20
)

func TestSoak(t *testing.T) {
	probe.Need(t, probe.Root)
	probe.Need(t, probe.SwapOn)
	if testing.Short() {
		t.Skip("short run")
	}
	length := 3 * time.Minute
	if v := os.Getenv("SPILLWAY_SOAK"); v != "" {
		d, err := time.ParseDuration(v)
		if err != nil {
			t.Fatalf("SPILLWAY_SOAK: %v; write 3m or 1h", err)
		}
		length = d
	}
	testkit.HostLock(t)
	dir, err := os.MkdirTemp("/var/tmp", "spillway-soak-") // a swap file cannot live on a tmpfs
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &soak{t: t, dir: dir, ctx: t.Context()}
	s.build()
	if s.herd, err = herd.New("soak"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.herd.Close(); err != nil {
			t.Error(err)
		}
	})
	outside, err := s.herd.Knobs() // no hogs yet: zswap, page-cluster and swap areas only
	if err != nil {
		t.Fatal(err)
	}
	for range cgroups {
		s.add()
	}
	end := time.Now().Add(length)
	for n := 1; time.Now().Before(end); n++ {
		s.oneLife(n, end)
	}
	s.up()
	s.stop()
	after, err := s.herd.Knobs()
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range after {
		if strings.HasSuffix(k, "memory.limit_in_bytes") && v != "9223372036854771712" || strings.HasSuffix(k, "memory.max") && v != "max" {
			t.Errorf("%s is %s at the end", k, v)
		}
	}
	for k, v := range outside {
		if after[k] != v {
			t.Errorf("%s is %q, was %q", k, after[k], v)
		}
	}
	if n := s.herd.Alive(); n != len(s.herd.Paths()) {
		t.Errorf("%d of %d workloads alive", n, len(s.herd.Paths()))
	}
	if _, err := os.Stat(s.dir + "/swap"); err == nil {
		t.Error("the swap file still exists")
	}
	t.Logf("%v, %d daemons, %d cgroups made", length, s.daemons, s.made)
}

type soak struct {
	t       *testing.T
	ctx     context.Context
	dir     string
	exe     string
	herd    *herd.Herd
	daemon  *exec.Cmd
	log     *os.File
	client  *admin.Client
	daemons int
	made    int
}

func (s *soak) build() {
	s.exe = filepath.Join(s.dir, "spillway")
	cmd := exec.Command("go", "build", "-o", s.exe, "github.com/spillway-io/spillway/cmd/spillway")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("build: %v\n%s", err, out)
	}
	conf := fmt.Sprintf(`listen: "off"
socket: %[1]s/sock
state_dir: %[1]s/state
offload:
  roots: [%[2]s]
  period: 1s
  floor: 4MiB
  params: {latency: {ratio: 0.01}}
  canary: {size: 4MiB}
  tiers:
    zswap: "on"
    page_cluster: 0
    swap_file: {path: %[1]s/swap, size: 512MiB}
`, s.dir, fmt.Sprintf("/spillway-soak-%d", os.Getpid()))
	if err := os.WriteFile(s.dir+"/spillway.yaml", []byte(conf), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *soak) add() {
	if _, err := s.herd.Add(s.ctx, hogMiB, 20); err != nil {
		s.t.Fatal(err)
	}
	s.made++
}

func (s *soak) up() {
	log, err := os.OpenFile(s.dir+"/log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	s.log = log
	s.daemon = exec.Command(s.exe, "up", "--config", s.dir+"/spillway.yaml")
	s.daemon.Stdout, s.daemon.Stderr = log, log
	if err := s.daemon.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.daemons++
	s.client = admin.Dial(s.dir + "/sock")
	if !herd.Eventually(s.ctx, 60*time.Second, func() bool { _, err := s.client.Status(s.ctx); return err == nil }) {
		s.fatal("daemon %d did not come up", s.daemons)
	}
}

func (s *soak) stop() {
	if err := s.daemon.Process.Signal(os.Interrupt); err != nil {
		s.fatal("interrupt: %v", err)
	}
	if err := s.daemon.Wait(); err != nil {
		s.fatal("the daemon ended with %v", err)
	}
	s.log.Close()
}

func (s *soak) fatal(format string, a ...any) {
	s.t.Helper()
	log, _ := os.ReadFile(s.dir + "/log")
	s.t.Fatalf(format+"\n%s", append(a, log[max(0, len(log)-4000):])...)
}

// oneLife starts a daemon, makes cgroups come and go under it, reloads it, and kills it.
func (s *soak) oneLife(n int, end time.Time) {
	s.up()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	died := time.Now().Add(lifeOf)
	var early int
	for i := 1; time.Now().Before(died) && time.Now().Before(end); i++ {
		<-tick.C
		switch {
		case i%3 == 0:
			if err := s.herd.Remove(s.herd.Paths()[0]); err != nil {
				s.t.Fatal(err)
			}
			s.add()
		case i%10 == 1:
			if err := s.client.Reload(s.ctx); err != nil {
				s.fatal("reload: %v", err)
			}
		}
		if i == 10 {
			early = s.descriptors()
		}
	}
	st, err := s.client.Status(s.ctx)
	if err != nil {
		s.fatal("status after %v: %v", lifeOf, err)
	}
	if now := s.descriptors(); early > 0 && now > early+16 {
		s.t.Errorf("daemon %d holds %d descriptors, %d after its start: closed cgroups leak", n, now, early)
	}
	if rss := s.resident(); rss > maxRSS {
		s.t.Errorf("daemon %d resides in %d bytes", n, rss)
	}
	if fi, err := os.Stat(s.dir + "/state/journal"); err == nil && fi.Size() > maxJournal {
		s.t.Errorf("the journal has grown to %d bytes", fi.Size())
	}
	if st.Managed == 0 {
		s.t.Errorf("daemon %d manages nothing", n)
	}
	if err := sys.Kill(s.daemon.Process.Pid, sys.SIGKILL); err != nil {
		s.t.Fatal(err)
	}
	_ = s.daemon.Wait() // killed: the error says only that
	s.log.Close()
	// The next daemon is refused until the worker has put everything back and ended.
	gone := herd.Eventually(s.ctx, 60*time.Second, func() bool { _, err := os.Stat(s.dir + "/swap"); return err != nil })
	if !gone {
		s.fatal("60 s after kill -9 the swap file is still there")
	}
}

func (s *soak) descriptors() int {
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.daemon.Process.Pid))
	if err != nil {
		s.fatal("the daemon is gone: %v", err)
	}
	return len(fds)
}

func (s *soak) resident() int64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.daemon.Process.Pid))
	if err != nil {
		s.fatal("the daemon is gone: %v", err)
	}
	for line := range strings.Lines(string(data)) {
		if v, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(v), " kB"), 10, 64)
			if err != nil {
				s.t.Fatal(err)
			}
			return n << 10
		}
	}
	return 0
}
