package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncelog/oncelog/internal/durable"
	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/recovery"
	"github.com/oncelog/oncelog/snapshot"
)

// keepChains is how many sound chains of snapshots are kept, and the log back to the
// end of the oldest of them, so that one rotten file loses nothing.
const keepChains = 2

// logPerEntry bounds the log that is kept while the deltas stay small, because it is
// the same keys that change again and again: records for each entry of the base.
const logPerEntry = 4

// compaction is the state of the snapshots of a ledger.
type compaction struct {
	run   sync.Mutex      // held while a snapshot is taken
	chain []snapshot.Info // to which the next delta is added; empty where a base is due; guarded by run

	mu   sync.Mutex // guards last
	last SnapshotStat

	written, due atomic.Uint64 // entries of the snapshot under way, and about how many it will have
}

// SnapshotStat says how the snapshots stand.
type SnapshotStat struct {
	Taken   int           // since the ledger was opened
	LSN     uint64        // up to which the last one taken or loaded reaches; 0 for none
	Entries uint64        // in it
	Bytes   int64         // of its file
	Deltas  int           // between the newest base and it, itself included
	Wrote   int64         // bytes of all files that were written since the ledger was opened
	Took    time.Duration // the last one taken
	Err     error         // why the last one was not taken; nil if it was

	Written uint64 // entries of the one that is being written; 0 for none
	Due     uint64 // about how many that will have
}

func (c *compaction) stat() SnapshotStat {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.last
	s.Written, s.Due = c.written.Load(), c.due.Load()
	return s
}

// begin takes over what an opening has loaded. Where a file was damaged the next
// snapshot is a base, and clears up.
func (c *compaction) begin(r *recovery.Report) {
	c.last = loadedStat(r)
	if len(r.Damaged) == 0 {
		c.chain = r.Chain
	}
}

// loadedStat is how the snapshots stand after an opening.
func loadedStat(r *recovery.Report) SnapshotStat {
	n := len(r.Chain)
	if n == 0 {
		return SnapshotStat{}
	}
	newest := r.Chain[n-1]
	return SnapshotStat{LSN: newest.Header.LSN, Entries: newest.Entries, Bytes: newest.Bytes, Deltas: n - 1}
}

// Compact writes a base snapshot now, keeps the last two sound chains, and drops the
// log before the end of the older. The ledger goes on working meanwhile. A crash at
// any point leaves the older snapshots and the log they need.
func (l *Embedded) Compact() (SnapshotStat, error) { return l.take(true) }

// Snapshot writes what has changed since the last snapshot, or, where the deltas have
// outgrown half of their base, does what Compact does. It writes nothing where
// nothing has changed. The cost follows the changes, not the number of keys.
func (l *Embedded) Snapshot() (SnapshotStat, error) { return l.take(false) }

func (l *Embedded) take(base bool) (SnapshotStat, error) {
	c := &l.compaction
	c.run.Lock()
	defer c.run.Unlock()
	start := time.Now()
	info, err := l.snapshot(base)
	c.written.Store(0)
	c.due.Store(0)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil:
		c.last.Err = err
	case info.Path != "":
		c.last = SnapshotStat{Taken: c.last.Taken + 1, LSN: info.Header.LSN, Entries: info.Entries, Bytes: info.Bytes,
			Deltas: len(c.chain) - 1, Wrote: c.last.Wrote + info.Bytes, Took: time.Since(start)}
	}
	return c.last, err
}

// snapshot writes a base or a delta; the zero Info where there is nothing to write.
// Called with run held.
func (l *Embedded) snapshot(base bool) (snapshot.Info, error) {
	c := &l.compaction
	if err := l.Err(); err != nil {
		return snapshot.Info{}, err
	}
	if err := l.letGo(); err != nil {
		return snapshot.Info{}, err
	}
	// The LSN comes first: an entry read later may be newer, never older, and
	// carries the LSN that tells replay so.
	h := snapshot.Header{ID: l.format.id(), LSN: l.log.Durable(), Epoch: l.epoch, About: uint64(l.book.Len())}
	h.Extra = recovery.EncodeLedgerwide(l.book.Ledgerwide())
	keep := 0 // files of the chain that the new one follows
	if !base {
		keep = follows(c.chain, h.LSN, l.log.First())
	}
	var failed error // reading the log
	entries := l.book.All()
	if keep > 0 {
		if h.From = c.chain[keep-1].Header.LSN; h.From == h.LSN {
			return snapshot.Info{}, nil
		}
		h.About = h.LSN - h.From
		entries = l.book.Changes(h.LSN, l.keysOf(h.From+1, h.LSN, &failed))
	}
	c.due.Store(h.About)
	info, err := snapshot.Write(l.opts.FS, filepath.Join(l.dir, snapshotsName), h, c.counted(entries), func() error { return failed })
	if err != nil {
		return info, fmt.Errorf("ledger: snapshot at LSN %d: %w", h.LSN, err)
	}
	replaced := c.chain[keep:]
	c.chain = append(c.chain[:keep:keep], info)
	l.book.Sweep()
	if keep == 0 {
		return info, l.dropOld()
	}
	for _, old := range replaced {
		if err := durable.Remove(l.opts.FS, old.Path); err != nil {
			return info, fmt.Errorf("ledger: %w", err)
		}
	}
	return info, nil
}

// follows is how many files of a chain a delta up to an LSN goes on from; the rest it
// replaces. 0 means that a base is due.
//
// A delta replaces those before it that cover no more records than it does itself, so
// that each is larger than all that follow: as in a binary counter there are at most
// log n of them, and an entry is written again at most log n times before the
// next base. A base is due when the deltas are half as large as the one there is, so bases
// add up to three times the last.
func follows(chain []snapshot.Info, lsn, logFirst uint64) int {
	if len(chain) == 0 {
		return 0
	}
	base, deltas := chain[0], int64(0)
	for _, d := range chain[1:] {
		deltas += d.Bytes
	}
	if 2*deltas > base.Bytes || lsn-base.Header.LSN > logPerEntry*base.Entries {
		return 0
	}
	n := len(chain)
	covers := lsn - chain[n-1].Header.LSN
	for ; n > 1; n-- {
		h := chain[n-1].Header
		if h.LSN-h.From > covers {
			break
		}
		covers += h.LSN - h.From
	}
	if chain[n-1].Header.LSN+1 < logFirst {
		return 0
	}
	return n
}

// keysOf yields LSN and key of the log's records from one LSN to another.
func (l *Embedded) keysOf(from, to uint64, failed *error) iter.Seq2[uint64, []byte] {
	return func(yield func(uint64, []byte) bool) {
		for r, err := range l.log.Records(from) {
			if err != nil {
				*failed = err
				return
			}
			if r.LSN > to {
				return
			}
			if key, ok := journal.KeyOf(r.Data); ok && !yield(r.LSN, key) {
				return
			}
		}
	}
}

// yieldEvery is after how many entries the writer of a snapshot lets others run: the
// scheduler would take its processor away only after 10 ms, and callers that have just
// been woken would wait for it.
const yieldEvery = 128

// counted passes entries on and counts them.
func (c *compaction) counted(entries iter.Seq2[[]byte, []byte]) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		for key, value := range entries {
			if c.written.Add(1)%yieldEvery == 0 {
				runtime.Gosched()
			}
			if !yield(key, value) {
				return
			}
		}
	}
}

// dropOld removes what is behind the second newest sound chain: snapshots first, then
// log. Damaged files do not count and go to quarantine.
func (l *Embedded) dropOld() error {
	files, err := snapshot.List(l.opts.FS, filepath.Join(l.dir, snapshotsName))
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	keep, sound, end := map[string]bool{}, 0, uint64(0)
	for _, chain := range snapshot.Chains(files) {
		if sound == keepChains {
			break
		}
		reaches, err := l.soundPart(chain)
		if err != nil {
			return err
		}
		for _, f := range reaches {
			keep[f.Path] = true
		}
		if len(reaches) > 0 {
			sound, end = sound+1, reaches.End()
		}
	}
	if sound < keepChains {
		return nil
	}
	for _, f := range files {
		if keep[f.Path] {
			continue
		}
		// One that was moved to quarantine is gone already.
		if err := durable.Remove(l.opts.FS, f.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("ledger: %w", err)
		}
	}
	return l.log.Truncate(end + 1)
}

// soundPart is the part of a chain before the first damaged file, which goes to quarantine.
func (l *Embedded) soundPart(chain snapshot.Chain) (snapshot.Chain, error) {
	for i, f := range chain {
		if f.Path == l.compaction.chain[0].Path {
			continue // it was read back just now
		}
		_, err := snapshot.Verify(l.opts.FS, f.Path, l.format.id())
		if errors.Is(err, snapshot.ErrCorrupt) {
			return chain[:i], quarantine(l.opts.FS, l.dir, f.Path)
		}
		if err != nil {
			return nil, fmt.Errorf("ledger: %w", err)
		}
	}
	return chain, nil
}

// quarantine moves a damaged file out of the way, for a person to look at.
func quarantine(fsys durable.FS, ledger, path string) error {
	dir := filepath.Join(ledger, quarantineName)
	if err := durable.MkdirAll(fsys, dir); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	to := filepath.Join(dir, fmt.Sprintf("%s.%d", filepath.Base(path), time.Now().UnixNano()))
	if err := durable.Move(fsys, path, to); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return nil
}
