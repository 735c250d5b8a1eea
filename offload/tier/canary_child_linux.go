package tier

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spillway-io/spillway/internal/sys"
)

// order is one line that the driver writes to the canary process, answer the line it writes back.
type order struct {
	Do      string   `json:"do"`                // "join", "fill", "out", "touch" or "file"
	Dirs    []string `json:"dirs,omitempty"`    // join: cgroup directories
	Bytes   int64    `json:"bytes,omitempty"`   // fill: how much to map, the same each time; file: its size
	Content string   `json:"content,omitempty"` // fill: "text" or "random"

	Dir string `json:"dir,omitempty"` // file: where

	For time.Duration `json:"for_ns,omitempty"` // touch, file: how long at most; 0 means to the last page
}

type answer struct {
	Error  string        `json:"error,omitempty"`
	Pages  int           `json:"pages"`  // mapped
	Out    int           `json:"out"`    // of them not in memory, before a touch
	Faults int           `json:"faults"` // touches that found their page out
	Hits   int           `json:"hits"`   // touches that found it in memory, for example by readahead
	P50    time.Duration `json:"p50_ns"` // of one fault, as Mean and P99
	P99    time.Duration `json:"p99_ns"`
	Mean   time.Duration `json:"mean_ns"`
	Total  time.Duration `json:"total_ns"` // time lost in faults
	HitP50 time.Duration `json:"hit_p50_ns"`

	InOrder time.Duration `json:"in_order_ns"` // file: of one page when all are read in order
}

// maxCanary bounds what an order may map.
const maxCanary = 1 << 30

// CanaryMain is the body of the hidden command `canary`: it obeys orders from in until it ends, and answers each
// on out. It is a process of its own so that the memory it fills is charged to the canary's cgroup alone, and so
// that its page faults stall nobody else.
func CanaryMain(ctx context.Context, in io.Reader, out io.Writer) error {
	// Should the host run out of memory meanwhile, this process is the one to lose. Without the right to say
	// so the canary is still as small as before.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	var c canary
	defer c.close()
	enc := json.NewEncoder(out)
	lines := bufio.NewScanner(in)
	for ctx.Err() == nil && lines.Scan() {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			return fmt.Errorf("tier: read order: %w", err)
		}
		a, err := c.obey(o)
		if err != nil {
			a.Error = err.Error()
		}
		if err := enc.Encode(a); err != nil {
			return fmt.Errorf("tier: answer: %w", err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("tier: read orders: %w", err)
	}
	return context.Cause(ctx)
}

type canary struct {
	mem  []byte // outside the Go heap, on base pages
	page int
	sum  byte // keeps the reads of touch from being optimised away
}

func (c *canary) close() {
	if c.mem != nil {
		_ = sys.Munmap(c.mem) // the process ends
	}
}

func (c *canary) obey(o order) (answer, error) {
	switch o.Do {
	case "join":
		return answer{}, join(o.Dirs)
	case "fill":
		return answer{Pages: int(o.Bytes) / os.Getpagesize()}, c.fill(o.Bytes, o.Content)
	case "out":
		n, err := c.out()
		return answer{Pages: len(c.mem) / os.Getpagesize(), Out: n}, err
	case "touch":
		return c.touch(o.For)
	case "file":
		return c.file(o.Dir, o.Bytes, o.For)
	}
	return answer{}, fmt.Errorf("tier: unknown order %q", o.Do)
}

func join(dirs []string) error {
	for _, d := range dirs {
		if err := os.WriteFile(filepath.Join(d, "cgroup.procs"), []byte("0"), 0); err != nil {
			return fmt.Errorf("tier: join cgroup: %w", err)
		}
	}
	return nil
}

func (c *canary) fill(n int64, content string) error {
	c.page = os.Getpagesize()
	if n < int64(c.page) || n > maxCanary || n%int64(c.page) != 0 {
		return fmt.Errorf("tier: fill %d bytes: not a number of pages up to %d bytes", n, maxCanary)
	}
	if c.mem == nil {
		mem, err := sys.MmapAnon(int(n))
		if err != nil {
			return fmt.Errorf("tier: fill: %w", err)
		}
		c.mem = mem
		if err := sys.NoHugePages(mem); err != nil {
			return fmt.Errorf("tier: fill: %w", err)
		}
	}
	if int64(len(c.mem)) != n {
		return fmt.Errorf("tier: fill %d bytes: %d are mapped", n, len(c.mem))
	}
	switch content {
	case "text":
		fillText(c.mem)
	case "random":
		fillRandom(c.mem)
	default:
		return fmt.Errorf("tier: fill with %q: neither text nor random", content)
	}
	return nil
}

func (c *canary) out() (int, error) {
	if c.mem == nil {
		return 0, errors.New("tier: nothing filled yet")
	}
	return absent(c.mem, c.page)
}

// absent counts the pages of mem that are not in memory.
func absent(mem []byte, page int) (n int, err error) {
	resident := make([]byte, len(mem)/page)
	if err := sys.Mincore(mem, resident); err != nil {
		return 0, err
	}
	for _, r := range resident {
		if r&1 == 0 {
			n++
		}
	}
	return n, nil
}

// touch reads one byte of every page in random order and times each read.
func (c *canary) touch(atMost time.Duration) (answer, error) {
	out, err := c.out()
	if err != nil {
		return answer{}, err
	}
	a, err := c.times(c.mem, atMost)
	a.Out = out
	return a, err
}

// times reads one byte of every page of mem in random order. Whether a page is out is asked just
// before its own read, because readahead for an earlier one may have brought it back. On a slow disk it stops when
// atMost is over: the order is random, so the pages read so far speak for all.
func (c *canary) times(mem []byte, atMost time.Duration) (answer, error) {
	pages := len(mem) / c.page
	// Made now, not at the start: older bookkeeping would have been evicted along with the pages.
	queue := rand.Perm(pages)
	faults, hits := make([]time.Duration, 0, pages), make([]time.Duration, 0, pages)
	resident := []byte{0}
	begin := time.Now()
	for _, p := range queue {
		if atMost > 0 && time.Since(begin) > atMost {
			break
		}
		at := p * c.page
		if err := sys.Mincore(mem[at:at+c.page], resident); err != nil {
			return answer{}, err
		}
		start := time.Now()
		c.sum += mem[at]
		took := time.Since(start)
		if resident[0]&1 == 0 {
			faults = append(faults, took)
		} else {
			hits = append(hits, took)
		}
	}
	a := answer{Pages: pages, Faults: len(faults), Hits: len(hits)}
	for _, d := range faults {
		a.Total += d
	}
	if len(faults) > 0 {
		a.Mean = a.Total / time.Duration(len(faults))
	}
	a.P50, a.P99, a.HitP50 = quantile(faults, 0.5), quantile(faults, 0.99), quantile(hits, 0.5)
	return a, nil
}

// quantile sorts d and returns its q-quantile, q in [0,1]; 0 for no values.
func quantile(d []time.Duration, q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[int(q*float64(len(d)-1)+0.5)]
}

// words are what services keep in memory: keys, log lines, JSON.
var words = []string{"user", "session", "request", "GET /api/v1/items", "status", "200 OK", "timeout", "cache",
	"\"name\":", "\"id\":", "null", "error", "connection", "2024-01-01T00:00:00Z", "INFO", "content-type"}

// fillText fills b with text that fast compressors shrink to about a third; no two pages are alike.
func fillText(b []byte) {
	r := rand.New(rand.NewPCG(1, 2)) // the same pages in every run: measurements compare
	for len(b) > 0 {
		w := words[r.IntN(len(words))]
		n := copy(b, w)
		b = b[n:]
		if r.IntN(16) == 0 {
			var id [8]byte
			binary.LittleEndian.PutUint64(id[:], r.Uint64())
			n = copy(b, id[:])
			b = b[n:]
		}
		n = copy(b, " ")
		b = b[n:]
	}
}

// fillRandom fills b with bytes that no compressor shrinks.
func fillRandom(b []byte) {
	var seed [32]byte
	seed[0] = 1
	c := rand.NewChaCha8(seed)
	_, _ = c.Read(b) // never fails
}
