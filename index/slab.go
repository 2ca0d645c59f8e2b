package index

import (
	"encoding/binary"
	"fmt"
	"slices"
)

const (
	chunkMin = 256
	chunkMax = 1 << 16 // what the offset in a ref can address

	// A chunk is opened at 1/32 of what its shard holds, so that the unused
	// end of the last one stays near 1/64 of the whole.
	chunkShare = 32

	// A record of more than this has a chunk of its own, exactly its size.
	ownChunk = chunkMax / 4

	chunksMax = 1 << 16 // of a shard: what a ref can address
)

// A ref says where a record is: the chunk's number in the high half, the
// offset in the low half.
type ref uint32

func makeRef(chunk, offset int) ref { return ref(chunk<<16 | offset) }

func (r ref) chunk() int  { return int(r >> 16) }
func (r ref) offset() int { return int(r & 0xffff) }

// A record is the parsed form of
//
//	uvarint key length, uvarint value length, key, value
type record struct {
	key, value []byte
	size       int // bytes in the slab
}

// parse reads the record at the start of b.
func parse(b []byte) record {
	k, n := uvarint(b)
	v, m := uvarint(b[n:])
	key := b[n+m:]
	value := key[k:]
	return record{key[:k:k], value[:v:v], n + m + k + v}
}

// uvarint is binary.Uvarint with a shortcut for one byte, the usual length.
func uvarint(b []byte) (value, size int) {
	if c := b[0]; c < 0x80 {
		return int(c), 1
	}
	v, n := binary.Uvarint(b)
	return int(v), n
}

func recordSize(key, value []byte) int {
	return uvarintSize(len(key)) + uvarintSize(len(value)) + len(key) + len(value)
}

func uvarintSize(n int) int {
	size := 1
	for ; n >= 0x80; n >>= 7 {
		size++
	}
	return size
}

// A chunkUse is the account of one chunk, in bytes.
type chunkUse struct {
	used, live uint32
}

func (u chunkUse) garbage() int { return int(u.used - u.live) }

// A slab is the account of a shard's chunks, for the holder of its lock. The
// chunks themselves are in the view, where readers find them.
type slab struct {
	use       []chunkUse
	free      []uint16 // numbers of dropped chunks
	tail      int      // the chunk that is being filled; -1 if there is none
	used      int      // bytes of records in all chunks
	live      int      // those of them that the tables point to
	allocated int      // bytes of all chunks
	cleaned   uint64   // chunks given back
}

func (s *slab) garbage() int { return s.used - s.live }

// chunkFor is the size of a new chunk for a record of n bytes to go in: a
// multiple of n, so that where records are all of one size none is left over.
func (s *slab) chunkFor(n int) int {
	if n > ownChunk {
		return n
	}
	size := min(max(s.live/chunkShare, chunkMin), chunkMax)
	return min((size+n-1)/n*n, chunkMax)
}

// append copies a record to the end of the tail chunk, or to a new one.
func (s *shard) append(key, value []byte) ref {
	n := recordSize(key, value)
	id := s.slab.tail
	v := s.view.Load()
	if n > ownChunk || id < 0 || int(s.slab.use[id].used)+n > len(v.chunks[id]) {
		id = s.open(n)
		v = s.view.Load()
	}
	u := &s.slab.use[id]
	r := makeRef(id, int(u.used))
	dst := v.chunks[id][u.used:u.used]
	dst = binary.AppendUvarint(dst, uint64(len(key)))
	dst = binary.AppendUvarint(dst, uint64(len(value)))
	dst = append(dst, key...)
	copy(dst[len(dst):cap(dst)], value)
	u.used += uint32(n)
	u.live += uint32(n)
	s.slab.used += n
	s.slab.live += n
	return r
}

// open adds a chunk with room for n bytes and makes it the tail, unless it
// is for one large record alone.
func (s *shard) open(n int) int {
	chunk := slices.Grow([]byte(nil), s.slab.chunkFor(n))
	chunk = chunk[:min(cap(chunk), max(chunkMax, n))]
	id := s.place(chunk)
	s.slab.allocated += len(chunk)
	if n > ownChunk {
		return id
	}
	old := s.slab.tail
	s.slab.tail = id
	if old >= 0 && s.slab.use[old].live == 0 {
		s.drop(old)
	}
	return id
}

// place publishes a view with the chunk in it and returns its number.
func (s *shard) place(chunk []byte) int {
	v := *s.view.Load()
	id := len(v.chunks)
	if k := len(s.slab.free); k > 0 {
		id = int(s.slab.free[k-1])
		s.slab.free = s.slab.free[:k-1]
		v.chunks = slices.Clone(v.chunks) // readers look at the old ones
		v.chunks[id] = chunk
		s.slab.use[id] = chunkUse{}
	} else {
		if id == chunksMax {
			panic(fmt.Sprintf("index: shard full: %d chunks hold %d bytes; spread the entries over more ledgers", id, s.slab.live))
		}
		v.chunks = append(v.chunks, chunk) // past the end of what readers look at
		s.slab.use = append(s.slab.use, chunkUse{})
	}
	s.view.Store(&v)
	return id
}

// discard accounts for a record that no table points to any more.
func (s *shard) discard(r ref, size int) {
	id := r.chunk()
	u := &s.slab.use[id]
	u.live -= uint32(size)
	s.slab.live -= size
	if u.live == 0 && id != s.slab.tail {
		s.drop(id)
	}
}

// drop publishes a view without the chunk, to which no table points. Who
// still holds a value in it keeps it alive.
func (s *shard) drop(id int) {
	v := *s.view.Load()
	s.slab.allocated -= len(v.chunks[id])
	s.slab.used -= int(s.slab.use[id].used)
	s.slab.use[id] = chunkUse{}
	s.slab.free = append(s.slab.free, uint16(id))
	s.slab.cleaned++
	v.chunks = slices.Clone(v.chunks)
	v.chunks[id] = nil
	s.view.Store(&v)
}
