package load

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// MaxBulk bounds the bulk strings that Decoder and kv accept: lengths are checked before memory is taken.
const MaxBulk = 1 << 20

// ErrProtocol is wrapped by every error about bytes that are not RESP.
var ErrProtocol = errors.New("bad RESP")

// Kind is the first byte of a reply.
type Kind byte

// The kinds of replies that GET, SET, PING and DBSIZE can have.
const (
	Simple  Kind = '+'
	Failure Kind = '-'
	Integer Kind = ':'
	Bulk    Kind = '$'
)

// Reply is one decoded reply. Data is valid until the Decoder's next call.
type Reply struct {
	Kind Kind
	Data []byte // text of Simple and Failure, content of Bulk
	Int  int64  // value of Integer
	Nil  bool   // the bulk string that is not there
}

// AppendCommand appends one command as an array of bulk strings.
func AppendCommand(dst []byte, args ...[]byte) []byte {
	dst = append(dst, '*')
	dst = strconv.AppendInt(dst, int64(len(args)), 10)
	dst = append(dst, '\r', '\n')
	for _, a := range args {
		dst = append(dst, '$')
		dst = strconv.AppendInt(dst, int64(len(a)), 10)
		dst = append(dst, '\r', '\n')
		dst = append(dst, a...)
		dst = append(dst, '\r', '\n')
	}
	return dst
}

// Decoder reads replies from a stream.
type Decoder struct {
	r   *bufio.Reader
	buf []byte
}

// NewDecoder returns a Decoder with a read buffer of 64 KiB.
func NewDecoder(r io.Reader) *Decoder { return &Decoder{r: bufio.NewReaderSize(r, 64<<10)} }

// Reply reads the next reply. At a clean end of the stream the error is io.EOF.
func (d *Decoder) Reply() (Reply, error) {
	line, err := ReadLine(d.r)
	if err != nil {
		return Reply{}, err
	}
	if len(line) == 0 {
		return Reply{}, fmt.Errorf("load: %w: empty line", ErrProtocol)
	}
	rep := Reply{Kind: Kind(line[0]), Data: line[1:]}
	switch rep.Kind {
	case Simple, Failure:
		return rep, nil
	case Integer:
		if rep.Int, err = ParseInt(rep.Data); err != nil {
			return Reply{}, err
		}
		rep.Data = nil
		return rep, nil
	case Bulk:
		n, err := ParseInt(rep.Data)
		switch {
		case err != nil:
			return Reply{}, err
		case n == -1:
			return Reply{Kind: Bulk, Nil: true}, nil
		case n < 0 || n > MaxBulk:
			return Reply{}, fmt.Errorf("load: %w: bulk length %d outside [0,%d]", ErrProtocol, n, MaxBulk)
		}
		if rep.Data, d.buf, err = ReadBulk(d.r, d.buf, int(n)); err != nil {
			return Reply{}, err
		}
		return rep, nil
	}
	return Reply{}, fmt.Errorf("load: %w: unknown kind %q", ErrProtocol, line[0])
}

// ReadLine reads up to CR LF and returns the line without it; the bytes belong to r. Lines are bounded by
// r's buffer.
func ReadLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	switch {
	case errors.Is(err, io.EOF) && len(line) == 0:
		return nil, io.EOF
	case errors.Is(err, io.EOF):
		return nil, io.ErrUnexpectedEOF
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, fmt.Errorf("load: %w: line longer than %d bytes", ErrProtocol, r.Size())
	case err != nil:
		return nil, err
	case len(line) < 2 || line[len(line)-2] != '\r':
		return nil, fmt.Errorf("load: %w: line without CR LF", ErrProtocol)
	}
	return line[:len(line)-2], nil
}

// ReadBulk reads n bytes and CR LF into buf, which it grows when needed, and returns the content and the buffer.
// The caller checked n.
func ReadBulk(r *bufio.Reader, buf []byte, n int) (data, grown []byte, err error) {
	if cap(buf) < n+2 {
		buf = make([]byte, n+2)
	}
	buf = buf[:n+2]
	if _, err := io.ReadFull(r, buf); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, buf, err
	}
	if buf[n] != '\r' || buf[n+1] != '\n' {
		return nil, buf, fmt.Errorf("load: %w: bulk string without CR LF", ErrProtocol)
	}
	return buf[:n], buf, nil
}

// ParseInt parses a decimal of at most 18 digits with an optional minus sign.
func ParseInt(b []byte) (int64, error) {
	digits, neg := b, false
	if len(b) > 0 && b[0] == '-' {
		digits, neg = b[1:], true
	}
	if len(digits) == 0 || len(digits) > 18 {
		return 0, fmt.Errorf("load: %w: number %.32q", ErrProtocol, b)
	}
	var n int64
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, fmt.Errorf("load: %w: number %.32q", ErrProtocol, b)
		}
		n = n*10 + int64(c-'0')
	}
	if neg {
		n = -n
	}
	return n, nil
}
