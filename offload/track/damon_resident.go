package track

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spillway-io/spillway/internal/proc"
	"github.com/spillway-io/spillway/internal/sys"
)

// Bits of /proc/PID/pagemap (the kernel's admin-guide/mm/pagemap).
const (
	pagePresent   = 1 << 63
	pageExclusive = 1 << 56 // mapped by this process alone
)

// maxPages bounds how many entries of pagemap one scan reads: 64 GiB of addresses, 128 MiB of text.
const maxPages = 16 << 20

// pagemap counts what is there of a process's addresses, as long as left, in pages, lasts.
type pagemap struct {
	buf  []byte
	page uint64
	left uint64
}

func newPagemap() *pagemap {
	return &pagemap{buf: make([]byte, 64<<10), page: uint64(os.Getpagesize()), left: maxPages}
}

// resident is how many bytes of e are in memory and mapped by this process alone. ok is false when the budget is spent.
func (p *pagemap) resident(f io.ReaderAt, e extent) (n int64, ok bool, err error) {
	first, end := e.start/p.page, e.end/p.page
	if end-first > p.left {
		return 0, false, nil
	}
	p.left -= end - first
	for first < end {
		want := p.buf[:min(uint64(len(p.buf)), 8*(end-first))]
		got, err := readFull(f, want, int64(8*first))
		if err != nil {
			return 0, false, err
		}
		for i := 0; i+8 <= got; i += 8 {
			if binary.NativeEndian.Uint64(want[i:])&(pagePresent|pageExclusive) == pagePresent|pageExclusive {
				n += int64(p.page)
			}
		}
		if got < len(want) {
			return n, true, nil
		}
		first += uint64(len(want)) / 8
	}
	return n, true, nil
}

// parseVMAs reads smaps: the mappings with private memory, ascending, and the process's share of all memory.
func parseVMAs(r io.Reader) (vmas []vma, pss int64, err error) {
	var now vma
	flush := func() error {
		if now.private > 0 && now.start < now.end {
			if n := len(vmas); n > 0 && vmas[n-1].end > now.start {
				return fmt.Errorf("mappings overlap at %#x: %w", now.start, proc.ErrFormat)
			}
			now.private = min(now.private, int64(now.end-now.start))
			vmas = append(vmas, now)
		}
		return nil
	}
	lines := newLines(r)
	for {
		line, err := lines.next()
		if errors.Is(err, io.EOF) {
			return vmas, pss, flush()
		}
		if err != nil {
			return nil, 0, err
		}
		if lines.seen > maxSmaps {
			return nil, 0, fmt.Errorf("more than %d bytes about its mappings: %w", maxSmaps, proc.ErrFormat)
		}
		if len(line) == 0 {
			continue
		}
		if line[0] < 'A' || line[0] > 'Z' {
			if err := flush(); err != nil {
				return nil, 0, err
			}
			var ok bool
			if now, ok = parseExtent(line); !ok {
				return nil, 0, badLine(line)
			}
			continue
		}
		key, rest, _ := bytes.Cut(line, []byte(":"))
		var dst *int64
		switch string(key) {
		case "Pss":
			dst = &pss
		case "Private_Clean", "Private_Dirty":
			dst = &now.private
		default:
			continue
		}
		number, _ := proc.Field(rest)
		n, ok := proc.Uint(number)
		if !ok || n > 1<<40 {
			return nil, 0, badLine(line)
		}
		if *dst += int64(n) << 10; *dst > mostResident {
			return nil, 0, badLine(line)
		}
	}
}

// parseExtent reads the head of a mapping: START-END in hexadecimal, and more.
func parseExtent(line []byte) (v vma, ok bool) {
	word, _ := proc.Field(line)
	from, to, _ := bytes.Cut(word, []byte("-"))
	var err1, err2 error
	v.start, err1 = strconv.ParseUint(string(from), 16, 64)
	v.end, err2 = strconv.ParseUint(string(to), 16, 64)
	return v, err1 == nil && err2 == nil && v.start < v.end && v.end-v.start <= 1<<62
}

// uptime is how long the machine has been up.
func uptime(root string) (time.Duration, error) {
	b, err := os.ReadFile(filepath.Join(root, "proc/uptime"))
	if err != nil {
		return 0, fmt.Errorf("track: %w", err)
	}
	word, _ := proc.Field(b)
	whole, _, _ := bytes.Cut(word, []byte("."))
	n, ok := proc.Uint(whole)
	if !ok || n > 1<<33 {
		return 0, fmt.Errorf("track: /proc/uptime holds %.40q: %w", b, proc.ErrFormat)
	}
	return time.Duration(n) * time.Second, nil
}

// ticks is USER_HZ, in which /proc/PID/stat counts on every architecture of ours.
const ticks = 100

// life is what /proc/PID/stat tells of a process: what tells it from another with its number, and its cost so far.
type life struct {
	start uint64 // ticks since boot
	cpu   time.Duration
}

func parseLife(b []byte) (l life, ok bool) {
	i := bytes.LastIndexByte(b, ')') // the name before it is hostile
	if i < 0 {
		return l, false
	}
	rest := b[i+1:]
	for field := 3; field <= 22; field++ {
		var word []byte
		word, rest = proc.Field(rest)
		n, good := proc.Uint(word)
		switch field {
		case 14, 15:
			if !good || n > 1<<40 {
				return l, false
			}
			l.cpu += time.Duration(n) * time.Second / ticks
		case 22:
			l.start, ok = n, good && n < 1<<53
		}
	}
	return l, ok
}

func readLife(root string, pid int) (life, error) {
	f, err := sys.OpenNoFollow(filepath.Join(root, "proc", strconv.Itoa(pid), "stat"), os.O_RDONLY, 0)
	if err != nil {
		return life{}, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 4<<10))
	if err != nil {
		return life{}, err
	}
	l, ok := parseLife(b)
	if !ok {
		return life{}, fmt.Errorf("stat of process %d: %w", pid, proc.ErrFormat)
	}
	return l, nil
}
