package index

import (
	"iter"
	"runtime"
	"slices"
)

// tables yields every table of the view once.
func (v *view) tables() iter.Seq[*table] {
	return func(yield func(*table) bool) {
		for i := 0; i < len(v.dir); {
			t := v.dir[i]
			if !yield(t) {
				return
			}
			i += 1 << (v.depth - t.depth)
		}
	}
}

// grow replaces a full table by a larger one, or by two when it would get too
// large, and returns the one for h. The old table is left as it is for the
// readers that are in it.
func (s *shard) grow(t *table, h hash) *table {
	v := *s.view.Load()
	if buckets(t.step+1, s.phase) > maxBuckets && t.depth < dirBits {
		if low, high, ok := s.split(&v, t); ok {
			v.replace(h.dir(t.depth), t.depth, low, high)
			s.view.Store(&v)
			return v.table(h)
		}
	}
	larger := newTable(s.ahead(t.step+1, t.count, t.depth), t.count, s.phase, t.depth)
	s.rehash(&v, t, larger.insert)
	v.replace(h.dir(t.depth), t.depth, larger, larger)
	s.view.Store(&v)
	return larger
}

// eager is how many times its keys a table makes room for at most where more are
// expected: so little is wasted where the expectation is wrong.
const eager = 4

// ahead is the step, the given one or a later one, at which a table of count keys has
// room for those that are expected.
func (s *shard) ahead(step, count int, depth uint8) int {
	want := min(s.expected>>depth, eager*count)
	for room(buckets(step, s.phase)) <= want && buckets(step+1, s.phase) <= maxBuckets {
		step++
	}
	return step
}

// rehash calls fn with every ref in the table and the hash of its key.
func (s *shard) rehash(v *view, t *table, fn func(hash, ref)) {
	var ahead [fetchAhead]ref
	n := 0
	flush := func() {
		var first byte
		for _, r := range ahead[:n] {
			first += v.fetch(r)
		}
		runtime.KeepAlive(first) // the reads are what it is for
		for _, r := range ahead[:n] {
			fn(s.hash.sum(v.record(r).key), r)
		}
		n = 0
	}
	t.refs(func(r ref) {
		ahead[n] = r
		if n++; n == len(ahead) {
			flush()
		}
	})
	flush()
}

// split deals the table's entries out to two by the next bit of their hashes.
// It declines where the bit hardly tells them apart: hashes that collide will
// not be parted by more tables.
func (s *shard) split(v *view, t *table) (low, high *table, ok bool) {
	depth := t.depth + 1
	var n [2]int
	s.rehash(v, t, func(h hash, _ ref) { n[h.dir(depth)&1]++ })
	if min(n[0], n[1]) < t.count/4 {
		return nil, nil, false
	}
	// A step less in each half is a step more in all: two steps double.
	low = newTable(s.ahead(t.step-1, n[0], depth), n[0], s.phase, depth)
	high = newTable(s.ahead(t.step-1, n[1], depth), n[1], s.phase, depth)
	s.rehash(v, t, func(h hash, r ref) {
		if h.dir(depth)&1 == 0 {
			low.insert(h, r)
		} else {
			high.insert(h, r)
		}
	})
	return low, high, true
}

// replace puts two tables (or twice the same) in the places that the table
// for the hashes with a prefix of depth bits had, in a directory of its own.
func (v *view) replace(prefix int, depth uint8, low, high *table) {
	if low.depth > v.depth {
		v.double()
	} else {
		v.dir = slices.Clone(v.dir)
	}
	width := 1 << (v.depth - depth)
	at := prefix * width
	for i := range width {
		if i < (width+1)/2 {
			v.dir[at+i] = low
		} else {
			v.dir[at+i] = high
		}
	}
}

// double gives every table twice its places in a new directory.
func (v *view) double() {
	dir := make([]*table, 0, 2*len(v.dir))
	for _, t := range v.dir {
		dir = append(dir, t, t)
	}
	v.dir = dir
	v.depth++
}
