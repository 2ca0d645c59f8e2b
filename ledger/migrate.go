package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/cespare/xxhash/v2"

	"github.com/oncelog/oncelog/internal/durable"
	"github.com/oncelog/oncelog/recovery"
	"github.com/oncelog/oncelog/wal"
)

// Migration says what a migration did.
type Migration struct {
	From, To wal.StoreKind
	Records  uint64 // written to the new store; 0 where the ledger had it already
}

// Migrate moves the log of a ledger that nobody has open to another segment store:
// the same records with the same LSNs. It needs room for a second log. ErrLocked
// where the ledger is in use; ErrCorrupt where it is damaged. A migration that is cut
// off, or that fails, leaves the ledger as it was.
func Migrate(dir string, to wal.StoreKind, o Options) (Migration, error) {
	o = o.withDefaults()
	lock, err := takeLock(dir, o, false)
	if err != nil {
		return Migration{}, err
	}
	m, err := migrate(dir, to, o)
	return m, errors.Join(err, lock.Close())
}

func migrate(dir string, to wal.StoreKind, o Options) (Migration, error) {
	if err := repaired(o.FS, dir); err != nil {
		return Migration{}, err
	}
	f, err := readFormat(o.FS, dir)
	if err != nil {
		return Migration{}, err
	}
	m := Migration{From: f.Store, To: to}
	if f.Store == to {
		return m, nil
	}
	m.Records, err = moveLog(dir, f, f.migrated(to), o)
	return m, err
}

// moveLog writes the log of one format anew as another's. Commit point: the new FORMAT,
// by its rename; the old log is removed after it.
func moveLog(dir string, from, to format, o Options) (uint64, error) {
	old, _, _, err := recovery.Run(recoveryOptions(dir, from, o))
	if err != nil {
		return 0, err
	}
	if err := removeLog(o.FS, dir, to); err != nil {
		return 0, errors.Join(err, old.Close())
	}
	options := logOptions(dir, to, o)
	// The watermark that is there goes on: the LSNs stay. No room is promised.
	options.Watermark, options.Reserve = filepath.Join(options.Dir, watermarkName), ""
	wrote, err := copyLog(old, options)
	// Cleanly closed: everything is synced, and the watermark says so.
	if err := errors.Join(err, old.Close()); err != nil {
		return 0, fmt.Errorf("ledger: migrate: %w", err)
	}
	if err := same(options, wrote); err != nil {
		return 0, err
	}
	if err := durable.Remove(o.FS, options.Watermark); err != nil {
		return 0, fmt.Errorf("ledger: migrate: %w", err)
	}
	if err := durable.WriteFile(o.FS, filepath.Join(dir, formatName), to.encode()); err != nil {
		return 0, fmt.Errorf("ledger: migrate: %w", err)
	}
	return wrote.records, removeLog(o.FS, dir, from)
}

// tally is what records add up to, for a comparison.
type tally struct {
	records uint64
	sum     xxhash.Digest
}

func (t *tally) add(r wal.Record) {
	var lsn [8]byte
	binary.LittleEndian.PutUint64(lsn[:], r.LSN)
	t.sum.Write(lsn[:]) // never fails, see its documentation
	t.sum.Write(r.Data)
	t.records++
}

// together is how many bytes of records are waited for at once.
const together = 4 << 20

// copyLog appends every record to a new log.
func copyLog(old *wal.Log, options wal.Options) (*tally, error) {
	if err := durable.MkdirAll(options.FS, options.Dir); err != nil {
		return nil, err
	}
	var t tally
	t.sum.Reset()
	var fresh *wal.Log
	var last wal.Ticket
	waiting := 0
	for r, err := range old.Records(old.First()) {
		if err == nil && fresh == nil {
			if fresh, err = wal.Create(options, r.LSN-1, r.Data); err == nil {
				t.add(r)
				continue
			}
		}
		if err == nil {
			last, err = fresh.Append(r.Data, 0)
		}
		if err == nil && last.LSN() != r.LSN {
			err = fmt.Errorf("the record with LSN %d got %d", r.LSN, last.LSN())
		}
		if waiting += len(r.Data); err == nil && waiting > together {
			waiting, err = 0, last.Wait()
		}
		if err != nil {
			if fresh != nil {
				err = errors.Join(err, fresh.Close())
			}
			return nil, err
		}
		t.add(r)
	}
	return &t, fresh.Close() // which waits for the rest; a log holds a record at least
}

// same makes sure that a log holds what was written to it.
func same(options wal.Options, wrote *tally) error {
	var t tally
	t.sum.Reset()
	if _, err := wal.Inspect(options, func(r wal.Record) error { t.add(r); return nil }); err != nil {
		return fmt.Errorf("ledger: migrate: %w", err)
	}
	if t.records != wrote.records || t.sum.Sum64() != wrote.sum.Sum64() {
		return fmt.Errorf("ledger: migrate: the new log %s reads back %d records of another sum, %d were written: %w",
			options.Dir, t.records, wrote.records, ErrCorrupt)
	}
	return nil
}

// removeLog removes the log of a format that the ledger does not have: what a migration
// left, cut off before or after its commit point.
func removeLog(fsys durable.FS, dir string, f format) error {
	path := filepath.Join(dir, f.logName())
	left, err := fsys.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	for _, e := range left {
		if err := fsys.Remove(filepath.Join(path, e.Name())); err != nil {
			return fmt.Errorf("ledger: %w", err)
		}
	}
	if err := durable.Remove(fsys, path); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return nil
}
