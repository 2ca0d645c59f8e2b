package index

import (
	"fmt"
	"slices"
	"sync"

	"github.com/oncelog/oncelog/journal"
)

// A Draft is a key under decision: what is durable of it, what is on its way,
// and room for the record that the decision writes.
type Draft struct {
	// Durable is what Get shows.
	Durable *journal.Entry
	// Staged is what Get will show once all that was appended is durable. It
	// is Durable where nothing is on its way.
	Staged *journal.Entry
	// Pending says that something is on its way.
	Pending bool
	// Reserve is the log space promised to the attempt's outcome, in bytes.
	// What the decision leaves in it is kept.
	Reserve int64
	// Record is room for the record that the decision returns.
	Record journal.Record

	live *live
}

// Tag is what Applied wants to be given with the record that the decision returns.
func (d *Draft) Tag() any { return d.live }

var drafts = sync.Pool{New: func() any { return new(Draft) }}

// Stage decides on a key. The decision looks at the draft and returns the record
// to write, or none; queue puts the record in the log's queue without waiting
// for the disk, and returns its LSN. Both run under the key's lock, so that records of
// a key are queued in the order in which they were decided; neither may call the book.
// The draft is valid during the call. Stage returns what the entry is once the record is
// durable; what decide or queue failed with, or the transition table's refusal, and
// then nothing was staged.
func (b *Book) Stage(key journal.Key, decide func(*Draft) (*journal.Record, error), queue func(*journal.Record, *Draft) (uint64, error)) (journal.Entry, error) {
	var buf keyBuffer
	wire := key.AppendTo(buf[:0])
	h := b.hash(wire)
	s := b.stripe(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	l, err := b.take(s, h, wire)
	if err != nil {
		return journal.Entry{}, err
	}
	d := drafts.Get().(*Draft)
	defer drafts.Put(d)
	*d = Draft{Durable: &l.entry, Staged: &l.entry, Pending: l.pending > 0, Reserve: l.reserve, live: l}
	if d.Pending {
		d.Staged = &l.staged
	}
	r, err := decide(d)
	if err != nil || r == nil {
		return journal.Entry{}, err
	}
	next := *d.Staged
	if err := next.Apply(r, journal.Unnumbered); err != nil {
		return journal.Entry{}, err
	}
	lsn, err := queue(r, d)
	if err != nil {
		return journal.Entry{}, err
	}
	next.Number(lsn)
	l.staged = next
	l.reserve = d.Reserve
	l.pending++
	s.set(wire, l)
	return next, nil
}

// Applied is Apply for a record that Stage has queued, with its draft's tag: what it
// leads to is known already, unless the key has later ones on their way.
func (b *Book) Applied(lsn uint64, data []byte, tag any) error {
	l, ok := tag.(*live)
	if !ok {
		return b.Apply(lsn, data)
	}
	s := b.stripe(l.hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	was := l.entry.State
	if l.pending == 1 {
		l.entry = l.staged
	} else {
		r, err := journal.DecodeRecord(data)
		if err == nil {
			err = l.entry.Apply(&r, lsn)
		}
		if err != nil {
			return fmt.Errorf("index: record at LSN %d: %w", lsn, err)
		}
	}
	b.count(was, l.entry.State)
	b.changed(s, l)
	return nil
}

// Watch is the durable entry of a key, whether records of it are on their way,
// and a channel that closes at the key's next change.
func (b *Book) Watch(key journal.Key) (e journal.Entry, pending bool, changed <-chan struct{}, err error) {
	var buf keyBuffer
	wire := key.AppendTo(buf[:0])
	h := b.hash(wire)
	s := b.stripe(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.find(h, wire)
	if l == nil {
		e, err = b.fromIndex(h, wire)
		return e, false, nil, err
	}
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	e = l.entry
	e.History = slices.Clone(e.History)
	return e, l.pending > 0, l.changed, nil
}
