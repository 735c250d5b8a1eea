package journal

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"unicode/utf8"
)

// Kind says what an entry changed.
type Kind string

// The kinds of change.
const (
	Limit    Kind = "limit"    // a v1 cgroup's memory limit, lowered for an instant at each step
	Balance  Kind = "balance"  // what of a cgroup may be swapped, changed for the length of a step
	Knob     Kind = "knob"     // one value in a file of the kernel
	SwapFile Kind = "swapfile" // a swap file made and switched on
	Zram     Kind = "zram"     // a zram device set up and switched on as swap
	Mkdir    Kind = "mkdir"    // a cgroup made
	TempDir  Kind = "tempdir"  // a directory made, contents and all
	Kdamond  Kind = "kdamond"  // DAMON's kdamond set up, and perhaps running
)

// Durable says whether the change outlives a reboot.
func (k Kind) Durable() bool { return k == SwapFile || k == TempDir }

func (k Kind) known() bool {
	switch k {
	case Limit, Balance, Knob, SwapFile, Zram, Mkdir, TempDir, Kdamond:
		return true
	}
	return false
}

// Entry is one change. Which fields mean something depends on Kind; Path always does.
type Entry struct {
	ID    uint64 // chosen by Put, unique among live entries
	Kind  Kind
	Boot  string // boot id
	At    int64  // seconds since 1970
	Path  string // limit, balance: cgroup path below the memory mount; knob: file; zram: device; begins with a slash
	Inode uint64 // of what is at Path; 0 before it is made, or where inodes say nothing

	Old, New string // knob: value before; value read back after writing, or the one asked for; balance: New names the file
	Size     int64  // swapfile, zram: bytes
	Priority int    // swapfile, zram
	Made     bool   // the change was completed
	Added    bool   // zram: the device itself is ours
	Kill     bool   // mkdir: undoing kills what is in it

	Pending  bool  // limit, balance: a step is (or was, when the process died) between changing and restoring
	From, To int64 // limit, balance: value before and meanwhile, bytes or a weight; cgroup.Unlimited
}

// Report says what a reading skipped.
type Report struct {
	Torn       bool   // the last line had no end: the process was killed while writing it
	Damaged    int    // lines with a wrong checksum or content
	FirstError string // about the first damaged line
}

// Clean says that nothing was skipped.
func (r Report) Clean() bool { return !r.Torn && r.Damaged == 0 }

// MaxLine is the longest line in bytes, newline included. Two values of a page and a path, each byte of
// which may be written as six, fit.
const MaxLine = 128 << 10

const (
	version  = "1"
	opOpen   = "open"
	opIntent = "intent"
	opDone   = "done"
	opClosed = "closed"
)

// Text is a string that survives JSON even where it is not UTF-8, as names in a cgroup tree need not be.
type Text string

// MarshalJSON gives a JSON string, or {"hex": …} for what is not UTF-8.
func (t Text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(struct {
		Hex string `json:"hex"`
	}{hex.EncodeToString([]byte(t))})
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (t *Text) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, (*string)(t))
	}
	var h struct {
		Hex string `json:"hex"`
	}
	if err := json.Unmarshal(b, &h); err != nil {
		return err
	}
	raw, err := hex.DecodeString(h.Hex)
	*t = Text(raw)
	return err
}

// wire is a line's JSON object.
type wire struct {
	Op       string `json:"op"`
	ID       uint64 `json:"id"`
	Kind     Kind   `json:"kind,omitempty"`
	Boot     string `json:"boot,omitempty"`
	At       int64  `json:"at,omitempty"`
	Path     Text   `json:"path,omitempty"`
	Inode    uint64 `json:"ino,omitempty"`
	Old      Text   `json:"old,omitempty"`
	New      Text   `json:"new,omitempty"`
	Size     int64  `json:"size,omitempty"`
	Priority int    `json:"prio,omitempty"`
	Made     bool   `json:"made,omitempty"`
	Added    bool   `json:"added,omitempty"`
	Kill     bool   `json:"kill,omitempty"`
	From     int64  `json:"from,omitempty"`
	To       int64  `json:"to,omitempty"`
}

// Record is one decoded line.
type Record struct {
	Op    string // open, intent, done, closed
	Entry Entry  // open: whole; intent: ID, From, To; others: ID
}

var crcTable = crc32.MakeTable(crc32.Castagnoli)

// A line is: version, space, CRC-32C of the object in eight hex digits, space, the object, newline.
const prefixLen = len(version) + 1 + 8 + 1

func begin(b []byte) []byte { return append(b, version+" 00000000 "...) }

// end fills in the checksum of the object that starts behind the prefix at start.
func end(b []byte, start int) []byte {
	const digits = "0123456789abcdef"
	sum := crc32.Checksum(b[start+prefixLen:], crcTable)
	for i := range 8 {
		b[start+len(version)+1+i] = digits[sum>>(28-4*i)&15]
	}
	return append(b, '\n')
}

func appendOpen(b []byte, e Entry) ([]byte, error) {
	start := len(b)
	obj, err := json.Marshal(wire{
		Op: opOpen, ID: e.ID, Kind: e.Kind, Boot: e.Boot, At: e.At, Path: Text(e.Path), Inode: e.Inode,
		Old: Text(e.Old), New: Text(e.New), Size: e.Size, Priority: e.Priority,
		Made: e.Made, Added: e.Added, Kill: e.Kill,
	})
	if err != nil {
		return b, err
	}
	if prefixLen+len(obj)+1 > MaxLine {
		return b, fmt.Errorf("record of %d bytes is above %d", len(obj), MaxLine)
	}
	return end(append(begin(b), obj...), start), nil
}

// appendIntent and appendShort are written by hand because they run at every step.
func appendIntent(b []byte, id uint64, from, to int64) []byte {
	start := len(b)
	b = append(begin(b), `{"op":"intent","id":`...)
	b = strconv.AppendUint(b, id, 10)
	b = append(b, `,"from":`...)
	b = strconv.AppendInt(b, from, 10)
	b = append(b, `,"to":`...)
	b = strconv.AppendInt(b, to, 10)
	return end(append(b, '}'), start)
}

func appendShort(b []byte, op string, id uint64) []byte {
	start := len(b)
	b = append(begin(b), `{"op":"`...)
	b = append(b, op...)
	b = append(b, `","id":`...)
	b = strconv.AppendUint(b, id, 10)
	return end(append(b, '}'), start)
}

// Decode reads one line, without its newline. A line of another version, with a wrong checksum or with
// contents that make no sense is an error.
func Decode(line []byte) (Record, error) {
	if len(line) >= MaxLine {
		return Record{}, errors.New("line too long")
	}
	ver, rest, ok := bytes.Cut(line, []byte{' '})
	if !ok {
		return Record{}, errors.New("no version")
	}
	if string(ver) != version {
		return Record{}, fmt.Errorf("version %.20q, not %s", ver, version)
	}
	sum, obj, ok := bytes.Cut(rest, []byte{' '})
	var want [4]byte
	if !ok || len(sum) != 8 {
		return Record{}, errors.New("no checksum")
	}
	if _, err := hex.Decode(want[:], sum); err != nil {
		return Record{}, errors.New("no checksum")
	}
	got := crc32.Checksum(obj, crcTable)
	if got != uint32(want[0])<<24|uint32(want[1])<<16|uint32(want[2])<<8|uint32(want[3]) {
		return Record{}, errors.New("wrong checksum")
	}
	var w wire
	if err := json.Unmarshal(obj, &w); err != nil {
		return Record{}, err
	}
	if w.ID == 0 {
		return Record{}, errors.New("no id")
	}
	r := Record{Op: w.Op, Entry: Entry{ID: w.ID}}
	switch w.Op {
	case opOpen:
		if !w.Kind.known() {
			return Record{}, fmt.Errorf("unknown kind %.40q", w.Kind)
		}
		if w.Path == "" || w.Path[0] != '/' {
			return Record{}, fmt.Errorf("path %.80q is not absolute", w.Path)
		}
		r.Entry = Entry{
			ID: w.ID, Kind: w.Kind, Boot: w.Boot, At: w.At, Path: string(w.Path), Inode: w.Inode,
			Old: string(w.Old), New: string(w.New), Size: w.Size, Priority: w.Priority,
			Made: w.Made, Added: w.Added, Kill: w.Kill,
		}
	case opIntent:
		r.Entry.From, r.Entry.To = w.From, w.To
	case opDone, opClosed:
	default:
		return Record{}, fmt.Errorf("unknown op %.40q", w.Op)
	}
	return r, nil
}
