package ledger

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncelog/oncelog/index"
	"github.com/oncelog/oncelog/internal/durable"
	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/recovery"
	"github.com/oncelog/oncelog/wal"
)

// Errors of the log below, as the ledger passes them on.
var (
	// ErrCorrupt: the directory is damaged. errors.As with *wal.CorruptError or
	// *snapshot.CorruptError gives the place.
	ErrCorrupt = wal.ErrCorrupt
	// ErrFailed: a write or a sync failed; the log accepts nothing more until
	// the ledger is opened again.
	ErrFailed = wal.ErrFailed
	// ErrFull: there is no room for the marker and its outcome.
	ErrFull = wal.ErrFull
)

// Embedded is a ledger in a directory that this process owns.
type Embedded struct {
	dir    string
	opts   Options
	format format
	lock   durable.File
	log    *wal.Log
	book   *index.Book
	report *recovery.Report
	epoch  uint64
	opened time.Time

	openBefore int64        // ms that earlier owners are known to have had it open
	memory     atomic.Int64 // bytes of the settled keys, a second ago

	closed     atomic.Bool
	stop       chan struct{} // closed by Close
	background sync.WaitGroup

	compaction compaction
}

var _ Ledger = (*Embedded)(nil)

// Report says what Open found and mended.
func (l *Embedded) Report() recovery.Report { return *l.report }

// Dir is the ledger's directory.
func (l *Embedded) Dir() string { return l.dir }

// Epoch numbers this owner; every Open has the next one.
func (l *Embedded) Epoch() uint64 { return l.epoch }

// Err is nil while the ledger accepts, and otherwise why it does not: it wraps
// ErrFailed or ErrClosed.
func (l *Embedded) Err() error {
	if l.closed.Load() {
		return fmt.Errorf("ledger: %s: %w", l.dir, ErrClosed)
	}
	return l.log.Err()
}

// Get is what is known of a key; see [Ledger]. It does no I/O, and for a settled
// key it allocates nothing.
func (l *Embedded) Get(key journal.Key) (journal.Entry, error) {
	if err := key.Validate(); err != nil {
		return journal.Entry{}, checkKey(key)
	}
	if l.closed.Load() {
		return journal.Entry{}, l.Err()
	}
	return l.book.Get(key)
}

// State is where the key of the entry stands for this owner.
func (l *Embedded) State(e *journal.Entry) journal.State { return e.StateIn(l.epoch) }

// Await is Get once no attempt of the key is in flight here.
func (l *Embedded) Await(ctx context.Context, key journal.Key) (journal.Entry, error) {
	if err := checkKey(key); err != nil {
		return journal.Entry{}, err
	}
	for {
		e, pending, changed, err := l.book.Watch(key)
		if err != nil || (!pending && e.StateIn(l.epoch) != journal.Accepted) {
			return e, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return e, fmt.Errorf("ledger: waiting for %v: %w: %w", key, ErrInFlight, context.Cause(ctx))
		case <-l.log.Failed():
			return e, l.Err()
		case <-l.stop:
			return e, l.Err()
		}
	}
}

// Unsettled lists the journal, oldest last change first.
func (l *Embedded) Unsettled() iter.Seq2[journal.Key, journal.Entry] {
	return func(yield func(journal.Key, journal.Entry) bool) { each(l.book.Journal())(yield) }
}

func each(keys []index.Keyed) iter.Seq2[journal.Key, journal.Entry] {
	return func(yield func(journal.Key, journal.Entry) bool) {
		for _, k := range keys {
			if !yield(k.Key, k.Entry) {
				return
			}
		}
	}
}

// UnsettledCount is how many keys are in the journal.
func (l *Embedded) UnsettledCount() int { return l.book.Unsettled() }

// Conflicts lists the settled keys that show a conflict; unsettled ones show it
// in Unsettled.
func (l *Embedded) Conflicts() ([]index.Keyed, error) { return l.book.Conflicts() }

// Stat is what a ledger holds and costs.
type Stat struct {
	Epoch       uint64
	Keys        int  // known, settled or not
	Unsettled   int  // in the journal
	Conflicts   int  // settled keys with a conflict
	Amnesia     bool // acknowledged records are known to be lost: unknown keys are in doubt
	Reason      string
	Open        time.Duration // the ledger is known to have been open, over all owners
	KeysFrom    uint64        // settled keys without a record from this LSN on were let go
	ResultsFrom uint64        // their results were
	Log         wal.Stat
	Index       index.Stat
	Snapshots   SnapshotStat
}

// Stat is what the ledger holds and costs now.
func (l *Embedded) Stat() (Stat, error) {
	s, err := statOf(l.book)
	s.Epoch, s.Log, s.Snapshots = l.epoch, l.log.Stat(), l.compaction.stat()
	return s, err
}

// SnapshotStat is the part of Stat about the snapshots. It costs nothing, so that it can
// be asked for again and again while one is written.
func (l *Embedded) SnapshotStat() SnapshotStat { return l.compaction.stat() }

func statOf(book *index.Book) (Stat, error) {
	conflicts, err := book.Conflicts()
	w := book.Ledgerwide()
	return Stat{Keys: book.Len(), Unsettled: book.Unsettled(), Conflicts: len(conflicts),
		Amnesia: w.Amnesia, Reason: w.Reason, Index: book.Stat(),
		Open: time.Duration(w.Open) * time.Millisecond, KeysFrom: w.Keys, ResultsFrom: w.Results}, err
}

// Records yields the log's records from an LSN on, decoded, up to what was
// durable when it began. The records alias a buffer that the next step reuses.
func (l *Embedded) Records(from uint64) iter.Seq2[wal.Record, error] {
	return l.log.Records(max(from, l.log.First()))
}

// Close waits for what is being written, marks the log as cleanly closed and
// gives the directory back. Attempts without an outcome are then in doubt.
func (l *Embedded) Close() error {
	if l.closed.Swap(true) {
		return fmt.Errorf("ledger: %s: %w", l.dir, ErrClosed)
	}
	close(l.stop)
	l.background.Wait()
	err := l.log.Close()
	return errors.Join(err, l.lock.Close())
}
