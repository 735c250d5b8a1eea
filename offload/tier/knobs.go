package tier

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spillway-io/spillway/internal/cgroup"
)

// Knob is one thing that decides where evicted pages go, and whether this kernel lets a daemon turn it.
type Knob struct {
	Name  string // "memory.zswap.max"
	Since string // first kernel that has it; "" where no version decides
	Have  bool
	Value string // what it reads now; "" for one of each cgroup
	Does  string // what is steered with it, as the end of "it can …"
	Guess bool   // by the kernel's version: nothing shows before a step tries it
}

// Knobs says what can be steered on this machine and what cannot, the finest first.
//
// They are used so: the choice between file and anonymous memory is made at every step; a cgroup whose pages do not
// shrink is kept out of the compressed pool by memory.zswap.max (cgroup v2), or where there is no such file loses only
// file cache; what the pool holds for long goes to the disk behind by the kernel's own shrinker when that is on; which
// of several areas fills first is their priority. Nothing of it needs the machine's vm.swappiness.
func (s *Set) Knobs(h cgroup.Hierarchy, release string) []Knob {
	s.mu.Lock()
	seen := s.seen
	s.mu.Unlock()
	v2 := h.Mode == cgroup.V2
	dir := anyCgroup(h.Memory)
	has := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return dir != "" && err == nil
	}
	ks := []Knob{
		{Name: "memory.reclaim swappiness=", Since: "6.11", Have: v2 && h.CanReclaim && since(release, 6, 11), Guess: true,
			Does: "weigh file cache against anonymous memory at each step"},
		{Name: "memory.reclaim swappiness=max", Since: "6.16", Have: v2 && h.CanReclaim && since(release, 6, 16), Guess: true,
			Does: "take anonymous memory and nothing else"},
		{Name: cgroup.FileSwappiness, Have: !v2 && has(cgroup.FileSwappiness),
			Does: "weigh file cache against anonymous memory by changing it around each step (cgroup v1)"},
		{Name: cgroup.FileSwapMax, Since: "4.5", Have: v2 && has(cgroup.FileSwapMax),
			Does: "take file cache alone by changing it around a step, where memory.reclaim takes no swappiness"},
		{Name: "memory.zswap.max", Since: "5.19", Have: v2 && has("memory.zswap.max") && seen.zswapWhy == "",
			Does: "keep a cgroup whose pages do not shrink out of the pool"},
		{Name: "memory.zswap.writeback", Since: "6.8", Have: v2 && has("memory.zswap.writeback") && seen.zswapWhy == "",
			Does: "keep a cgroup's pages in the pool and off the disk"},
		{Name: "zswap shrinker_enabled", Since: "6.8", Have: seen.zswapWhy == "" && seen.zswap.HasShrinker,
			Does: "let the kernel move what is long cold from the pool to the disk"},
	}
	if ks[6].Have {
		ks[6].Value = map[bool]string{true: "on", false: "off"}[seen.zswap.Shrinker]
	}
	return append(ks, s.priorities(seen))
}

// priorities is the one knob that every kernel has.
func (s *Set) priorities(seen machine) Knob {
	k := Knob{Name: "swap priorities", Have: len(seen.areas) > 1, Does: "fill one swap area before another"}
	for _, a := range seen.areas {
		k.Value += cmp.Or(map[bool]string{true: ", "}[k.Value != ""], "") + a.name + " " + strconv.Itoa(a.Priority)
	}
	return k
}

// Steering sums Knobs up in two sentences' worth of words: what can be steered here, and what cannot.
func Steering(ks []Knob) (can, cannot []string) {
	weigh := slices.ContainsFunc(ks, func(k Knob) bool { return k.Have && strings.HasPrefix(k.Does, "weigh") })
	for _, k := range ks {
		text := k.Does + " (" + k.Name
		if k.Value != "" {
			text += ": " + k.Value
		}
		switch {
		case k.Have:
			if k.Guess {
				text += ", by the kernel's version"
			}
			can = append(can, text+")")
		case k.Name == cgroup.FileSwapMax || weigh && strings.HasPrefix(k.Does, "weigh") || k.Name == "swap priorities":
			// another way does the same, or there is nothing to choose between
		default:
			if k.Since != "" {
				text += ", Linux " + k.Since + " with cgroup v2"
			}
			cannot = append(cannot, text+")")
		}
	}
	return can, cannot
}

// anyCgroup is the first cgroup below the mount: the root shows few of the files. "" when there is none.
func anyCgroup(mount string) string {
	entries, err := os.ReadDir(mount)
	if err != nil {
		return ""
	}
	for _, e := range entries {
		dir := filepath.Join(mount, e.Name())
		if _, err := os.Stat(filepath.Join(dir, "memory.stat")); e.IsDir() && err == nil {
			return dir
		}
	}
	return ""
}

// since compares a release such as "6.12.111-cloud-amd64" with a version. What it cannot read is older than everything.
func since(release string, major, minor int) bool {
	head, rest, _ := strings.Cut(release, ".")
	m, err := strconv.Atoi(head)
	if err != nil {
		return false
	}
	digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	n, err := strconv.Atoi(digits)
	return m > major || m == major && err == nil && n >= minor
}

// Shrinker says whether this kernel has zswap's shrinker, and whether it is on.
func (s *Set) Shrinker() (have, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen.zswapWhy == "" && s.seen.zswap.HasShrinker, s.seen.zswap.Shrinker
}

// ShrinkerKnob is the file that switches it.
func (s *Set) ShrinkerKnob() string {
	return filepath.Join(s.root, "sys/module/zswap/parameters/shrinker_enabled")
}

// Misordered says which compressed disk in memory is filled no sooner than a real one, and what to do; "" when none.
// Priorities of areas that others made are theirs to change: it takes switching the area off, which reads its pages
// back.
func (s *Set) Misordered() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, z := range s.seen.areas {
		if z.kind != KindZram {
			continue
		}
		for _, d := range s.seen.areas {
			if d.kind != KindZram && d.Priority >= z.Priority {
				return fmt.Sprintf("fill compressed memory first: %s has priority %d and %s %d; swapoff %s, then swapon -p %d %s",
					d.name, d.Priority, z.name, z.Priority, z.Path, max(zramPriority, min(d.Priority, maxPriority-1)+1), z.Path)
			}
		}
	}
	return ""
}
