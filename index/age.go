package index

import (
	"slices"
	"sync/atomic"

	"github.com/oncelog/oncelog/journal"
)

// horizon is what retention has let go of: settled entries whose last record is
// before an LSN. It is raised by a record of the log, so that a replay lets go of the
// same; the memory is given back later, by Sweep. A key with a conflict is kept.
type horizon struct {
	keys, results atomic.Uint64
}

func (h *horizon) raise(keys, results uint64) {
	h.keys.Store(max(h.keys.Load(), keys))
	h.results.Store(max(h.results.Load(), results, keys))
}

// age is what is left of an entry of the index.
func (h *horizon) age(e *journal.Entry) {
	if e.LSN >= h.results.Load() || !e.State.Settled() || e.Conflict {
		return
	}
	if e.LSN < h.keys.Load() {
		*e = journal.Entry{}
		return
	}
	if e.State == journal.Confirmed && !e.Failed {
		e.Result, e.NoResult = nil, true
	}
}

// maxMarks bounds the marks; beyond it every other one is let go, which makes
// retention keep a little longer.
const maxMarks = 128

// aged takes note of a record of the passing of time.
func (w *Ledgerwide) aged(r *journal.Record, lsn uint64) {
	w.Open = max(w.Open, r.Open)
	w.Keys, w.Results = max(w.Keys, r.Keys), max(w.Results, r.Results)
	if n := len(w.Marks); n > 0 && w.Marks[n-1].LSN >= lsn {
		return // a replay of what a snapshot holds
	}
	if len(w.Marks) == maxMarks {
		for i := range maxMarks / 2 {
			w.Marks[i] = w.Marks[2*i]
		}
		w.Marks = w.Marks[:maxMarks/2]
	}
	w.Marks = append(w.Marks, Mark{lsn, r.Open})
}

// Before is an LSN before which every record is from when the ledger had been open
// for no longer than open, in ms; 0 where none is known.
func (w *Ledgerwide) Before(open int64) uint64 {
	for _, m := range slices.Backward(w.Marks) {
		if m.Open <= open {
			return m.LSN
		}
	}
	return 0
}

// Age lets go of settled keys, and results, before LSNs. queue puts the record that
// says so in the log's queue without waiting. No decision is under way meanwhile: one
// that is recorded before it has seen the old state, one after it the new.
func (b *Book) Age(keys, results uint64, queue func() error) error {
	for i := range b.stripes {
		b.stripes[i].mu.Lock()
		defer b.stripes[i].mu.Unlock()
	}
	if err := queue(); err != nil {
		return err
	}
	b.horizon.raise(keys, results)
	return nil
}

// Sweep gives back the memory of what was let go, shard by shard, while the book
// works. It returns how many keys that were.
func (b *Book) Sweep() (gone int) {
	if b.horizon.results.Load() == 0 {
		return 0
	}
	for shard := range shards {
		changed := false
		b.settled.Range(shard, func(wire, value []byte) bool {
			dropped, did := b.sweep(wire, value)
			if dropped {
				gone++
			}
			changed = changed || did
			return true
		})
		if changed {
			b.settled.Compact(shard)
		}
	}
	return gone
}

// sweep brings the index's entry of a key up to what is left of it.
func (b *Book) sweep(wire, value []byte) (dropped, changed bool) {
	if _, ok := b.left(value); ok == kept {
		return false, false
	}
	h := b.hash(wire)
	s := b.stripe(h)
	s.mu.Lock() // what settles now is newer, and stays
	defer s.mu.Unlock()
	now, ok := b.settled.find(h, wire)
	if !ok {
		return false, false
	}
	switch e, how := b.left(now); how {
	case gone:
		b.settled.Delete(wire)
		return true, true
	case lessened:
		b.settled.put(h, wire, e.AppendTo(nil))
		return false, true
	}
	return false, false
}

// What retention leaves of an entry.
type remains int

const (
	kept remains = iota
	lessened
	gone
)

func (b *Book) left(value []byte) (journal.Entry, remains) {
	e, err := journal.DecodeEntry(value)
	if err != nil || e.LSN >= b.horizon.results.Load() {
		return e, kept
	}
	had := len(e.Result) > 0
	b.horizon.age(&e)
	switch {
	case !e.Known():
		return e, gone
	case had && len(e.Result) == 0:
		return e, lessened
	}
	return e, kept
}

// ageBuckets is how finely Newest tells LSNs apart.
const ageBuckets = 1 << 14

// Newest is an LSN from which on at least n settled keys have their last record, and
// not many more; 0 where there are no more than n.
func (b *Book) Newest(n int, last uint64) uint64 {
	if b.settled.Len() <= n {
		return 0
	}
	width := last/ageBuckets + 1
	counts := make([]int, ageBuckets)
	for shard := range shards {
		b.settled.Range(shard, func(_, value []byte) bool {
			if e, err := journal.DecodeEntry(value); err == nil && e.State.Settled() {
				counts[min(e.LSN/width, ageBuckets-1)]++
			}
			return true
		})
	}
	for i, count := range slices.Backward(counts) {
		if n -= count; n <= 0 {
			return uint64(i) * width
		}
	}
	return 0
}
