package workloads

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spillway-io/spillway/bench/workloads/client"
	"github.com/spillway-io/spillway/bench/workloads/drive"
	"github.com/spillway-io/spillway/bench/workloads/rig"
)

// All lists the pairs in the order in which they run: real servers first, then the adversaries.
func All(cfg Config) []Workload {
	return append([]Workload{Memcached(cfg), Postgres(cfg), Nginx(cfg)}, Adversaries(cfg)...)
}

// Redis is the demo's server with half of the demo's data, for comparing laws.
func Redis(cfg Config) Workload {
	keys := cfg.scale(160_000) // 220 MB
	return Workload{
		Name: "redis", What: "redis, 60 % of its keys never read, the others by Zipf 0.99", Kind: client.Redis,
		Needs: []Program{{"redis-server", "redis-server"}},
		Load:  drive.Spec{Conns: 8, Rate: 1500, Keys: keys, Cold: keys * 6 / 10, Theta: 0.99, Seed: 11},
		Start: func(ctx context.Context, s *stage, m *rig.Member) (*rig.Process, string, error) {
			sock := s.socket(m)
			p, err := s.serve(m, "redis-server", "--port", "0", "--unixsocket", sock, "--unixsocketperm", "700",
				"--save", "", "--appendonly", "no", "--dir", s.rig.Tmp(), "--daemonize", "no")
			if err != nil {
				return nil, "", err
			}
			return p, sock, s.filled(ctx, p, m, sock)
		},
	}
}

// Memcached is a cache whose load follows a day of 40 s between a quarter and all of its peak.
func Memcached(cfg Config) Workload {
	keys := cfg.scale(130_000) // 150 MB
	return Workload{
		Name: "memcached", What: "memcached of 150 MB, half of its keys never read, load between 25 and 100 % in days of 40 s",
		Kind: client.Memcached, Needs: []Program{{"memcached", "memcached"}},
		Load: drive.Spec{Conns: 8, Rate: 2000, Trough: 0.25, Day: 40 * time.Second, Keys: keys, Cold: keys / 2, Theta: 0.99, Seed: 12},
		Start: func(ctx context.Context, s *stage, m *rig.Member) (*rig.Process, string, error) {
			sock := s.socket(m)
			p, err := s.serve(m, "memcached", "-u", "root", "-s", sock, "-a", "0700", "-m", "1024", "-t", "2")
			if err != nil {
				return nil, "", err
			}
			return p, sock, s.filled(ctx, p, m, sock)
		},
	}
}

// Nginx is a web server over a static tree ten times as large as what is asked for. Its memory is file cache.
func Nginx(cfg Config) Workload {
	files := cfg.scale(19_200) // 600 MB in files of 32 KiB
	return Workload{
		Name: "nginx", What: "nginx over a static tree of 600 MB of which a tenth is asked for", Kind: client.HTTP,
		Needs: []Program{{"nginx", "nginx"}},
		Load:  drive.Spec{Conns: 4, Rate: 600, Keys: files, Cold: files * 9 / 10, Theta: 0.99, Seed: 13},
		Start: func(ctx context.Context, s *stage, m *rig.Member) (*rig.Process, string, error) {
			// Whoever touches a page of a file first pays for it: the tree is written in the twin's own cgroup.
			tree := filepath.Join(s.rig.Tmp(), m.Name+".tree")
			w, err := s.rig.Start(rig.Spec{Name: "tree of " + m.Name, Part: []string{partTree, tree, strconv.Itoa(files)}, In: m})
			if err != nil {
				return nil, "", err
			}
			if err := w.Wait(ctx); err != nil {
				return nil, "", err
			}
			conf, sock := filepath.Join(s.rig.Tmp(), m.Name+".conf"), s.socket(m)
			if err := os.WriteFile(conf, []byte(nginxConf(s.rig.Tmp(), m.Name, tree, sock)), 0o600); err != nil {
				return nil, "", err
			}
			p, err := s.serve(m, "nginx", "-c", conf, "-e", s.logOf(m))
			if err != nil {
				return nil, "", err
			}
			return p, sock, s.answering(ctx, p, m, sock)
		},
	}
}

// nginxConf has one worker in the foreground and touches nothing outside tmp.
func nginxConf(tmp, name, tree, sock string) string {
	dirs := ""
	for _, d := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		dirs += fmt.Sprintf("  %s_temp_path %s/%s.%s;\n", d, tmp, name, d)
	}
	return fmt.Sprintf(`user root;
daemon off;
worker_processes 1;
pid %s/%s.pid;
events { worker_connections 64; }
http {
%s  access_log off;
  sendfile on;
  keepalive_requests 100000000;
  keepalive_timeout 1h;
  server { listen unix:%s; root %s; }
}
`, tmp, name, dirs, sock, tree)
}

func (s *stage) socket(m *rig.Member) string { return filepath.Join(s.rig.Tmp(), m.Name+".sock") }

// serve starts a server in its twin's cgroup, on the CPU that the twins share.
func (s *stage) serve(m *rig.Member, args ...string) (*rig.Process, error) {
	cpus, _ := rig.Places()
	return s.rig.Start(rig.Spec{Name: args[0] + " " + m.Name, Args: args, In: m, Log: s.logOf(m), CPUs: cpus})
}

// filled puts the data into a server that has just been started. One that dies meanwhile is said to have.
func (s *stage) filled(ctx context.Context, p *rig.Process, m *rig.Member, sock string) error {
	return s.said(ctx, p, m, func(ctx context.Context) error { return s.fill(ctx, sock) })
}

// answering waits until the server has answered one request.
func (s *stage) answering(ctx context.Context, p *rig.Process, m *rig.Member, sock string) error {
	return s.said(ctx, p, m, func(ctx context.Context) error {
		for {
			c, err := client.Dial(ctx, drive.Target{Kind: s.w.Kind, Addr: sock})
			if err == nil {
				err = c.Do(ctx, s.w.Load.Keys-1)
				c.Close()
			}
			if err == nil || ctx.Err() != nil {
				return err
			}
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
}

// said is do while the server lives, with its last words when it does not.
func (s *stage) said(ctx context.Context, p *rig.Process, m *rig.Member, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	go func() {
		select {
		case <-p.Done:
			cancel()
		case <-ctx.Done():
		}
	}()
	if err := do(ctx); err != nil {
		if ended := p.Ended(); ended != nil {
			err = ended
		}
		return fmt.Errorf("start %s: %w: %s", m.Name, err, tail(s.logOf(m)))
	}
	return nil
}
