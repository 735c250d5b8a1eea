// Package wire is what the host and the guest's init say to each other: one Plan to the guest, a file in its
// initramfs, and a stream of Frames back, one JSON object a line on the second serial port.
//
// Promise: lines survive a terminal in its default mode, which turns \n into \r\n. Output of programs travels as
// base64, so its bytes never look like a line of ours. Ownership: an Encoder may be used from several
// goroutines, a Decoder from one. Failure: a line that is no frame is an error of Decode, never skipped.
// Non-goals: flow control, anything from host to guest after the boot.
package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"
)

// PlanPath is where init finds its Plan.
const PlanPath = "/spillway-guest.json"

// BusyboxPath is where init finds busybox; without it the guest has no shell.
const BusyboxPath = "/bin/busybox"

// Port is the device that carries frames out of the guest.
const Port = "/dev/ttyS1"

// MaxOutput is the most output of a program in bytes that one KindOutput frame carries.
const MaxOutput = 8 << 10

// Plan is all that init does, in the order of the fields.
type Plan struct {
	Modules  []string  `json:"modules,omitempty"`  // paths in the guest, each after those it depends on
	Disks    []Disk    `json:"disks,omitempty"`    // found by serial number
	ZramSwap int64     `json:"zramSwap,omitempty"` // bytes of swap on a zram device, 0 for none
	Zswap    bool      `json:"zswap,omitempty"`    // switch zswap on, else off
	MGLRU    bool      `json:"mglru,omitempty"`    // switch the multi-generation LRU on, else off
	Programs []Program `json:"programs,omitempty"` // run one after the other
}

// Disk is one virtio disk.
type Disk struct {
	Serial string `json:"serial"`
	Size   int64  `json:"size"`            // bytes
	Mount  string `json:"mount,omitempty"` // directory; the disk then carries ext4
	Swap   bool   `json:"swap,omitempty"`  // format as swap and switch on
}

// Program is one program to run.
type Program struct {
	Path string   `json:"path"`
	Args []string `json:"args,omitempty"`
	Dir  string   `json:"dir,omitempty"`
	Env  []string `json:"env,omitempty"` // added to PATH, HOME and TMPDIR

	Bare bool `json:"bare,omitempty"` // the plan's swap and zswap are off while it runs
}

// Kind says what a Frame tells.
type Kind string

const (
	KindBoot   Kind = "boot"   // init runs: Release, Uptime
	KindStart  Kind = "start"  // program Index starts
	KindOutput Kind = "output" // Data from program Index, stdout and stderr together
	KindExit   Kind = "exit"   // program Index ended: Code, Took, Message when it did not start or was killed
	KindFail   Kind = "fail"   // init cannot follow the plan: Message
	KindDone   Kind = "done"   // all programs ran; the guest powers off
)

// Frame is one message from the guest.
type Frame struct {
	Kind    Kind          `json:"kind"`
	Index   int           `json:"index,omitempty"`
	Data    []byte        `json:"data,omitempty"`
	Code    int           `json:"code,omitempty"` // exit code; -1 when a signal ended it or it did not start
	Took    time.Duration `json:"took,omitempty"` // guest time
	Uptime  time.Duration `json:"uptime,omitempty"`
	Release string        `json:"release,omitempty"` // kernel release
	Message string        `json:"message,omitempty"`
}

// Encoder writes frames. The zero value is unusable; see NewEncoder.
type Encoder struct {
	mu sync.Mutex
	w  io.Writer
}

// NewEncoder writes to w, which it does not own.
func NewEncoder(w io.Writer) *Encoder { return &Encoder{w: w} }

// Encode writes f as one line with one call of Write.
func (e *Encoder) Encode(f Frame) error {
	b, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("wire: encode frame %s: %w", f.Kind, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, err := e.w.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("wire: write frame %s: %w", f.Kind, err)
	}
	return nil
}

// Output is an io.Writer that sends what is written to it as output of program index.
func (e *Encoder) Output(index int) io.Writer { return output{e, index} }

type output struct {
	e     *Encoder
	index int
}

func (o output) Write(p []byte) (int, error) {
	for n := 0; n < len(p); n += MaxOutput {
		part := p[n:min(n+MaxOutput, len(p))]
		if err := o.e.Encode(Frame{Kind: KindOutput, Index: o.index, Data: part}); err != nil {
			return n, err
		}
	}
	return len(p), nil
}

// Decoder reads frames.
type Decoder struct{ s *bufio.Scanner }

// NewDecoder reads from r, which it does not own. A line over 64 KiB is an error.
func NewDecoder(r io.Reader) *Decoder {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 4<<10), 64<<10)
	return &Decoder{s: s}
}

// Decode returns the next frame, io.EOF at the end of the stream.
func (d *Decoder) Decode() (Frame, error) {
	for d.s.Scan() {
		line := bytes.TrimSpace(d.s.Bytes())
		if len(line) == 0 {
			continue
		}
		var f Frame
		if err := json.Unmarshal(line, &f); err != nil {
			return Frame{}, fmt.Errorf("wire: decode frame %.80q: %w", line, err)
		}
		return f, nil
	}
	if err := d.s.Err(); err != nil {
		return Frame{}, fmt.Errorf("wire: read frame: %w", err)
	}
	return Frame{}, io.EOF
}
