package client

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/spillway-io/spillway/offload/demo/load"
)

// The tables: accounts is read row by row like pgbench -S, history from end to end now and then.
const (
	fillerSize = 190 // bytes of text in a row: about 250 a row with everything else
	selectRow  = "SELECT abalance FROM accounts WHERE aid = $1"
	schema     = `CREATE TABLE accounts (aid int PRIMARY KEY, abalance int, filler text) WITH (autovacuum_enabled = off);
CREATE TABLE history (hid int, filler text) WITH (autovacuum_enabled = off)`
)

// SQL is a connection to PostgreSQL.
type SQL struct{ conn *pgx.Conn }

// DialSQL connects to the server whose socket is in addr's folder, retrying while it starts.
func DialSQL(ctx context.Context, addr string) (*SQL, error) {
	cfg, err := pgx.ParseConfig("user=postgres database=postgres sslmode=disable host=localhost")
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	cfg.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", addr)
	}
	cfg.LookupFunc = func(context.Context, string) ([]string, error) { return []string{filepath.Base(addr)}, nil }
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		c, err := pgx.ConnectConfig(ctx, cfg)
		if err == nil {
			if _, err = c.Prepare(ctx, selectRow, selectRow); err == nil || !missing(err) {
				return &SQL{c}, err
			}
			return &SQL{c}, nil // not filled yet
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("client: dial %s: %w", addr, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// missing says whether a statement failed because the tables are not there yet.
func missing(err error) bool { return strings.Contains(err.Error(), "SQLSTATE 42P01") }

// Do selects one account by its key.
func (s *SQL) Do(ctx context.Context, key int) error {
	var balance int32
	if err := s.conn.QueryRow(ctx, selectRow, key).Scan(&balance); err != nil {
		return fmt.Errorf("client: select account %d: %w", key, err)
	}
	if balance != int32(key)%1000 {
		return fmt.Errorf("client: account %d holds %d", key, balance)
	}
	return nil
}

// Scan reads the history from end to end, as a report would. It is a drive.Scanner.
func (s *SQL) Scan(ctx context.Context) error {
	return s.count(ctx, "SELECT count(*) FROM history WHERE length(filler) > 0")
}

// Read reads both tables, through the index too.
func (s *SQL) Read(ctx context.Context, _ int) error {
	if err := s.Scan(ctx); err != nil {
		return err
	}
	if err := s.count(ctx, "SELECT count(*) FROM accounts WHERE length(filler) > 0"); err != nil {
		return err
	}
	_, err := s.conn.Exec(ctx, "SET enable_seqscan = off; SET enable_bitmapscan = off")
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	return s.count(ctx, "SELECT count(aid) FROM accounts WHERE aid >= 0")
}

func (s *SQL) count(ctx context.Context, query string) error {
	var n int64
	if err := s.conn.QueryRow(ctx, query).Scan(&n); err != nil {
		return fmt.Errorf("client: %s: %w", query, err)
	}
	if n == 0 {
		return fmt.Errorf("client: %s: no rows", query)
	}
	return nil
}

// Fill makes the tables with n and n/4 rows and has everything on disk when it returns.
func (s *SQL) Fill(ctx context.Context, n int, seed uint64) error {
	if _, err := s.conn.Exec(ctx, schema); err != nil {
		return fmt.Errorf("client: make tables: %w", err)
	}
	text := load.NewText(seed)
	row := func(i int) ([]any, error) {
		return []any{int32(i), int32(i % 1000), string(text.Append(nil, fillerSize))}, nil
	}
	if _, err := s.conn.CopyFrom(ctx, pgx.Identifier{"accounts"}, []string{"aid", "abalance", "filler"}, pgx.CopyFromSlice(n, row)); err != nil {
		return fmt.Errorf("client: fill accounts: %w", err)
	}
	old := func(i int) ([]any, error) { r, err := row(i); return []any{r[0], r[2]}, err }
	if _, err := s.conn.CopyFrom(ctx, pgx.Identifier{"history"}, []string{"hid", "filler"}, pgx.CopyFromSlice(n/4, old)); err != nil {
		return fmt.Errorf("client: fill history: %w", err)
	}
	for _, q := range []string{"VACUUM (FREEZE, ANALYZE)", "CHECKPOINT"} { // no hint bits to write later
		if _, err := s.conn.Exec(ctx, q); err != nil {
			return fmt.Errorf("client: %s: %w", q, err)
		}
	}
	return nil
}

// Close ends the connection.
func (s *SQL) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return s.conn.Close(ctx)
}
