// Package kv is the demo's built-in key-value server, for machines where Debian's redis-server cannot be
// installed. It speaks the part of Redis' protocol that the demo's client speaks.
//
// Promise: values lie in memory in the order they were first set, as they do in a freshly filled Redis, and
// the garbage collector never touches them: they are in chunks without pointers.
// Ownership: one goroutine serves all commands of one connection; mu guards the store and is held for one command.
// Failure: a malformed request is answered with an error and ends that connection only.
// Non-goals: expiry, persistence, replication, any command beyond PING, SET, GET, DBSIZE and QUIT.
package kv

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"net"
	"strconv"
	"sync"

	"github.com/spillway-io/spillway/offload/demo/load"
)

// chunkSize is how much memory the store takes at a time.
const chunkSize = 4 << 20

// maxArgs bounds one command.
const maxArgs = 16

// Server is an in-memory store. The zero value is not ready, use New.
type Server struct {
	seed maphash.Seed

	mu sync.Mutex
	// +checklocks:mu
	index map[uint64]uint32 // hash of the key to the last of its refs, plus 1
	// +checklocks:mu
	refs []ref
	// +checklocks:mu
	chunks [][]byte
}

// ref says where one key and its value lie: chunk, offset of the key, lengths. next chains the refs whose keys
// have the same hash, as an index into refs plus 1. Neither ref nor the index holds a pointer, so the garbage
// collector does not look into them.
type ref struct {
	chunk, off, klen, vlen, next uint32
}

// New returns an empty store.
func New() *Server { return &Server{seed: maphash.MakeSeed(), index: make(map[uint64]uint32)} }

// Serve accepts connections until ctx ends, then closes them all and returns nil.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for {
		c, err := ln.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("kv: accept: %w", err)
		}
		wg.Go(func() {
			stop := context.AfterFunc(ctx, func() { c.Close() })
			defer stop()
			defer c.Close()
			s.Converse(c)
		})
	}
}

// Converse serves one connection until it ends. Its error is nil after QUIT and at a clean end.
func (s *Server) Converse(c io.ReadWriter) error {
	r := bufio.NewReaderSize(c, 64<<10)
	w := bufio.NewWriterSize(c, 64<<10)
	var args [][]byte
	for {
		if r.Buffered() == 0 {
			if err := w.Flush(); err != nil {
				return fmt.Errorf("kv: write reply: %w", err)
			}
		}
		var err error
		args, err = readCommand(r, args)
		switch {
		case errors.Is(err, io.EOF):
			return w.Flush()
		case errors.Is(err, load.ErrProtocol):
			w.WriteString("-ERR Protocol error\r\n")
			return errors.Join(err, w.Flush())
		case err != nil:
			return fmt.Errorf("kv: read command: %w", err)
		}
		if quit := s.answer(w, args); quit {
			return w.Flush()
		}
	}
}

// readCommand reads one array of bulk strings into args, whose memory it uses again.
func readCommand(r *bufio.Reader, args [][]byte) ([][]byte, error) {
	line, err := load.ReadLine(r)
	if err != nil {
		return args, err
	}
	if len(line) == 0 || line[0] != '*' {
		return args, fmt.Errorf("kv: %w: want an array", load.ErrProtocol)
	}
	n, err := load.ParseInt(line[1:])
	if err != nil {
		return args, err
	}
	if n < 1 || n > maxArgs {
		return args, fmt.Errorf("kv: %w: %d arguments outside [1,%d]", load.ErrProtocol, n, maxArgs)
	}
	args = args[:cap(args)]
	for len(args) < int(n) {
		args = append(args, nil)
	}
	args = args[:n]
	for i := range args {
		line, err := load.ReadLine(r)
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return args, err
		}
		if len(line) == 0 || line[0] != '$' {
			return args, fmt.Errorf("kv: %w: want a bulk string", load.ErrProtocol)
		}
		size, err := load.ParseInt(line[1:])
		if err != nil {
			return args, err
		}
		if size < 0 || size > load.MaxBulk {
			return args, fmt.Errorf("kv: %w: bulk length %d outside [0,%d]", load.ErrProtocol, size, load.MaxBulk)
		}
		if args[i], _, err = load.ReadBulk(r, args[i][:0], int(size)); err != nil {
			return args, err
		}
	}
	return args, nil
}

func (s *Server) answer(w *bufio.Writer, args [][]byte) (quit bool) {
	is := func(name string, n int) bool { return len(args) == n && bytes.EqualFold(args[0], []byte(name)) }
	switch {
	case is("PING", 1):
		w.WriteString("+PONG\r\n")
	case is("SET", 3):
		s.set(args[1], args[2])
		w.WriteString("+OK\r\n")
	case is("GET", 2):
		s.get(w, args[1])
	case is("DBSIZE", 1):
		s.mu.Lock()
		n := len(s.refs)
		s.mu.Unlock()
		fmt.Fprintf(w, ":%d\r\n", n)
	case is("QUIT", 1):
		w.WriteString("+OK\r\n")
		return true
	default:
		fmt.Fprintf(w, "-ERR unknown command %.32q or wrong number of arguments\r\n", args[0])
	}
	return false
}

func (s *Server) get(w *bufio.Writer, key []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.findLocked(maphash.Bytes(s.seed, key), key)
	if r == nil {
		w.WriteString("$-1\r\n")
		return
	}
	v := s.valueLocked(r)
	var num [20]byte
	w.WriteByte('$')
	w.Write(strconv.AppendInt(num[:0], int64(len(v)), 10))
	w.WriteString("\r\n")
	w.Write(v)
	w.WriteString("\r\n")
}

func (s *Server) set(key, value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := maphash.Bytes(s.seed, key)
	if r := s.findLocked(h, key); r != nil {
		if int(r.vlen) == len(value) {
			copy(s.valueLocked(r), value)
		} else {
			next := r.next
			*r = s.storeLocked(key, value) // what the old value occupied is lost: the demo never does this
			r.next = next
		}
		return
	}
	r := s.storeLocked(key, value)
	r.next = s.index[h]
	s.refs = append(s.refs, r)
	s.index[h] = uint32(len(s.refs))
}

// +checklocks:s.mu
func (s *Server) storeLocked(key, value []byte) ref {
	need := len(key) + len(value)
	last := len(s.chunks) - 1
	if last < 0 || cap(s.chunks[last])-len(s.chunks[last]) < need {
		s.chunks = append(s.chunks, make([]byte, 0, max(chunkSize, need)))
		last++
	}
	r := ref{chunk: uint32(last), off: uint32(len(s.chunks[last])), klen: uint32(len(key)), vlen: uint32(len(value))}
	s.chunks[last] = append(append(s.chunks[last], key...), value...)
	return r
}

// findLocked returns key's ref, nil when there is none. The pointer is good until the next store.
//
// +checklocks:s.mu
func (s *Server) findLocked(h uint64, key []byte) *ref {
	for i := s.index[h]; i != 0; i = s.refs[i-1].next {
		if r := &s.refs[i-1]; bytes.Equal(s.chunks[r.chunk][r.off:][:r.klen], key) {
			return r
		}
	}
	return nil
}

// +checklocks:s.mu
func (s *Server) valueLocked(r *ref) []byte { return s.chunks[r.chunk][r.off+r.klen:][:r.vlen] }
