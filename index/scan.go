package index

import (
	"iter"
	"slices"
	"strings"

	"github.com/oncelog/oncelog/journal"
)

// Keyed is an entry with its key.
type Keyed struct {
	Key   journal.Key
	Entry journal.Entry
}

// Journal lists the keys that are not settled, oldest last change first. It is a
// copy of one moment a stripe.
func (b *Book) Journal() []Keyed {
	var all []Keyed
	for i := range b.stripes {
		b.stripes[i].each(func(l *live) {
			if l.entry.State.Settled() {
				return
			}
			if key, err := journal.DecodeKey([]byte(l.wire)); err == nil {
				all = append(all, Keyed{key, l.entry.Clone()})
			}
		})
	}
	slices.SortFunc(all, func(x, y Keyed) int { return compareLSN(x.Entry.LSN, y.Entry.LSN) })
	return all
}

func compareLSN(x, y uint64) int {
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

func (s *stripe) each(f func(*live)) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, l := range s.live {
		for ; l != nil; l = l.next {
			f(l)
		}
	}
}

// Conflicts lists the settled keys that show a conflict. Unsettled ones are in
// Journal.
func (b *Book) Conflicts() ([]Keyed, error) {
	b.mu.Lock()
	wires := make([]string, 0, len(b.conflicts))
	for wire := range b.conflicts {
		wires = append(wires, wire)
	}
	b.mu.Unlock()
	slices.Sort(wires)
	var all []Keyed
	for _, wire := range wires {
		key, err := journal.DecodeKey([]byte(wire))
		if err != nil {
			return nil, err
		}
		e, err := b.Get(key)
		if err != nil {
			return nil, err
		}
		if e.Conflict && e.State.Settled() {
			all = append(all, Keyed{key, e})
		}
	}
	return all, nil
}

// All yields every known key and its entry in their wire forms, each key once,
// while the book works: a key's entry is as of some moment of the iteration, and
// carries the LSN of its last record. The bytes are valid until the next step.
//
// Neighbours are of different shards, a run of a thousand each, so that several
// who load them in that order do not wait for each other.
func (b *Book) All() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		moving := b.copyLive()
		each := func(key, value []byte) bool {
			// A key can be in both places: what was read last in LSN order is
			// the one to keep.
			if e, ok := moving[string(key)]; ok {
				var settled journal.Entry
				if err := settled.Decode(value); err == nil && settled.LSN < e.LSN {
					return true
				}
				delete(moving, string(key))
			}
			switch e, how := b.left(value); how {
			case gone:
				return true
			case lessened:
				return yield(key, e.AppendTo(nil))
			}
			return yield(key, value)
		}
		const abreast = 4
		for first := 0; first < shards; first += abreast {
			if !b.settled.interleave(first, abreast, each) {
				return
			}
		}
		for key, e := range moving {
			if !yield([]byte(key), e.AppendTo(nil)) {
				return
			}
		}
	}
}

// interleave is Range over n shards at once, a run of each after the other.
func (x *Index) interleave(first, n int, fn func(key, value []byte) bool) bool {
	const run = 1000
	type cursor struct {
		view *view
		left []ref
	}
	cursors := make([]cursor, n)
	for i := range cursors {
		cursors[i].view, cursors[i].left = x.shards[first+i].snapshot()
	}
	for more := true; more; {
		more = false
		for i := range cursors {
			c := &cursors[i]
			now := c.left[:min(run, len(c.left))]
			for _, r := range now {
				rec := c.view.record(r)
				if !fn(rec.key, rec.value) {
					return false
				}
			}
			c.left = c.left[len(now):]
			more = more || len(c.left) > 0
		}
	}
	return true
}

// copyLive copies the live entries. It runs before the index is read: a key that
// settles meanwhile is then in the index, and one that was copied here and is
// there too is told apart by its LSN.
func (b *Book) copyLive() map[string]journal.Entry {
	all := map[string]journal.Entry{}
	for i := range b.stripes {
		b.stripes[i].each(func(l *live) {
			if l.entry.Known() {
				all[strings.Clone(l.wire)] = l.entry.Clone()
			}
		})
	}
	return all
}
