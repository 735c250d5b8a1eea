package offload

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spillway-io/spillway/internal/bytesize"
	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/proc"
	"github.com/spillway-io/spillway/internal/sys"
	"github.com/spillway-io/spillway/offload/endurance"
)

// Endurance is the budget for what swapping writes to flash.
type Endurance struct {
	Off bool `yaml:"off"` // write as the laws and the kernel please
	// Budget is what swapping may write in a day. Default 80 GiB, about the 1 MB a second to which TMO limits a host
	// (ASPLOS 2022, section 4.5). Other programs' writes do not count.
	Budget bytesize.Size `yaml:"budget"`
	// TBW is what the drive is rated for, as on its data sheet ("600 TB"). It gives the forecast, and without a budget
	// also the budget: TBW evenly over Years, in which every write on the drive counts. Default unknown.
	TBW endurance.Rating `yaml:"tbw"`
	// Years is how long the drive is to last. Default 5.
	Years float64 `yaml:"years"`
	// Burst is what may be written ahead of the even pace. Default ten minutes of the budget, which is also the most.
	Burst bytesize.Size `yaml:"burst"`
}

const (
	defaultBudget = 80 * bytesize.GiB // a day
	defaultYears  = 5
	day           = 24 * 60 * 60 // seconds
	yearSeconds   = 365.25 * day
)

// resolved fills defaults.
func (e Endurance) resolved() Endurance {
	e.Years = cmp.Or(e.Years, defaultYears)
	if e.TBW == 0 {
		e.Budget = cmp.Or(e.Budget, defaultBudget)
	}
	return e
}

// budget is e for the ledger. e is resolved.
func (e Endurance) budget() endurance.Config {
	c := endurance.Config{Rate: float64(e.Budget) / day, Burst: int64(e.Burst), TBW: int64(e.TBW)}
	if e.Budget == 0 {
		c.Rate, c.Whole = float64(e.TBW)/(e.Years*yearSeconds), true
	}
	return c
}

// check refuses what cannot work. e is resolved.
func (e Endurance) check() error {
	bad := func(hint, format string, a ...any) error {
		return errkind.Hint(errkind.New(errkind.Invalid, "offload: endurance."+format, a...), "%s", hint)
	}
	rate := e.budget().Rate
	switch most := bytesize.Size(rate * endurance.Window.Seconds()); {
	case e.Budget < 0 || e.TBW < 0 || e.Burst < 0:
		return bad("leave a key out for its default", "budget, tbw and burst cannot be negative")
	case !(e.Years > 0 && e.Years <= 100):
		return bad("5 is the default", "years %v is outside (0,100]", e.Years)
	case rate < float64(bytesize.GiB)/day:
		return bad("80GiB a day is the default; to write nothing at all use no disk for swap", "budget or tbw over years is less than 1 GiB a day")
	case e.Burst > most:
		return bad("leave it out for the most", "burst %v is more than ten minutes of the budget, %v", e.Burst, most)
	case e.Burst > 0 && e.Burst < 8*bytesize.MiB:
		return bad("leave it out for the default", "burst %v is under 8 MiB: hardly any step would fit", e.Burst)
	}
	return nil
}

const (
	wearFile = "endurance.json"
	// saveWearEvery bounds what a crash of the machine makes unknown.
	saveWearEvery = time.Minute
)

// loadWear reads what the last daemon left; nil without an error when there is nothing. A file that cannot be trusted
// is moved aside.
func (a *Agent) loadWear() (*endurance.State, error) {
	if a.deps.StateDir == "" {
		return nil, nil
	}
	name := filepath.Join(a.deps.StateDir, wearFile)
	f, err := sys.OpenRegular(name, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	aside := func(err error) error {
		return errors.Join(fmt.Errorf("offload: wear state %s, kept as %s.damaged: %w", name, wearFile, err), os.Rename(name, name+".damaged"))
	}
	if errors.Is(err, sys.ErrNotRegular) { // a directory would also be in the way of the next save
		return nil, aside(err)
	}
	if err != nil {
		return nil, fmt.Errorf("offload: wear state: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, endurance.MaxState+1))
	if err != nil {
		return nil, fmt.Errorf("offload: wear state: %w", err)
	}
	s, err := endurance.Decode(b)
	if err != nil {
		return nil, aside(err)
	}
	return &s, nil
}

// saveWear writes the state, in a goroutine of its own: a slow disk must not hold up the brake. clean waits for it.
func (a *Agent) saveWear(clean bool) {
	if a.deps.StateDir == "" {
		return
	}
	w := &a.wear
	b, err := w.ledger.State(clean).Encode()
	if err != nil {
		a.warnOnce("wear", "wear state not saved", err)
		return
	}
	w.saves.Wait() // a minute later the last one has ended
	w.saves.Go(func() {
		if err := replaceFile(filepath.Join(a.deps.StateDir, wearFile), b); err != nil {
			a.log.Warn("wear state not saved; a crash of the machine would make what was written unknown", "error", err)
		}
	})
	if clean {
		w.saves.Wait()
	}
}

// replaceFile makes name hold b, or leaves it as it was.
func replaceFile(name string, b []byte) error {
	temp := name + ".tmp"
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("offload: %w", err)
	}
	f, err := sys.OpenRegular(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("offload: %w", err)
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(temp, name)
	}
	if err != nil {
		return fmt.Errorf("offload: write %s: %w", name, errors.Join(err, os.Remove(temp)))
	}
	return nil
}

// closeWear counts what the last steps wrote and saves the state. No step is in flight.
func (a *Agent) closeWear(now time.Time) {
	w := &a.wear
	if w.ledger == nil {
		return
	}
	w.saves.Wait()
	if !w.begun {
		return
	}
	clean := a.reader.Vmstat(&a.host.vm) == nil
	disks, err := proc.ReadDisks(a.deps.Root)
	w.saved = now // one save is enough
	if clean = clean && err == nil; clean {
		a.sampleWear(now, disks)
	}
	w.saves.Wait()
	a.saveWear(clean)
	w.saves.Wait()
	w.ledger = nil
}
