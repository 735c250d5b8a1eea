package workloads

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spillway-io/spillway/bench/workloads/client"
	"github.com/spillway-io/spillway/bench/workloads/drive"
	"github.com/spillway-io/spillway/bench/workloads/rig"
)

// pgBin is where Debian's postgresql-15 keeps its programs.
const pgBin = "/usr/lib/postgresql/15/bin/"

// Postgres reads rows as pgbench -S does and one table from end to end every 20 s. Its buffers are shared memory.
func Postgres(cfg Config) Workload {
	rows := cfg.scale(560_000) // with index and the second table 200 MB
	return Workload{
		Name: "postgres", What: "PostgreSQL 15, shared_buffers 64 MB, 200 MB of tables, half of the rows never read, a quarter scanned every 20 s",
		Kind: client.Postgres, Needs: []Program{{pgBin + "postgres", "postgresql-15"}},
		Load: drive.Spec{Conns: 4, Rate: 500, Keys: rows, Cold: rows / 2, Theta: 0.99, Seed: 14, Chore: 20 * time.Second},
		Prepare: func(ctx context.Context, s *stage) (err error) {
			s.shared, err = s.pgTemplate(ctx)
			return err
		},
		Start: func(ctx context.Context, s *stage, m *rig.Member) (*rig.Process, string, error) {
			data := filepath.Join(s.rig.Tmp(), m.Name+".pg")
			cp, err := s.rig.Start(rig.Spec{Name: "copy for " + m.Name, Args: []string{"cp", "-a", s.shared, data}, In: m})
			if err != nil {
				return nil, "", err
			}
			if err := cp.Wait(ctx); err != nil {
				return nil, "", err
			}
			if err := forget(data); err != nil { // what the copy left dirty could not be taken; the server reads it anew
				return nil, "", err
			}
			p, err := s.postgres(data, m)
			if err != nil {
				return nil, "", err
			}
			sock := filepath.Join(data, pgSocket)
			return p, sock, s.said(ctx, p, m, func(ctx context.Context) error {
				return s.readAll(ctx, &twin{Member: m, at: drive.Target{Kind: client.Postgres, Addr: sock}})
			})
		},
	}
}

const (
	pgSocket = ".s.PGSQL.5432"
	// pgConf makes a server that nothing but a unix socket reaches and that writes nothing by itself.
	pgConf = `
listen_addresses = ''
unix_socket_permissions = 0700
shared_buffers = 64MB
max_connections = 20
fsync = off
synchronous_commit = off
full_page_writes = off
wal_level = minimal
max_wal_senders = 0
max_wal_size = 2GB
checkpoint_timeout = 1h
bgwriter_lru_maxpages = 0
autovacuum = off
huge_pages = off
jit = off
max_parallel_workers_per_gather = 0
synchronize_seqscans = off
`
)

// pgUser is who the servers run as: PostgreSQL refuses root.
func pgUser() (*rig.User, error) {
	u, err := user.Lookup("postgres")
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			return nil, err
		}
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.Atoi(u.Gid)
	return &rig.User{UID: uid, GID: gid}, err
}

// postgres starts a server on data, in m's cgroup or, when m is nil, in ours.
func (s *stage) postgres(data string, m *rig.Member) (*rig.Process, error) {
	u, err := pgUser()
	if err != nil {
		return nil, err
	}
	sp := rig.Spec{Name: "postgres", Args: []string{pgBin + "postgres", "-D", data, "-k", data}, User: u, In: m, Dir: data,
		Ask: syscall.SIGINT, Log: data + ".log"} // SIGINT: fast shutdown
	if m != nil {
		sp.Name, sp.Log = "postgres "+m.Name, s.logOf(m)
		sp.CPUs, _ = rig.Places()
	}
	return s.rig.Start(sp)
}

// pgTemplate makes a cluster with all data and a clean shutdown.
func (s *stage) pgTemplate(ctx context.Context) (string, error) {
	u, err := pgUser()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(s.rig.Tmp(), "template.pg")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	if err := os.Chown(dir, u.UID, u.GID); err != nil {
		return "", err
	}
	log := dir + ".log"
	in, err := s.rig.Start(rig.Spec{Name: "initdb", User: u, Dir: dir, Log: log,
		Args: []string{pgBin + "initdb", "-D", dir, "-U", "postgres", "-A", "peer", "--no-sync", "--locale=C", "-E", "UTF8"}})
	if err != nil {
		return "", err
	}
	if err := in.Wait(ctx); err != nil {
		return "", fmt.Errorf("%w: %s", err, tail(log))
	}
	// peer would want the client to be postgres; the socket is in a folder that only the server and root can enter.
	if err := os.WriteFile(filepath.Join(dir, "pg_hba.conf"), []byte("local all all trust\n"), 0o600); err != nil {
		return "", err
	}
	f, err := os.OpenFile(filepath.Join(dir, "postgresql.conf"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(pgConf)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return "", err
	}
	p, err := s.postgres(dir, nil)
	if err != nil {
		return "", err
	}
	if err := s.fill(ctx, filepath.Join(dir, pgSocket)); err != nil {
		p.Kill()
		return "", fmt.Errorf("%w: %s", err, tail(log))
	}
	if err := p.Stop(30 * time.Second); err != nil {
		return "", fmt.Errorf("%w: %s", err, tail(log))
	}
	return dir, forget(dir)
}

// forget has every file below dir on disk and out of the cache.
func forget(dir string) error {
	return eachFile(dir, func(f *os.File) error {
		if err := f.Sync(); err != nil {
			return err
		}
		return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
	})
}
