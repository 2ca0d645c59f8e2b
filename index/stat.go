package index

// A Stat says what an index holds. Sizes are in bytes.
type Stat struct {
	Entries   int
	Live      int    // keys, values and their framing (2 to 6 bytes an entry)
	Garbage   int    // replaced and deleted records not given back yet
	Allocated int    // chunks: live, garbage and unused ends
	Tables    int    // buckets
	Cleaned   uint64 // chunks given back since New
}

// Stat sums over the shards, each as of its own moment.
func (x *Index) Stat() Stat {
	var st Stat
	for i := range x.shards {
		x.shards[i].stat(&st)
	}
	return st
}

func (s *shard) stat(st *Stat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.view.Load()
	if v == nil {
		return
	}
	for t := range v.tables() {
		st.Tables += len(t.buckets) * len(bucket{}) * 8
	}
	st.Entries += int(s.count.Load())
	st.Live += s.slab.live
	st.Garbage += s.slab.garbage()
	st.Allocated += s.slab.allocated
	st.Cleaned += s.slab.cleaned
}
