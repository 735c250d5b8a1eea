// Package worker is the one process that changes the machine, and the daemon's handle on it.
//
// Promise: whatever the worker changed is undone when the daemon ends, however it ends. The worker holds one end
// of a pipe; when the other end closes it restores limits and knobs within a second, then takes swap and
// directories back. Every change is in the journal before it is made, so that the loss of both processes is
// repaired by Restore or by the next Start. A value that somebody else changed meanwhile is left alone.
// Ownership: the worker holds StateDir/lock while it lives; it alone writes the journal. A Client belongs to the
// process that started it, may be used concurrently, and is closed with Close.
// Lock order: server.mu, then a thread's mu; the journal's own lock is innermost. No lock is held during a
// system call that can block, except by the thread that makes it.
// Failure: a worker that dies closes Client.Dead and fails what is outstanding with errkind.Unavailable; its
// changes stay journalled. Errors crossing the pipe keep kind, hint and the sentinels a caller asks for.
// Non-goals: deciding how much to take from whom, running as another user, remote workers.
package worker

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/journal"
	"github.com/spillway-io/spillway/internal/swap"
)

// ErrInFlight says that a step on the same cgroup has not ended yet; the new one was not begun.
var ErrInFlight = errors.New("a step on this cgroup is still running")

// Config says how to start a worker.
type Config struct {
	// Exe is the program to run as `EXE worker --state-dir DIR`; "" is this very program.
	Exe string
	// StateDir holds the journal and the lock; absolute. It is made (0700) when missing and must belong to this user.
	StateDir string
	// Log receives what the worker undid of an earlier run, and its end; nil discards.
	Log *slog.Logger
	// Stderr receives the worker's own log, also after the daemon's death; nil is os.Stderr.
	Stderr *os.File
}

// Step asks to take Bytes from a cgroup without going below Floor, both in bytes.
type Step struct {
	Cgroup string // path as in cgroup.Entry
	Inode  uint64 // as in cgroup.Entry; another inode at the path is cgroup.ErrGone; 0 takes what is there
	Bytes  int64
	Floor  int64
	// Swappiness says which memory to take; the zero value leaves it to the kernel.
	Swappiness cgroup.Swappiness
}

// StepResult is what a step did. Before and After are the cgroup's usage in bytes, as read around the step.
type StepResult struct {
	Before, After int64
	Took          time.Duration
	FailCnt       uint64 // charges that hit the lowered limit meanwhile (v1)
	Busy          bool   // the kernel gave up before the whole step was taken
	// By names the file through which Step.Swappiness reached the kernel (cgroup.FileReclaim and so on), "" for the
	// kernel's own choice. Swappiness is what it was told: less than was asked where it has no "max".
	By         string
	Swappiness cgroup.Swappiness
}

// Change is one lasting change; exactly one field is set.
type Change struct {
	Knob     *Knob     `json:"knob,omitempty"`
	SwapFile *SwapFile `json:"swapfile,omitempty"`
	Zram     *Zram     `json:"zram,omitempty"`
	Mkdir    *Mkdir    `json:"mkdir,omitempty"`
	TempDir  *TempDir  `json:"tempdir,omitempty"`
	Kdamond  *Kdamond  `json:"kdamond,omitempty"`
}

// Knob writes Value to the file Path below /sys, /proc/sys or a cgroup mount. The file must be readable, or there
// would be no value to go back to.
type Knob struct {
	Path  string
	Value string // at most 4096 bytes, written with one system call
}

// SwapFile makes a swap file of Size bytes and switches it on. Undoing switches it off, which needs as much free
// memory as it holds, and deletes it.
type SwapFile struct {
	Path     string
	Size     int64
	Priority int // negative: the kernel's choice
}

// Zram sets up a zram device of Size bytes before compression and switches it on as swap.
type Zram struct {
	Size      int64
	Algorithm string // "" keeps the kernel's
	Priority  int    // negative: the kernel's choice
}

// Mkdir makes a cgroup. Path is the absolute directory below a cgroup mount.
type Mkdir struct {
	Path string
	// KillOnUndo kills whatever runs in the cgroup and below it when it is removed; without it a cgroup in use stays.
	KillOnUndo bool
}

// TempDir makes a directory (0700) that is removed with its contents on undo.
type TempDir struct{ Path string }

// Kdamond sets up DAMON's one kdamond, empty and not running, where nobody has set up any. The caller fills in the
// files of its directory and switches it on with Client.Kdamond; undoing switches it off and removes the directory.
type Kdamond struct{}

// Done says how to undo a change.
type Done struct {
	ID     string // for Undo
	Device string // swap file's or zram device's path; "" for others
}

// Usage is what the worker process itself costs.
type Usage struct {
	CPU     time.Duration // user and system since its start
	MaxRSS  int64         // bytes
	Entries int           // changes in the journal
}

// Results an Outcome can have. A dry run says what would happen with the same words.
const (
	Restored  = "restored"                       // the old value was written back
	Removed   = "removed"                        // what we made is gone
	Nothing   = "nothing to do"                  // the old state is there already
	Alone     = "changed by another, left alone" // the present state is not the one we made
	OtherBoot = "gone with an earlier boot"      // the reboot undid it
	Kept      = "kept"                           // could not be undone now; stays in the journal; Err says why
)

// Outcome is what became of one journalled change.
type Outcome struct {
	What   string // "limit /kubepods/a", "knob /sys/…"
	Old    string // value to go back to, "" where there is none
	Now    string // value found
	Result string // one of the constants above
	Err    error  // set with Kept
}

// kind says which change this is and its path ("" where the worker chooses), and refuses nonsense.
func (ch Change) kind() (k journal.Kind, path string, err error) {
	set := 0
	pick := func(is bool, kind journal.Kind, p func() string) {
		if is {
			set++
			k, path = kind, p()
		}
	}
	pick(ch.Knob != nil, journal.Knob, func() string { return ch.Knob.Path })
	pick(ch.SwapFile != nil, journal.SwapFile, func() string { return ch.SwapFile.Path })
	pick(ch.Zram != nil, journal.Zram, func() string { return "" })
	pick(ch.Mkdir != nil, journal.Mkdir, func() string { return ch.Mkdir.Path })
	pick(ch.TempDir != nil, journal.TempDir, func() string { return ch.TempDir.Path })
	pick(ch.Kdamond != nil, journal.Kdamond, func() string { return "" })
	if set != 1 {
		return "", "", errkind.New(errkind.Invalid, "worker: change: %d kinds set, want one", set)
	}
	if k != journal.Zram && k != journal.Kdamond {
		if err := checkPath(path); err != nil {
			return "", "", errkind.New(errkind.Invalid, "worker: %s %q: %w", k, path, err)
		}
	}
	return k, path, ch.values()
}

func (ch Change) values() error {
	priority := -1
	switch {
	case ch.Knob != nil:
		if len(ch.Knob.Value) > maxValue || strings.ContainsRune(ch.Knob.Value, 0) || !utf8.ValidString(ch.Knob.Value) {
			return errkind.New(errkind.Invalid, "worker: knob %q: value of %d bytes is above %d or is not text", ch.Knob.Path, len(ch.Knob.Value), maxValue)
		}
	case ch.SwapFile != nil:
		priority = ch.SwapFile.Priority
	case ch.Zram != nil:
		priority = ch.Zram.Priority
	}
	if priority > swap.MaxPriority {
		return errkind.New(errkind.Invalid, "worker: change: priority %d above %d", priority, swap.MaxPriority)
	}
	return nil
}

func checkPath(p string) error {
	switch {
	case len(p) > 4095:
		return fmt.Errorf("path of %d bytes", len(p))
	case !filepath.IsAbs(p):
		return errors.New("path is not absolute")
	case filepath.Clean(p) != p:
		return fmt.Errorf("path is not in its shortest form, %q", filepath.Clean(p))
	case p == "/":
		return errors.New("refusing the root directory")
	case strings.ContainsRune(p, 0) || !utf8.ValidString(p):
		return errors.New("path is not text")
	}
	return nil
}
