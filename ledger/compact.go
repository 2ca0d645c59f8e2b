package ledger

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/oncelog/oncelog/internal/durable"
	"github.com/oncelog/oncelog/recovery"
	"github.com/oncelog/oncelog/snapshot"
)

// keepSnapshots is how many sound snapshots are kept, and the log back to the
// oldest of them, so that one rotten file loses nothing.
const keepSnapshots = 2

// compaction is the state of the snapshots of a ledger.
type compaction struct {
	run sync.Mutex // held while a snapshot is taken

	mu   sync.Mutex // guards last
	last SnapshotStat
}

// SnapshotStat says how the snapshots stand.
type SnapshotStat struct {
	Taken   int           // since the ledger was opened
	LSN     uint64        // of the last one taken or loaded; 0 for none
	Entries uint64        // in it
	Bytes   int64         // of its file
	Took    time.Duration // the last one taken
	Err     error         // why the last one was not taken; nil if it was
}

func (c *compaction) stat() SnapshotStat {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// workInBackground takes a snapshot whenever the log has grown by SnapshotEvery
// bytes since the last, takes note of the passing of time, and looks at the memory.
// A snapshot that fails is reported in Stat and tried again: the ledger works without
// it, its log only grows.
func (l *Embedded) workInBackground() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	base, marked := l.log.Stat().Appended, time.Now()
	for {
		select {
		case <-l.stop:
			return
		case <-tick.C:
		}
		if l.log.Err() != nil {
			continue
		}
		l.measure()
		if time.Since(marked) >= markEvery {
			marked = time.Now()
			_ = l.age(0, 0) // a log that fails is told to everybody else
		}
		if grown := l.log.Stat().Appended - base; l.opts.SnapshotEvery < 0 || grown < l.opts.SnapshotEvery {
			continue
		}
		base = l.log.Stat().Appended
		// The error is kept for Stat.
		_, _ = l.Compact()
	}
}

// Compact takes a snapshot now, keeps the last two sound ones, and drops the log
// before the older. The ledger goes on working meanwhile. A crash at any point
// leaves the older snapshots and the log they need.
func (l *Embedded) Compact() (SnapshotStat, error) {
	l.compaction.run.Lock()
	defer l.compaction.run.Unlock()
	start := time.Now()
	info, err := l.snapshot()
	l.compaction.mu.Lock()
	defer l.compaction.mu.Unlock()
	if err != nil {
		l.compaction.last.Err = err
		return l.compaction.last, err
	}
	l.compaction.last = SnapshotStat{Taken: l.compaction.last.Taken + 1, LSN: info.Header.LSN, Entries: info.Entries,
		Bytes: info.Bytes, Took: time.Since(start)}
	return l.compaction.last, nil
}

func (l *Embedded) snapshot() (snapshot.Info, error) {
	if err := l.Err(); err != nil {
		return snapshot.Info{}, err
	}
	if err := l.letGo(); err != nil {
		return snapshot.Info{}, err
	}
	dir := filepath.Join(l.dir, snapshotsName)
	// The LSN comes first: an entry read later may be newer, never older, and
	// carries the LSN that tells replay so.
	h := snapshot.Header{ID: l.format.id(), LSN: l.log.Durable(), Epoch: l.epoch, About: uint64(l.book.Len())}
	h.Extra = recovery.EncodeLedgerwide(l.book.Ledgerwide())
	info, err := snapshot.Write(l.opts.FS, dir, h, l.book.All())
	if err != nil {
		return info, fmt.Errorf("ledger: snapshot at LSN %d: %w", h.LSN, err)
	}
	l.book.Sweep()
	return info, l.dropOld(dir, info)
}

// dropOld removes what is behind the second newest sound snapshot: other
// snapshots first, then log. Damaged snapshots do not count as sound and go to
// quarantine.
func (l *Embedded) dropOld(dir string, newest snapshot.Info) error {
	found, err := snapshot.List(l.opts.FS, dir)
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	sound := 0
	var oldest uint64
	for _, s := range found {
		switch {
		case sound == keepSnapshots:
			if err := durable.Remove(l.opts.FS, s.Path); err != nil {
				return fmt.Errorf("ledger: %w", err)
			}
		case s.Path == newest.Path:
			sound, oldest = sound+1, newest.Header.LSN
		default:
			info, err := snapshot.Verify(l.opts.FS, s.Path, l.format.id())
			if errors.Is(err, snapshot.ErrCorrupt) {
				if err := l.quarantine(s.Path); err != nil {
					return err
				}
				continue
			}
			if err != nil {
				return fmt.Errorf("ledger: %w", err)
			}
			sound, oldest = sound+1, info.Header.LSN
		}
	}
	if sound < keepSnapshots {
		return nil
	}
	return l.log.Truncate(oldest + 1)
}

// quarantine moves a damaged file out of the way, for a person to look at.
func (l *Embedded) quarantine(path string) error {
	dir := filepath.Join(l.dir, quarantineName)
	if err := durable.MkdirAll(l.opts.FS, dir); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	to := filepath.Join(dir, fmt.Sprintf("%s.%d", filepath.Base(path), time.Now().UnixNano()))
	if err := durable.Move(l.opts.FS, path, to); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return nil
}
