package index

import (
	"fmt"
	"iter"

	"github.com/oncelog/oncelog/journal"
)

// Changes yields, like All, the keys that records of the log are about, each key
// once. records are LSN and wire key of the records after some LSN and up to to, in
// LSN order, all of them applied.
//
// What retention has let go of comes as an entry that knows nothing, once for each of
// its records: a snapshot before may hold the key as it was when it was not settled.
func (b *Book) Changes(to uint64, records iter.Seq2[uint64, []byte]) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		// Keys with records after to. Of all others the last record tells the
		// turn, so that only what changes meanwhile takes memory.
		ahead := map[string]struct{}{}
		for lsn, wire := range records {
			e, value := b.current(wire)
			switch {
			case !e.Known():
				value = (&journal.Entry{LSN: lsn}).AppendTo(nil)
			case e.LSN > to:
				if _, done := ahead[string(wire)]; done {
					continue
				}
				ahead[string(wire)] = struct{}{}
			case e.LSN != lsn:
				continue
			}
			if !yield(wire, value) {
				return
			}
		}
	}
}

// current is the durable entry of a key, decoded and in its wire form; the zero Entry
// for none.
func (b *Book) current(wire []byte) (journal.Entry, []byte) {
	var e journal.Entry
	h := b.hash(wire)
	if b.stripe(h).get(h, wire, &e) {
		return e, e.AppendTo(nil)
	}
	value, ok := b.settled.find(h, wire)
	if !ok {
		return journal.Entry{}, nil
	}
	e, how := b.left(value)
	if how == lessened {
		value = e.AppendTo(nil)
	}
	return e, value
}

// Merge takes one entry of a delta, on top of the snapshots before it: the newer of a
// key's entries stays, in whichever order they come. It may be called for different
// keys at once.
func (b *Book) Merge(wire, value []byte) error {
	if _, err := journal.DecodeKey(wire); err != nil {
		return fmt.Errorf("index: snapshot entry: %w", err)
	}
	e, err := journal.DecodeEntry(value)
	if err != nil {
		return fmt.Errorf("index: snapshot entry of key %q: %w", wire, err)
	}
	h := b.hash(wire)
	s := b.stripe(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	l, err := b.take(s, h, wire)
	if err != nil {
		return err
	}
	if e.LSN > l.entry.LSN {
		b.count(l.entry.State, e.State)
		l.entry = e.Clone()
		if !e.Known() {
			b.settled.Delete(wire)
		}
	}
	b.put(s, wire, l)
	return nil
}
