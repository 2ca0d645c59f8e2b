package index

import (
	"math"
	"math/bits"
	"slices"
	"sync/atomic"
)

const (
	slots = 12 // of a bucket

	// A table grows when more than 29/32 (0.906) of its slots are taken. At
	// that load a search looks at 1.2 buckets on average.
	loadNum, loadDen = 29, 32

	// Past this many buckets (64 KiB) a table is split in two rather than
	// grown, which bounds the keys that one step of growth hashes anew:
	// maxBuckets * slots * 0.906 = 11,136.
	maxBuckets = 1024

	lowBits  = 0x0101010101010101
	highBits = 0x8080808080808080
)

// A bucket is one cache line of 12 slots.
//
//	word 0      tags of slots 0-7, a byte each; 0 is free
//	word 1      low half: tags of slots 8-11; high half: overflow
//	words 2-7   refs of the slots, 32 bits each
//
// Overflow counts the entries that found this bucket full and live in a later
// one; a search ends at the first bucket where it is 0. It falls again when such an entry
// is deleted, so there are no tombstones to wade through. Readers take no
// lock: every word is loaded and stored atomically, and a ref is stored before its tag.
type bucket [8]uint64

// A candidates is a set of slots of one bucket.
type candidates uint64

// match returns the slots whose tag is t.
func (b *bucket) match(t uint64) candidates {
	x := atomic.LoadUint64(&b[0]) ^ t*lowBits
	y := atomic.LoadUint64(&b[1]) ^ t*lowBits
	return candidates(zeroBytes(x)>>7 | zeroBytes(y)&math.MaxUint32>>6)
}

// zeroBytes sets the high bit of each byte that is 0, exactly: the shorter
// formula errs above a zero byte, and could name a free slot, whose ref is stale.
func zeroBytes(x uint64) uint64 {
	return ^((x&^highBits + ^uint64(highBits)) | x | ^uint64(highBits))
}

// first is the lowest slot in the set, which must not be empty.
func (c candidates) first() int {
	bit := bits.TrailingZeros64(uint64(c))
	return bit>>3 + bit&1<<3
}

func (c candidates) rest() candidates { return c & (c - 1) }

func (b *bucket) tag(slot int) uint64 {
	return atomic.LoadUint64(&b[slot>>3]) >> (slot & 7 * 8) & 0xff
}

func (b *bucket) setTag(slot int, t uint64) {
	w, shift := &b[slot>>3], slot&7*8
	atomic.StoreUint64(w, *w&^(0xff<<shift)|t<<shift)
}

func (b *bucket) ref(slot int) ref {
	return ref(atomic.LoadUint64(&b[2+slot>>1]) >> (slot & 1 * 32))
}

func (b *bucket) setRef(slot int, r ref) {
	w, shift := &b[2+slot>>1], slot&1*32
	atomic.StoreUint64(w, *w&^(math.MaxUint32<<shift)|uint64(r)<<shift)
}

func (b *bucket) overflow() uint32 { return uint32(atomic.LoadUint64(&b[1]) >> 32) }

func (b *bucket) addOverflow(n int) { atomic.StoreUint64(&b[1], b[1]+uint64(n)<<32) }

// A table is an open-addressed hash table of refs. Only its buckets are seen
// by readers; the rest belongs to the holder of the shard's lock.
type table struct {
	buckets []bucket
	count   int
	step    int   // its place in the sequence of sizes, see buckets
	depth   uint8 // bits of hash.dir that all its keys share
}

// buckets is the number of buckets of a table at a step. Two steps double it. The phase,
// in [0, 1) and different for every shard, shifts the sequence, so that
// tables do not all grow at once: between them they are as full at any count.
func buckets(step int, phase float64) int {
	n := int(math.Exp2((float64(step) + phase) / 2))
	if n > 512 {
		return (n + 64) / 128 * 128 // whole pages of the allocator, 8 KiB each
	}
	return n
}

// newTable makes an empty table with room for more than count entries, at
// the given step or the first later one that suffices.
func newTable(step, count int, phase float64, depth uint8) *table {
	for room(buckets(step, phase)) <= count {
		step++
	}
	b := slices.Grow([]bucket(nil), buckets(step, phase))
	return &table{buckets: b[:cap(b)], step: step, depth: depth}
}

func room(buckets int) int { return buckets * slots * loadNum / loadDen }

func (t *table) full() bool { return t.count >= room(len(t.buckets)) }

func (t *table) next(i int) int {
	if i++; i < len(t.buckets) {
		return i
	}
	return 0
}

// A place is one slot of a table.
type place struct {
	bucket, slot int
}

// insert puts a ref whose key the table does not have. The table must not be
// full.
func (t *table) insert(h hash, r ref) {
	i := h.home(len(t.buckets))
	for {
		b := &t.buckets[i]
		if free := b.match(0); free != 0 {
			slot := free.first()
			b.setRef(slot, r)
			b.setTag(slot, h.tag())
			t.count++
			return
		}
		b.addOverflow(1)
		i = t.next(i)
	}
}

// remove frees the place, at which the key with hash h was found.
func (t *table) remove(h hash, p place) {
	t.buckets[p.bucket].setTag(p.slot, 0)
	for i := h.home(len(t.buckets)); i != p.bucket; i = t.next(i) {
		t.buckets[i].addOverflow(-1)
	}
	t.count--
}

// locate finds the place that holds the ref, if there is one.
func (t *table) locate(h hash, r ref) (place, bool) {
	i := h.home(len(t.buckets))
	for {
		b := &t.buckets[i]
		for c := b.match(h.tag()); c != 0; c = c.rest() {
			if s := c.first(); b.ref(s) == r {
				return place{i, s}, true
			}
		}
		if b.overflow() == 0 {
			return place{}, false
		}
		i = t.next(i)
	}
}

// refs calls fn for every ref in the table.
func (t *table) refs(fn func(ref)) {
	for i := range t.buckets {
		b := &t.buckets[i]
		for s := range slots {
			if b.tag(s) != 0 {
				fn(b.ref(s))
			}
		}
	}
}
