package index

const (
	// A shard is tidied when its garbage exceeds this part of its live bytes.
	garbageShare = 2
	// ... and this, so that a handful of entries is left in peace.
	garbageMin = 4 * chunkMin
)

// tidy cleans the chunk with most garbage where there is too much of it. One
// chunk for one Put is enough, and bounds what a Put may cost.
func (s *shard) tidy() {
	if g := s.slab.garbage(); g <= garbageMin || g <= s.slab.live/garbageShare {
		return
	}
	worst, most := -1, 0
	for id, u := range s.slab.use {
		if g := u.garbage(); g > most && id != s.slab.tail {
			worst, most = id, g
		}
	}
	if worst >= 0 {
		s.clean(worst)
	}
}

// clean moves what is live in a chunk to the tail and drops the chunk. The
// tables' refs are moved one by one; a reader follows the old or the new one
// to the same bytes.
func (s *shard) clean(id int) {
	v := s.view.Load()
	chunk := v.chunks[id][:s.slab.use[id].used]
	for at := 0; at < len(chunk); {
		rec := parse(chunk[at:])
		r := makeRef(id, at)
		at += rec.size
		h := s.hash.sum(rec.key)
		t := v.table(h)
		p, ok := t.locate(h, r)
		if !ok {
			continue
		}
		t.buckets[p.bucket].setRef(p.slot, s.append(rec.key, rec.value))
		s.slab.use[id].live -= uint32(rec.size)
		s.slab.live -= rec.size
	}
	s.drop(id)
}

// compact cleans every chunk that has garbage now. It lets go of the lock
// after each.
func (s *shard) compact() {
	for id := 0; s.compactChunk(id); {
		id++
	}
	s.shrink()
}

// compactChunk cleans the chunk if it has garbage; false past the last.
func (s *shard) compactChunk(id int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id >= len(s.slab.use) {
		return false
	}
	if s.slab.use[id].garbage() == 0 {
		return true
	}
	if id == s.slab.tail {
		s.slab.tail = -1
	}
	s.clean(id)
	return true
}

// shrink replaces tables that deletions have left less than a quarter as full
// as they may get. It lets go of the lock after each.
func (s *shard) shrink() {
	for prefix := 0; prefix < 1<<dirBits; {
		prefix += s.shrinkTable(prefix)
	}
}

// shrinkTable shrinks the table for the hashes with the prefix of dirBits
// bits, if that is worth it, and returns how many such prefixes the table has.
func (s *shard) shrinkTable(prefix int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.view.Load()
	if old == nil {
		return 1 << dirBits
	}
	t := old.dir[prefix>>(dirBits-old.depth)]
	width := dirBits - t.depth
	if len(t.buckets) > 1 && t.count*4 < room(len(t.buckets)) {
		smaller := newTable(0, t.count, s.phase, t.depth)
		s.rehash(old, t, smaller.insert)
		v := *old
		v.replace(prefix>>width, t.depth, smaller, smaller)
		s.view.Store(&v)
	}
	return 1 << width
}
