package load

import (
	"math/rand/v2"
	"strconv"
)

// ValueSize is the size of every value in bytes.
const ValueSize = 1024

// AppendKey appends the key number i.
func AppendKey(dst []byte, i int) []byte {
	var digits [20]byte
	s := strconv.AppendInt(digits[:0], int64(i), 10)
	dst = append(dst, "event:"...)
	for n := len(s); n < 9; n++ {
		dst = append(dst, '0')
	}
	return append(dst, s...)
}

// Text makes values that look like what services keep: one JSON log record per few hundred bytes, from a
// small vocabulary, with random identifiers and numbers. Not safe for concurrent use.
type Text struct {
	rng *rand.Rand
	seq uint64
}

// NewText returns a generator whose output depends on seed alone.
func NewText(seed uint64) *Text {
	return &Text{rng: rand.New(rand.NewPCG(seed, 0x5ba3))}
}

var (
	levels   = []string{"info", "info", "info", "info", "debug", "warn", "error"}
	services = []string{"checkout", "inventory", "catalog", "payments", "sessions", "search", "mailer", "profile"}
	verbs    = []string{"GET", "GET", "GET", "POST", "PUT", "DELETE"}
	routes   = []string{"/api/v1/orders/", "/api/v1/items/", "/api/v2/users/", "/healthz/", "/api/v1/carts/", "/internal/sync/"}
	messages = []string{
		"request completed within its budget", "cache entry refreshed from the primary store",
		"connection returned to the pool after use", "retrying after the upstream closed the stream",
		"feature flag evaluated for the whole tenant", "background compaction finished one segment",
	}
)

// Append appends exactly n bytes of text.
func (t *Text) Append(dst []byte, n int) []byte {
	end := len(dst) + n
	for len(dst) < end {
		dst = t.appendRecord(dst)
	}
	return dst[:end]
}

func (t *Text) appendRecord(dst []byte) []byte {
	t.seq++
	dst = append(dst, `{"ts":"2026-03-14T09:26:`...)
	dst = strconv.AppendUint(dst, 10+t.seq%50, 10)
	dst = append(dst, `Z","level":"`...)
	dst = append(dst, t.pick(levels)...)
	dst = append(dst, `","service":"`...)
	dst = append(dst, t.pick(services)...)
	dst = append(dst, `","trace":"`...)
	dst = t.appendHex(dst, 16)
	dst = append(dst, `","method":"`...)
	dst = append(dst, t.pick(verbs)...)
	dst = append(dst, `","path":"`...)
	dst = append(dst, t.pick(routes)...)
	dst = strconv.AppendUint(dst, uint64(t.rng.IntN(1_000_000)), 10)
	dst = append(dst, `","status":200,"duration_us":`...)
	dst = strconv.AppendUint(dst, uint64(t.rng.IntN(100_000)), 10)
	dst = append(dst, `,"region":"eu-central-1","message":"`...)
	dst = append(dst, t.pick(messages)...)
	return append(dst, "\"}\n"...)
}

func (t *Text) pick(from []string) string { return from[t.rng.IntN(len(from))] }

func (t *Text) appendHex(dst []byte, digits int) []byte {
	const hex = "0123456789abcdef"
	v := t.rng.Uint64()
	for range digits {
		dst = append(dst, hex[v&15])
		v >>= 4
	}
	return dst
}
