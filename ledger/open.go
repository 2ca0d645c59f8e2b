package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/oncelog/oncelog/internal/durable"
	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/recovery"
	"github.com/oncelog/oncelog/wal"
)

// Options of an embedded ledger. The zero value is the default of each.
type Options struct {
	// Create lets Open create the ledger where there is none.
	Create bool
	// Store is the segment store of a ledger that is created; an existing one
	// keeps its own. Defaults to wal.StoreTidwall.
	Store wal.StoreKind
	// LockWait is how long Open waits for another owner of the directory to
	// go. Defaults to 50ms, which is for readers that look who owns it.
	LockWait time.Duration
	// SegmentSize is the size of a log file in bytes. Defaults to 8 MiB.
	SegmentSize int64
	// SnapshotEvery is the number of bytes of log after which a snapshot is
	// taken and old log dropped. Defaults to 64 MiB; negative means never for
	// that reason.
	SnapshotEvery int64
	// SnapshotRecords is the number of records after which a snapshot is taken
	// as well. Defaults to any number.
	SnapshotRecords uint64
	// SnapshotInterval is the time after which a snapshot of what has changed, if
	// anything, is taken as well. Defaults to never.
	SnapshotInterval time.Duration
	// Keep bounds what is kept of settled keys. Defaults to everything, forever.
	Keep Retention
	// MaxMemory is how many bytes the settled keys may take in memory before
	// markers of new keys are refused with ErrFull. It is looked at every second.
	// Defaults to no limit.
	MaxMemory int64
	// Progress, where it is set, is called again and again while a ledger is opened,
	// viewed, backed up or restored, by one goroutine at a time, at least once for
	// each file. It must not block.
	Progress func(Progress)
	// FS is the file system. Defaults to the operating system's.
	FS durable.FS
}

// Progress is how far an opening, a backup or a restoration has got.
type Progress = recovery.Progress

// Retention bounds what is kept of settled keys; unsettled ones, and those that show a
// conflict, are always kept. A key that was let go is fresh again: an item that its
// queue still redelivers after that happens a second time. What is let go is decided
// when a snapshot is taken. The zero value keeps everything.
type Retention struct {
	// Keys is how long a key is kept after its last record, counted while the
	// ledger is open: an outage, or a clock that jumps, lets go of nothing. It
	// may be kept longer, never shorter: open time is noted every 10 minutes, and
	// more coarsely further back.
	Keys time.Duration
	// Count is how many settled keys are kept at least: the newest ones.
	Count int
	// Results is how long results are kept; a duplicate hears ErrResultExpired
	// afterwards, and nothing runs. Counted like Keys.
	Results time.Duration
}

func (o Options) withDefaults() Options {
	if o.Store == "" {
		o.Store = wal.StoreTidwall
	}
	if o.LockWait == 0 {
		o.LockWait = 50 * time.Millisecond
	}
	if o.SegmentSize == 0 {
		o.SegmentSize = 8 << 20
	}
	if o.SnapshotEvery == 0 {
		o.SnapshotEvery = 64 << 20
	}
	if o.FS == nil {
		o.FS = durable.OS
	}
	return o
}

// Create makes a ledger in a directory, which is made too where it is missing,
// and opens it. ErrExists where there is one already; ErrCorrupt where there are
// the remains of one. A creation that is cut off leaves no ledger, and can be
// repeated.
func Create(dir string, o Options) (*Embedded, error) {
	o = o.withDefaults()
	lock, err := takeLock(dir, o, true)
	if err != nil {
		return nil, err
	}
	if err := create(dir, o); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return open(dir, o, lock)
}

// Open opens the ledger in a directory: it takes the lock, recovers, and begins
// a new epoch. What it found and mended is in the ledger's Report.
//
// ErrNoLedger where there is none, unless the options say to create it;
// ErrLocked where another process owns it; ErrCorrupt, naming file, offset and
// LSN, where it is damaged.
func Open(dir string, o Options) (*Embedded, error) {
	o = o.withDefaults()
	lock, err := takeLock(dir, o, o.Create)
	if err != nil {
		return nil, err
	}
	if o.Create {
		if err := create(dir, o); err != nil && !errors.Is(err, ErrExists) {
			return nil, errors.Join(err, lock.Close())
		}
	}
	if err := repaired(o.FS, dir); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return open(dir, o, lock)
}

// repaired refuses a ledger whose repair was cut off: records are missing, and it
// does not know that yet.
func repaired(fsys durable.FS, dir string) error {
	path := filepath.Join(dir, repairName)
	if _, err := fsys.Stat(path); err == nil {
		return fmt.Errorf("ledger: %s: a repair was cut off; run `oncelog repair --dir %s --accept-loss` again: %w", path, dir, ErrCorrupt)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("ledger: %w", err)
	}
	return nil
}

// takeLock makes this process the directory's owner.
func takeLock(dir string, o Options, mkdir bool) (durable.File, error) {
	if mkdir {
		if err := durable.MkdirAll(o.FS, dir); err != nil {
			return nil, fmt.Errorf("ledger: %w", err)
		}
	} else if _, err := readFormat(o.FS, dir); err != nil {
		// Before the lock, so that a directory which is none gets no LOCK.
		return nil, err
	}
	return waitLock(filepath.Join(dir, lockName), o)
}

// waitLock takes the lock of a file, and says in it who has it.
func waitLock(path string, o Options) (durable.File, error) {
	ctx, stop := context.WithTimeout(context.Background(), o.LockWait)
	defer stop()
	for {
		lock, err := o.FS.Lock(path)
		if err == nil {
			return lock, nameOwner(lock)
		}
		if !errors.Is(err, ErrLocked) {
			return nil, fmt.Errorf("ledger: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("ledger: %s is held by %s after a wait of %v: %w", path, owner(o.FS, path), o.LockWait, ErrLocked)
		case <-time.After(lockPoll):
		}
	}
}

// lockPoll is how often waitLock looks for the lock.
const lockPoll = 10 * time.Millisecond

type ownership struct {
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Start time.Time `json:"start"`
}

// nameOwner writes into the lock file who holds it, for people: the lock itself
// is what excludes.
func nameOwner(lock durable.File) error {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	line, err := json.Marshal(ownership{os.Getpid(), host, time.Now().UTC()})
	if err == nil {
		err = lock.Truncate(0)
	}
	if err == nil {
		_, err = lock.WriteAt(append(line, '\n'), 0)
	}
	if err != nil && !durable.IsFull(err) {
		return errors.Join(fmt.Errorf("ledger: %w", err), lock.Close())
	}
	return nil
}

func owner(fsys durable.FS, path string) string {
	b, err := durable.ReadFile(fsys, path)
	var who ownership
	if err != nil || json.Unmarshal(b, &who) != nil {
		return "another process"
	}
	return fmt.Sprintf("process %d on %s since %s", who.PID, who.Host, who.Start.Format(time.RFC3339))
}

// create lays out a ledger. Commit point: the rename of FORMAT.new to FORMAT;
// before it the directory is no ledger, and the next creation starts over.
func create(dir string, o Options) error {
	if err := checkFree(o.FS, dir); err != nil {
		return err
	}
	f := newFormat(o.Store)
	begun := filepath.Join(dir, newFormatName)
	if err := durable.WriteFile(o.FS, begun, f.encode()); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	for _, name := range []string{walName, snapshotsName} {
		if err := makeEmpty(o.FS, filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("ledger: %w", err)
		}
	}
	log, err := wal.Create(logOptions(dir, f, o), 0, epochRecord(1, 0, "created"))
	if err != nil {
		return err
	}
	if err := log.Close(); err != nil {
		return err
	}
	if err := durable.Move(o.FS, begun, filepath.Join(dir, formatName)); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return nil
}

// checkFree makes sure that a directory is free for a new ledger.
func checkFree(fsys durable.FS, dir string) error {
	if _, err := fsys.Stat(filepath.Join(dir, formatName)); err == nil {
		return fmt.Errorf("ledger: %s holds one already: %w", dir, ErrExists)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("ledger: %w", err)
	}
	if err := checkUnused(fsys, dir); err != nil {
		return err
	}
	// An earlier creation that was cut off may have made the directory without
	// making its name durable.
	if err := fsys.SyncDir(filepath.Dir(filepath.Clean(dir))); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return nil
}

// makeEmpty makes a directory, or empties what an interrupted creation left.
func makeEmpty(fsys durable.FS, dir string) error {
	if err := durable.MkdirAll(fsys, dir); err != nil {
		return err
	}
	if err := fsys.SyncDir(filepath.Dir(dir)); err != nil {
		return err
	}
	left, err := fsys.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range left {
		if err := durable.Remove(fsys, filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func logOptions(dir string, f format, o Options) wal.Options {
	return wal.Options{
		FS:          o.FS,
		Dir:         filepath.Join(dir, f.logName()),
		Quarantine:  filepath.Join(dir, quarantineName),
		Watermark:   filepath.Join(dir, watermarkName),
		Reserve:     filepath.Join(dir, reserveName),
		ID:          f.id(),
		Store:       f.Store,
		SegmentSize: o.SegmentSize,
	}
}

func recoveryOptions(dir string, f format, o Options) recovery.Options {
	return recovery.Options{FS: o.FS, Log: logOptions(dir, f, o), Snapshots: filepath.Join(dir, snapshotsName),
		ID: f.id(), Seed: f.seed(), Progress: o.Progress}
}

// open recovers the ledger whose lock is held and begins an epoch.
func open(dir string, o Options, lock durable.File) (*Embedded, error) {
	f, err := readFormat(o.FS, dir)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	log, book, report, err := recovery.Run(recoveryOptions(dir, f, o))
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	// Only now that the log which FORMAT names is known to be whole: it might be
	// an old copy of FORMAT that was put back.
	if err := removeLog(o.FS, dir, f.migrated(f.Store)); err != nil {
		return nil, errors.Join(err, log.Close(), lock.Close())
	}
	// A copy that leaves out empty directories has left out this one, if no snapshot
	// was taken yet; where one was, recovery has missed it by now.
	if err := durable.MkdirAll(o.FS, filepath.Join(dir, snapshotsName)); err != nil {
		return nil, errors.Join(fmt.Errorf("ledger: %w", err), log.Close(), lock.Close())
	}
	l := &Embedded{dir: dir, opts: o, format: f, lock: lock, log: log, book: book, report: report,
		epoch: report.Epoch + 1, opened: time.Now(), openBefore: book.Ledgerwide().Open, stop: make(chan struct{})}
	l.compaction.begin(report)
	if err := l.begin(); err != nil {
		return nil, errors.Join(err, log.Close(), lock.Close())
	}
	return l, nil
}

// begin writes the epoch record. From here on every marker of an earlier epoch
// that has no outcome is in doubt.
func (l *Embedded) begin() error {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	rec := epochRecord(l.epoch, l.book.Ledgerwide().Open, fmt.Sprintf("pid %d on %s", os.Getpid(), host))
	// The record may use the reserve: a full disk must not keep the outcomes
	// of earlier attempts from being recorded.
	t, err := l.log.Append(rec, -int64(len(rec)))
	if err == nil {
		err = t.Wait()
	}
	if err != nil {
		return fmt.Errorf("ledger: epoch %d: %w", l.epoch, err)
	}
	l.measure()
	l.background.Go(l.workInBackground)
	return nil
}

func epochRecord(epoch uint64, openMS int64, note string) []byte {
	r := journal.Record{Kind: journal.KindEpoch, Epoch: epoch, Time: time.Now().UnixMilli(), Open: openMS, Note: note}
	return r.AppendTo(nil)
}
