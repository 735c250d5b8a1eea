package tier

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/worker"
)

// Changer makes journalled changes to the machine and takes them back; *worker.Client is one.
type Changer interface {
	Do(ctx context.Context, ch worker.Change) (worker.Done, error)
	Undo(ctx context.Context, id string) error
}

// part is one change that a Setup asks for.
type part struct {
	key    string // of the configuration, below "tiers."
	what   string // "create swap file /x of 2 GiB"
	change worker.Change
	hint   string // what to try when the kernel refuses
}

// made is a part that was done.
type made struct {
	part
	id   string
	tier string // name of the tier it made or configured; "" for a setting that belongs to none
}

// undoTimeout bounds taking back a half-made setup: switching a swap file off reads its pages back first.
const undoTimeout = 30 * time.Second

// Plan says what Apply would change, one sentence each, and changes nothing.
func (s *Set) Plan(setup Setup) ([]string, error) {
	parts, err := s.plan(setup)
	if err != nil {
		return nil, err
	}
	var text []string
	for _, p := range parts {
		text = append(text, p.what)
	}
	return text, nil
}

// Apply makes the machine's tiers be what setup asks for. Called again with another setup it keeps what both
// have in common, undoes what is no longer asked for, and makes the rest. When a change fails, everything this
// call made is undone (what it had undone stays undone) and the error says which change, why, and what to do.
// One Apply at a time.
func (s *Set) Apply(ctx context.Context, setup Setup, w Changer) error {
	parts, err := s.plan(setup)
	if err != nil {
		return err
	}
	if err := s.dropObsolete(ctx, parts, w); err != nil {
		return err
	}
	before := len(s.madeNow())
	for _, p := range parts {
		if s.has(p) {
			continue
		}
		done, err := w.Do(ctx, p.change)
		if err != nil {
			hint := cmp.Or(errkind.HintOf(err), p.hint)
			err = errkind.Hint(fmt.Errorf("tier: %s: %w", p.what, err), "%s", hint)
			return errors.Join(err, s.takeBack(ctx, before, w))
		}
		s.log.Info("tier changed", "change", p.what, "device", done.Device)
		s.mu.Lock()
		s.made = append(s.made, made{part: p, id: done.ID, tier: p.makes(done)})
		s.mu.Unlock()
	}
	return s.Refresh()
}

func (s *Set) madeNow() []made {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.made)
}

func (s *Set) has(p part) bool {
	return slices.ContainsFunc(s.madeNow(), func(m made) bool { return m.same(p) })
}

func (p part) same(q part) bool { return p.key == q.key && reflect.DeepEqual(p.change, q.change) }

// makes names the tier that p made or configured.
func (p part) makes(done worker.Done) string {
	switch ch := p.change; {
	case ch.SwapFile != nil:
		return "swap:" + ch.SwapFile.Path
	case ch.Zram != nil:
		return filepath.Base(done.Device)
	case p.key == "page_cluster":
		return ""
	}
	return "zswap"
}

// dropObsolete undoes, newest first, what an earlier Apply made and parts no longer has.
func (s *Set) dropObsolete(ctx context.Context, parts []part, w Changer) error {
	for _, m := range slices.Backward(s.madeNow()) {
		if slices.ContainsFunc(parts, m.same) {
			continue
		}
		if err := s.undo(ctx, m, w); err != nil {
			return err
		}
	}
	return nil
}

// takeBack undoes what was made beyond the first keep changes. It outlives a cancelled context.
func (s *Set) takeBack(ctx context.Context, keep int, w Changer) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	var errs []error
	for _, m := range slices.Backward(s.madeNow()[keep:]) {
		errs = append(errs, s.undo(ctx, m, w))
	}
	return errors.Join(append(errs, s.Refresh())...)
}

func (s *Set) undo(ctx context.Context, m made, w Changer) error {
	if err := w.Undo(ctx, m.id); err != nil {
		return fmt.Errorf("tier: undo %s: %w", m.what, err)
	}
	s.log.Info("tier change undone", "change", m.what)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made = slices.DeleteFunc(s.made, func(o made) bool { return o.id == m.id })
	return nil
}

// plan lists the changes in the order in which they must be made: zswap is set up before there is an area
// behind it, so that no page takes the slow way in between, and undoing in reverse empties areas into memory
// while the pool can still be read.
func (s *Set) plan(setup Setup) ([]part, error) {
	if err := setup.Validate(); err != nil {
		return nil, err
	}
	if err := s.Refresh(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	seen := s.seen
	s.mu.Unlock()
	own := s.madeNow()
	if err := checkZswap(setup, seen); err != nil {
		return nil, err
	}

	parts := s.zswapParts(setup, seen, own)
	if c := setup.PageCluster; c != nil {
		k := worker.Knob{Path: filepath.Join(s.root, "proc/sys/vm/page-cluster"), Value: strconv.Itoa(*c)}
		old, err := readKnob(k.Path)
		if err != nil {
			return nil, fmt.Errorf("tier: read page_cluster: %w", err)
		}
		parts = appendKnob(parts, own, old, part{key: "page_cluster",
			what:   fmt.Sprintf("read %d page(s) a swap fault (page-cluster %s → %s)", 1<<*c, old, k.Value),
			change: worker.Change{Knob: &k}, hint: "remove tiers.page_cluster, or run as root"})
	}
	if z := setup.Zram; z != nil {
		p, err := s.zramPart(*z, seen)
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	if f := setup.SwapFile; f != nil {
		p, err := s.swapFilePart(*f, seen, own)
		if err != nil {
			return nil, err
		}
		if p.change.SwapFile != nil {
			parts = append(parts, p)
		}
	}
	return parts, nil
}

// zswapParts sets the pool up before switching it on.
func (s *Set) zswapParts(setup Setup, seen machine, own []made) (parts []part) {
	if seen.zswapWhy != "" {
		return nil
	}
	add := func(key, file, old, value, hint string) {
		k := worker.Knob{Path: filepath.Join(s.root, "sys/module/zswap/parameters", file), Value: value}
		parts = appendKnob(parts, own, old, part{key: key, hint: hint, change: worker.Change{Knob: &k},
			what: fmt.Sprintf("set zswap %s %s → %s", file, old, value)})
	}
	if c := setup.Compressor; c != "" {
		add("compressor", "compressor", seen.zswap.Compressor, c,
			"load the compressor's module (modprobe "+c+") or remove tiers.compressor")
	}
	if p := setup.MaxPoolPercent; p != 0 {
		add("max_pool_percent", "max_pool_percent", strconv.Itoa(seen.zswap.MaxPoolPercent), strconv.Itoa(p),
			"remove tiers.max_pool_percent, or run as root")
	}
	yes := map[bool]string{true: "Y", false: "N"}
	if want := setup.Zswap; want == On || want == Off {
		add("zswap", "enabled", yes[seen.zswap.Enabled], yes[want == On], "write tiers.zswap: auto, or run as root")
	}
	return parts
}

// appendKnob adds p unless the knob already has the value, by somebody else's hand: then it is not ours to undo.
func appendKnob(parts []part, own []made, old string, p part) []part {
	mine := slices.ContainsFunc(own, func(m made) bool { return m.same(p) })
	if old == p.change.Knob.Value && !mine {
		return parts
	}
	return append(parts, p)
}
