package demo

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spillway-io/spillway/offload/demo/child"
	"github.com/spillway-io/spillway/offload/demo/load"
)

// builtin stands for the server in package kv.
const builtin = "built-in key-value server"

// twin is one of the two key-value servers.
type twin struct {
	*member
	at load.Dialer
}

// findServer says which program both twins run: a path, or builtin.
func (r *rig) findServer() (string, error) {
	path := r.cfg.RedisServer
	if path == "" {
		found, err := exec.LookPath("redis-server")
		if err != nil {
			r.show.note("redis-server is not installed (Debian: apt-get install redis-server); using the " + builtin)
			return builtin, nil
		}
		path = found
	}
	out, err := exec.Command(path, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("demo: run %s --version: %w", path, err)
	}
	r.show.note(fmt.Sprintf("servers: %s, %s", path, version(out)))
	return path, nil
}

// version is what follows "v=" in redis-server's own words.
func version(out []byte) string {
	for f := range strings.FieldsSeq(string(out)) {
		if v, ok := strings.CutPrefix(f, "v="); ok {
			return v
		}
	}
	return "unknown version"
}

// start starts the server in its cgroup, with no persistence: a fork would double its memory.
func (t *twin) start(r *rig, server string) (err error) {
	s := child.Spec{Name: t.name, Cgroups: t.dirs}
	s.CPUs, _ = child.Places()
	if server == builtin {
		s.Args, s.Task = []string{r.cfg.Exe, "demo-part", partKV}, t.at
	} else {
		s.Args = []string{server, "--port", "0", "--unixsocket", t.at.Addr, "--unixsocketperm", "700",
			"--save", "", "--appendonly", "no", "--dir", r.tmp, "--daemonize", "no"}
		s.Log = filepath.Join(r.tmp, t.name+".log")
	}
	t.proc, err = r.spawn.Start(s)
	return err
}

func (t *twin) fill(ctx context.Context, keys int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	c, err := t.at.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := load.Fill(ctx, c, keys, fillSeed, nil); err != nil {
		return fmt.Errorf("demo: fill %s: %w", t.name, err)
	}
	n, err := load.Size(c)
	if err == nil && n != int64(keys) {
		err = fmt.Errorf("demo: fill %s: it holds %d of %d keys", t.name, n, keys)
	}
	return err
}

// scan reads keys from to to-1 once each.
func (t *twin) scan(ctx context.Context, from, to int) error {
	c, err := t.at.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := load.Scan(ctx, c, from, to); err != nil {
		return fmt.Errorf("demo: read cold keys of %s: %w", t.name, err)
	}
	return nil
}
