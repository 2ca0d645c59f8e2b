package index

import (
	"bytes"
	"sync"
	"sync/atomic"
)

// A view is what readers of a shard look at. It is never changed, except that
// the words of its tables' buckets are, atomically, while it is current.
type view struct {
	dir    []*table // 1<<depth of them; one table may fill several places
	chunks [][]byte
	depth  uint8
}

func (v *view) table(h hash) *table { return v.dir[h.dir(v.depth)] }

func (v *view) record(r ref) record { return parse(v.chunks[r.chunk()][r.offset():]) }

// fetch reads the first byte of a record: reads that do not depend on each other wait
// for memory together.
func (v *view) fetch(r ref) byte { return v.chunks[r.chunk()][r.offset()] }

// A shard is one part of the keys: its own lock for writers, tables and slab.
//
// Readers take no lock. They load the view, find a ref in a bucket, and check that
// the view is still current before they follow the ref. That suffices,
// because a chunk's number is reused only in this order: the last ref to the old chunk
// is moved; a view without it is published; a view with the new chunk is
// published; a ref to it is stored. A ref that was read while one view was
// current is thus a ref into that view's chunks.
type shard struct {
	view  atomic.Pointer[view] // nil until the first Put
	count atomic.Int64
	mu    sync.Mutex // held to change anything

	expected int // keys in the end, about, while many are added; 0 where nobody knows
	slab     slab
	hash     hasher
	phase    float64 // of its tables' sizes, in [0, 1)
}

// get finds the key's value without a lock.
func (s *shard) get(h hash, key []byte) ([]byte, bool) {
	for {
		v := s.view.Load()
		if v == nil {
			return nil, false
		}
		value, ok, stale := s.search(v, h, key)
		if !stale {
			return value, ok
		}
	}
}

// search looks for the key in one view. It is stale when the view was replaced
// meanwhile, which happens about once for a thousand Puts.
func (s *shard) search(v *view, h hash, key []byte) (value []byte, ok, stale bool) {
	t := v.table(h)
	i := h.home(len(t.buckets))
	for {
		b := &t.buckets[i]
		for c := b.match(h.tag()); c != 0; c = c.rest() {
			r := b.ref(c.first())
			if s.view.Load() != v {
				return nil, false, true
			}
			if rec := v.record(r); string(rec.key) == string(key) {
				return rec.value, true, false
			}
		}
		if b.overflow() == 0 {
			return nil, false, false
		}
		i = t.next(i)
	}
}

// find is search for the holder of the lock, who wants the place.
func (v *view) find(h hash, key []byte) (t *table, p place, rec record, ok bool) {
	t = v.table(h)
	i := h.home(len(t.buckets))
	for {
		b := &t.buckets[i]
		for c := b.match(h.tag()); c != 0; c = c.rest() {
			p = place{i, c.first()}
			if rec = v.record(b.ref(p.slot)); string(rec.key) == string(key) {
				return t, p, rec, true
			}
		}
		if b.overflow() == 0 {
			return t, place{}, record{}, false
		}
		i = t.next(i)
	}
}

func (s *shard) put(h hash, key, value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.view.Load()
	if v == nil {
		v = s.start()
	}
	t, p, old, ok := v.find(h, key)
	if !ok {
		s.insert(t, h, key, value)
		return
	}
	if bytes.Equal(old.value, value) {
		return
	}
	b := &t.buckets[p.bucket]
	r := b.ref(p.slot)
	b.setRef(p.slot, s.append(key, value))
	s.discard(r, old.size)
	s.tidy()
}

// insert puts a key that the table, which is the one for h, does not have.
func (s *shard) insert(t *table, h hash, key, value []byte) {
	if t.full() {
		t = s.grow(t, h)
	}
	t.insert(h, s.append(key, value))
	s.count.Add(1)
}

func (s *shard) add(h hash, key, value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.view.Load()
	if v == nil {
		v = s.start()
	}
	s.insert(v.table(h), h, key, value)
}

// reserve publishes a first view with tables for n keys.
func (s *shard) reserve(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.view.Load() != nil {
		return
	}
	s.slab.tail = -1
	n += n/16 + 16 // shards and tables are never equally full
	depth := uint8(0)
	for n>>depth > room(maxBuckets) && depth < dirBits {
		depth++
	}
	v := &view{dir: make([]*table, 1<<depth), depth: depth}
	for i := range v.dir {
		t := newTable(0, n>>depth, s.phase, depth)
		v.dir[i] = t
	}
	s.view.Store(v)
}

func (s *shard) delete(h hash, key []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.view.Load()
	if v == nil {
		return false
	}
	t, p, old, ok := v.find(h, key)
	if !ok {
		return false
	}
	r := t.buckets[p.bucket].ref(p.slot)
	t.remove(h, p)
	s.count.Add(-1)
	s.discard(r, old.size)
	s.tidy()
	return true
}

// start publishes the first view.
func (s *shard) start() *view {
	s.slab.tail = -1
	v := &view{dir: []*table{newTable(0, 0, s.phase, 0)}}
	s.view.Store(v)
	return v
}

// snapshot returns the view and every ref in it, as of one moment.
func (s *shard) snapshot() (*view, []ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.view.Load()
	if v == nil {
		return nil, nil
	}
	all := make([]ref, 0, s.count.Load())
	for t := range v.tables() {
		t.refs(func(r ref) { all = append(all, r) })
	}
	return v, all
}
