package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	_ "github.com/dbos-inc/dbos-transact-golang/dbos/driver/sqlite" // for its SQLite
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
)

// servers are other processes, or do more than keep a record.
var servers = []peer{
	{name: "Redis, appendfsync always", most: 256, note: "another process, over a Unix socket", open: openRedis},
	{name: "PostgreSQL", most: 256, note: "another process, over a Unix socket; one INSERT a record, 32 connections", open: openPostgres},
	{name: "DBOS Transact Go, SQLite", most: 16, note: "a whole workflow with one step a record, with its inputs and outputs; synchronous FULL, which is not its default", open: openDBOS},
}

// started is a server in a directory.
type started struct {
	command *exec.Cmd
}

// start runs a server's program as a user who is not root.
func start(dir, program string, words ...string) (*started, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return nil, fmt.Errorf("%s is not installed: %w", program, err)
	}
	c := exec.Command(path, words...)
	c.Dir = dir
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getuid() == 0 {
		if c.SysProcAttr.Credential, err = nobody(dir); err != nil {
			return nil, err
		}
	}
	return &started{c}, nil
}

// nobody gives a directory, and the way to it, to a user without rights.
func nobody(dir string) (*syscall.Credential, error) {
	u, err := user.Lookup("nobody")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(dir, uid, gid)
}

func (s *started) stop() error {
	if err := s.command.Process.Signal(syscall.SIGINT); err != nil {
		return err
	}
	// What a server answers to a signal is not what is measured.
	_ = s.command.Wait()
	return nil
}

// soon tries until a server is there.
func soon(try func() error) (err error) {
	for range 200 {
		if err = try(); err == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}

func openRedis(dir string) (store, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	socket := filepath.Join(dir, "socket")
	s, err := start(dir, "redis-server", "--port", "0", "--unixsocket", socket, "--dir", dir, "--appendonly", "yes", "--appendfsync", "always",
		"--save", "", "--loglevel", "warning")
	if err != nil {
		return nil, err
	}
	if err := s.command.Start(); err != nil {
		return nil, err
	}
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: socket, PoolSize: 256})
	ctx := context.Background()
	if err := soon(func() error { return client.Ping(ctx).Err() }); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return &called{
		func(key, value []byte) error { return client.Set(ctx, string(key), value, 0).Err() },
		func() error { return errors.Join(client.Close(), s.stop()) },
	}, nil
}

func openPostgres(dir string) (store, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	init, err := start(dir, "initdb", "-D", data, "-A", "trust", "-U", "postgres", "--no-sync")
	if err != nil {
		return nil, err
	}
	if out, err := init.command.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	s, err := start(dir, "postgres", "-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "fsync=on", "-c", "synchronous_commit=on")
	if err != nil {
		return nil, err
	}
	if err := s.command.Start(); err != nil {
		return nil, err
	}
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, fmt.Sprintf("host=%s user=postgres dbname=postgres pool_max_conns=32", dir))
	if err != nil {
		return nil, errors.Join(err, s.stop())
	}
	if err := soon(func() error { return pool.Ping(ctx) }); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	if _, err := pool.Exec(ctx, "CREATE TABLE records (key BYTEA PRIMARY KEY, value BYTEA)"); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return &called{
		func(key, value []byte) error {
			_, err := pool.Exec(ctx, "INSERT INTO records VALUES ($1, $2)", key, value)
			return err
		},
		func() error { pool.Close(); return s.stop() },
	}, nil
}

func openDBOS(dir string) (store, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(10000)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	ctx, err := dbos.NewContext(context.Background(), dbos.Config{AppName: "peers", SQLiteSystemDB: db, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		return nil, err
	}
	step := func(context.Context) (string, error) { return string(valueBytes), nil }
	workflow := func(ctx dbos.Context, _ string) (string, error) { return dbos.RunAsStep(ctx, step) }
	dbos.RegisterWorkflow(ctx, workflow)
	if err := dbos.Launch(ctx); err != nil {
		return nil, err
	}
	return &called{
		func(key, _ []byte) error {
			h, err := dbos.RunWorkflow(ctx, workflow, "", dbos.WithWorkflowID(string(key)))
			if err == nil {
				_, err = h.GetResult()
			}
			return err
		},
		func() error { return errors.Join(dbos.Shutdown(ctx, 10*time.Second), db.Close()) },
	}, nil
}
