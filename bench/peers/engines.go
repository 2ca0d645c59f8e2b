package main

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"
	"github.com/dgraph-io/badger/v4"
	bolt "go.etcd.io/bbolt"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/oncelog/oncelog/internal/load"
)

// engines keep keys and values in files of this process.
var engines = []peer{
	{name: "pebble", note: "LSM tree; Set with Sync, its own group commit", open: openPebble},
	{name: "badger", most: 256, note: "LSM tree; one transaction a record, SyncWrites", open: openBadger},
	{name: "bbolt, Update", most: 16, note: "B+ tree; one transaction a record", open: openBolt(false)},
	{name: "bbolt, Batch", note: "its own grouping, which waits up to 10 ms", open: openBolt(true)},
	{name: "bbolt, grouped", note: "one transaction a group", open: openBoltGrouped},
	{name: "SQLite, WAL, FULL", most: 16, note: "one transaction a record; the pure-Go build", open: openSQLite(false)},
	{name: "SQLite, WAL, FULL, grouped", note: "one transaction a group", open: openSQLite(true)},
}

// called is a store of two functions.
type called struct {
	set     func(key, value []byte) error
	closing func() error
}

func (c *called) put(i int) error { return c.set(record(i)) }
func (c *called) close() error    { return c.closing() }

func openPebble(dir string) (store, error) {
	db, err := pebble.Open(dir, &pebble.Options{Logger: quiet{}})
	if err != nil {
		return nil, err
	}
	return &called{func(key, value []byte) error { return db.Set(key, value, pebble.Sync) }, db.Close}, nil
}

// quiet is a logger of pebble's that says nothing.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, words ...any) {
	panic(fmt.Sprintf(format, words...))
}

func openBadger(dir string) (store, error) {
	db, err := badger.Open(badger.DefaultOptions(dir).WithSyncWrites(true).WithLogger(nil))
	if err != nil {
		return nil, err
	}
	return &called{func(key, value []byte) error {
		return db.Update(func(t *badger.Txn) error { return t.Set(key, value) })
	}, db.Close}, nil
}

var bucket = []byte("records")

func newBolt(dir string) (*bolt.DB, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	db, err := bolt.Open(filepath.Join(dir, "db"), 0o600, nil)
	if err != nil {
		return nil, err
	}
	return db, db.Update(func(t *bolt.Tx) error { _, err := t.CreateBucket(bucket); return err })
}

func openBolt(batch bool) func(string) (store, error) {
	return func(dir string) (store, error) {
		db, err := newBolt(dir)
		if err != nil {
			return nil, err
		}
		do := db.Update
		if batch {
			do = db.Batch
		}
		return &called{func(key, value []byte) error {
			return do(func(t *bolt.Tx) error { return t.Bucket(bucket).Put(key, value) })
		}, db.Close}, nil
	}
}

func openBoltGrouped(dir string) (store, error) {
	db, err := newBolt(dir)
	if err != nil {
		return nil, err
	}
	return newGrouped(func(b []byte, _ int) error {
		return db.Update(func(t *bolt.Tx) error { return split(b, t.Bucket(bucket).Put) })
	}, db.Close), nil
}

func openSQLite(group bool) func(string) (store, error) {
	return func(dir string) (store, error) {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, err
		}
		db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
		if err != nil {
			return nil, err
		}
		db.SetMaxOpenConns(1) // it has one writer at a time
		if _, err := db.Exec("CREATE TABLE records (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID"); err != nil {
			return nil, err
		}
		insert, err := db.Prepare("INSERT INTO records VALUES (?, ?)")
		if err != nil {
			return nil, err
		}
		if !group {
			return &called{func(key, value []byte) error { _, err := insert.Exec(key, value); return err }, db.Close}, nil
		}
		var commit load.Commit = func(b []byte, _ int) error {
			t, err := db.Begin()
			if err != nil {
				return err
			}
			within := t.Stmt(insert)
			if err := split(b, func(key, value []byte) error { _, err := within.Exec(key, value); return err }); err != nil {
				return err
			}
			return t.Commit()
		}
		return newGrouped(commit, db.Close), nil
	}
}
