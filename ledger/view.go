package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"

	"github.com/oncelog/oncelog/index"
	"github.com/oncelog/oncelog/internal/durable"
	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/recovery"
	"github.com/oncelog/oncelog/snapshot"
	"github.com/oncelog/oncelog/wal"
)

// A View is what a ledger's directory held at one moment, read without changing
// or repairing anything. Its methods may be called concurrently.
type View struct {
	dir    string
	fs     durable.FS
	format format
	book   *index.Book
	report *recovery.Report
	owned  bool
	epoch  uint64
}

// viewTries is how often a directory that changes under the reader is read again.
const viewTries = 20

// OpenView reads the directory of a ledger, which another process may own and use
// meanwhile. ErrNoLedger where there is none; ErrCorrupt where it is damaged.
func OpenView(dir string, o Options) (*View, error) {
	o = o.withDefaults()
	f, err := readFormat(o.FS, dir)
	if err != nil {
		return nil, err
	}
	if err := repaired(o.FS, dir); err != nil {
		return nil, err
	}
	v := &View{dir: dir, fs: o.FS, format: f}
	for try := 1; ; try++ {
		if v.owned, err = owned(o.FS, dir); err != nil {
			return nil, err
		}
		v.book, v.report, err = recovery.Inspect(recoveryOptions(dir, f, o))
		// What is being written, or removed, while it is read is no damage; read
		// again, a damage is still there.
		again := errors.Is(err, fs.ErrNotExist) || v.owned && err != nil
		if !again || try == viewTries {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	v.epoch = v.report.Epoch
	if !v.owned {
		v.epoch++
	}
	return v, nil
}

// owned reports whether a process owns the directory. Taking the lock for a moment
// is the only way to know; Open waits that moment.
func owned(fsys durable.FS, dir string) (bool, error) {
	path := filepath.Join(dir, lockName)
	if _, err := fsys.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return false, nil // and it stays so: a view makes no file
	}
	lock, err := fsys.Lock(path)
	switch {
	case errors.Is(err, ErrLocked):
		return true, nil
	case errors.Is(err, fs.ErrPermission):
		return false, nil // a reader who may not write is not in the way of anybody
	case err != nil:
		return false, fmt.Errorf("ledger: %w", err)
	}
	return false, lock.Close()
}

// Owned reports whether a process owned the ledger when it was read.
func (v *View) Owned() bool { return v.owned }

// Report says what was found.
func (v *View) Report() recovery.Report { return *v.report }

// Get is what was known of a key.
func (v *View) Get(key journal.Key) (journal.Entry, error) {
	if err := checkKey(key); err != nil {
		return journal.Entry{}, err
	}
	return v.book.Get(key)
}

// State is where the key of the entry stood: an attempt without an outcome is in
// flight while its owner lives, and in doubt once it is gone.
func (v *View) State(e *journal.Entry) journal.State { return e.StateIn(v.epoch) }

// Unsettled lists the journal, oldest last change first.
func (v *View) Unsettled() iter.Seq2[journal.Key, journal.Entry] { return each(v.book.Journal()) }

// Conflicts lists the settled keys that show a conflict; unsettled ones show it
// in Unsettled.
func (v *View) Conflicts() ([]index.Keyed, error) { return v.book.Conflicts() }

// Stat is what the ledger held.
func (v *View) Stat() (Stat, error) {
	s, err := statOf(v.book)
	s.Epoch = v.report.Epoch
	s.Log = wal.Stat{Bytes: v.report.Log.Bytes, Segments: v.report.Log.Segments, First: v.report.Log.First, Durable: v.report.Log.Last}
	s.Snapshots = loadedStat(v.report)
	return s, err
}

// Records yields the log's records, decoded by the caller, in LSN order, reading
// the files again.
func (v *View) Records(from uint64) iter.Seq2[wal.Record, error] {
	return func(yield func(wal.Record, error) bool) {
		enough := errors.New("enough")
		_, err := wal.Inspect(logOptions(v.dir, v.format, Options{FS: v.fs}), func(r wal.Record) error {
			if r.LSN >= from && !yield(r, nil) {
				return enough
			}
			return nil
		})
		if err != nil && !errors.Is(err, enough) {
			yield(wal.Record{}, err)
		}
	}
}

// A Verdict is what Verify found.
type Verdict struct {
	View      *View    // nil where the ledger cannot be read
	Problems  []error  // what is damaged; none if all is sound
	Snapshots []string // files that were read and are sound
}

// Verify reads everything that a ledger's directory holds and checks every
// checksum, the log's chain and the transitions of every key. It changes nothing.
// The error says that there is no ledger, or that it cannot be read at all.
func Verify(dir string, o Options) (Verdict, error) {
	o = o.withDefaults()
	var verdict Verdict
	f, err := readFormat(o.FS, dir)
	if errors.Is(err, ErrCorrupt) {
		return Verdict{Problems: []error{err}}, nil
	}
	if err != nil {
		return verdict, err
	}
	snapshots, err := snapshot.List(o.FS, filepath.Join(dir, snapshotsName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return verdict, fmt.Errorf("ledger: %w", err)
	}
	for _, s := range snapshots {
		_, err := snapshot.Verify(o.FS, s.Path, f.id())
		switch {
		case errors.Is(err, fs.ErrNotExist): // its owner has removed it meanwhile
		case err != nil:
			verdict.Problems = append(verdict.Problems, err)
		default:
			verdict.Snapshots = append(verdict.Snapshots, s.Path)
		}
	}
	verdict.View, err = OpenView(dir, o)
	if err != nil {
		verdict.Problems = append(verdict.Problems, err)
	}
	return verdict, nil
}

// InConflict lists every key that shows a conflict, settled or not.
func (v *View) InConflict() ([]index.Keyed, error) {
	all, err := v.book.Conflicts()
	if err != nil {
		return nil, err
	}
	unsettled := slices.DeleteFunc(v.book.Journal(), func(k index.Keyed) bool { return !k.Entry.Conflict })
	return append(all, unsettled...), nil
}
