package endurance

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

// spent is a ledger that has written 400 of 600 MiB, over five minutes.
func spent(t testing.TB) *Ledger {
	t.Helper()
	l := New(Config{Rate: float64(mib), TBW: 600e12}, "boot1", epoch)
	for i := range 301 {
		see(l, time.Duration(i)*time.Second, 400*mib*int64(i)/300)
	}
	return l
}

func TestStateComesBack(t *testing.T) {
	l := spent(t)
	left, price := l.Left(), l.Price()
	b, err := l.State(true).Encode()
	if err != nil {
		t.Fatal(err)
	}
	s, err := Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	l = Restore(l.cfg, s, "boot1", epoch.Add(300*time.Second))
	see(l, 300*time.Second, 400*mib)
	if l.Left() != left || l.Price() != price {
		t.Errorf("left %d price %v, before %d %v", l.Left(), l.Price(), left, price)
	}
	if w := l.Report()[0]; w.Total != 400*mib || !w.Since.Equal(epoch) {
		t.Errorf("history %+v", w)
	}
}

func TestStatesMeetTheKernel(t *testing.T) {
	for _, c := range []struct {
		name  string
		clean bool
		boot  string
		after time.Duration
		now   int64 // counter at the next start
		left  int64
	}{
		{"a kill loses nothing: the counter goes on", false, "boot1", time.Second, 450 * mib, 150 * mib},
		{"a clean end", true, "boot1", time.Second, 400 * mib, 200 * mib},
		{"a clean end, long ago", true, "boot1", time.Hour, 400 * mib, 600 * mib},
		{"a clean end and a reboot", true, "boot2", time.Second, 5 * mib, 200 * mib},
		{"a crash of the machine: all that was allowed may have been written", false, "boot2", time.Second, 5 * mib, 0},
		{"a boot without a name is another boot", false, "", time.Second, 450 * mib, 0},
		{"the clock was set back", true, "boot1", -time.Hour, 400 * mib, 200 * mib},
	} {
		s := spent(t).State(c.clean)
		at := 300*time.Second + c.after
		l := Restore(Config{Rate: float64(mib)}, s, c.boot, epoch.Add(at))
		see(l, at, c.now)
		if l.Left() != c.left {
			t.Errorf("%s: left %d MiB, want %d", c.name, l.Left()/mib, c.left/mib)
		}
	}
}

func TestSpentAllowsNothingForTenMinutes(t *testing.T) {
	l := Spent(Config{Rate: float64(mib)}, "x", epoch)
	see(l, 0, 0)
	see(l, Window-time.Second, 0)
	if l.Left() != 0 {
		t.Errorf("left %d", l.Left())
	}
	see(l, Window+slotLen, 0)
	if l.Left() != 600*mib {
		t.Errorf("left %d after the window", l.Left())
	}
}

func TestStateIsRefused(t *testing.T) {
	good, err := spent(t).State(false).Encode()
	if err != nil {
		t.Fatal(err)
	}
	text := string(good)
	for name, bad := range map[string]string{
		"nothing":          "",
		"torn":             text[:len(text)/2],
		"another version":  strings.Replace(text, `"version":1`, `"version":2`, 1),
		"unknown field":    strings.Replace(text, `"version":1`, `"version":1,"x":1`, 1),
		"negative counter": strings.Replace(text, `"swap_out":`, `"swap_out":-`, 1),
		"two of them":      text + text,
		"endless":          text + strings.Repeat(" ", MaxState) + "x",
		"never saved":      `{"version":1}`,
		"nameless drive":   strings.Replace(text, `"sda"`, `""`, 1),
		"too many slots":   strings.Replace(text, `"day":[`, `"day":[`+strings.Repeat("1,", daySlots), 1),
		"a stray bracket":  text + "]",
		"a stray brace":    text + "}",
		"huge":             strings.Replace(text, `"day":[`, `"day":[9223372036854775807,`, 1),
	} {
		if bad == text {
			t.Fatalf("%s: the case changes nothing", name)
		}
		if _, err := Decode([]byte(bad)); !errors.Is(err, ErrState) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The file stays small whatever was written.
func TestStateStaysSmall(t *testing.T) {
	l := New(Config{Rate: 1e12}, "b", epoch)
	var c Counters
	for i := range maxDrives {
		c.Devices = append(c.Devices, Device{Name: "nvme" + string(rune('0'+i)) + "n1p1"})
	}
	for i := range 26 * 60 * 6 {
		for k := range c.Devices {
			c.Devices[k].Written += 1e12 + int64(i)
		}
		c.SwapOut += 1e12
		l.Observe(epoch.Add(time.Duration(i)*10*time.Second), c)
	}
	b, err := l.State(true).Encode()
	if err != nil {
		t.Fatal(err)
	}
	if len(b) > MaxState {
		t.Errorf("%d bytes for %d drives", len(b), maxDrives)
	}
	if _, err := Decode(b); err != nil {
		t.Error(err)
	}
	t.Logf("%d bytes", len(b))
}

func FuzzDecode(f *testing.F) {
	good, err := spent(f).State(false).Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"version":1,"saved":"2026-01-02T03:04:05Z","boot":"b","clean":true,"swap_out":1,"own":{"tokens":-5}}`))
	f.Add([]byte(`{"version":1,"saved":"9999-12-31T23:59:59Z","drives":{"a":{"first":274877906944,"from":274877906944,"last":274877906944,"day":[1]}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Decode(text)
		if err != nil {
			if !errors.Is(err, ErrState) {
				t.Fatal(err)
			}
			return
		}
		for _, boot := range []string{s.Boot, "another"} {
			l := Restore(Config{Rate: float64(mib), TBW: 1e12}, s, boot, epoch)
			for i := range 3 {
				see(l, time.Duration(i)*time.Hour, int64(i)*mib)
				if left, price := l.Left(), l.Price(); left < 0 || left > 600*mib || !(price >= 0 && price <= 1) {
					t.Fatalf("left %d price %v", left, price)
				}
			}
			for _, w := range l.Report() {
				if _, err := json.Marshal(w); err != nil {
					t.Fatalf("%+v: %v", w, err)
				}
			}
			b, err := l.State(true).Encode()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Decode(b); err != nil && !bytes.Contains(b, []byte(`"drives"`)) {
				t.Fatalf("own state refused: %v\n%s", err, b)
			}
		}
	})
}

func TestRating(t *testing.T) {
	for in, want := range map[string]Rating{"600 TB": 600e12, "600TB": 600e12, "1.2 PB": 1200e12, "1 TiB": 1 << 40, "0.3 TB": 3e11} {
		var r Rating
		if err := r.UnmarshalText([]byte(in)); err != nil || r != want {
			t.Errorf("%q: %d, %v", in, r, err)
		}
		b, err := r.MarshalText()
		var again Rating
		if err != nil || again.UnmarshalText(b) != nil || again != r {
			t.Errorf("%q is written as %q and read as %d", in, b, again)
		}
	}
	for _, in := range []string{"", "600", "TB", "-1 TB", "NaN TB", "1e30 PB", "600 GB", "Inf TB"} {
		r := Rating(7)
		if err := r.UnmarshalText([]byte(in)); err == nil || r != 7 || !strings.Contains(err.Error(), "data sheet") {
			t.Errorf("%q: %d, %v", in, r, err)
		}
	}
	if got := Rating(1200e12).String() + ", " + Rating(600e12).String(); got != "1.2 PB, 600 TB" {
		t.Error(got)
	}
}
