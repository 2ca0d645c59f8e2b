package index

import "fmt"

const (
	// MaxKey is the most bytes that a key may have.
	MaxKey = 64 << 10
	// MaxValue is the most bytes that a value may have.
	MaxValue = 16 << 20
)

// An Index maps keys to values. It may be used from many goroutines at once.
// Use [New] to make one.
type Index struct {
	hash   hasher
	shards [shards]shard
}

// New returns an empty index whose hashes start from seed. Take the seed from
// a source of randomness: whoever knows it can choose keys that collide,
// which makes look-ups slow, though never wrong.
func New(seed uint64) *Index { return newIndex(hasher{seed, ^uint64(0)}) }

func newIndex(hs hasher) *Index {
	x := &Index{hash: hs}
	for i := range x.shards {
		x.shards[i].hash = hs
		x.shards[i].phase = float64(i) / shards
	}
	return x
}

// Get returns the key's value. It takes no lock, allocates nothing and never
// waits for a writer. The value must not be modified; it stays as it is
// whatever happens to the key later.
func (x *Index) Get(key []byte) (value []byte, ok bool) {
	return x.find(x.hash.sum(key), key)
}

// find is Get for a caller that has hashed the key.
func (x *Index) find(h hash, key []byte) (value []byte, ok bool) {
	return x.shards[h.shard()].get(h, key)
}

// Put sets the key's value; it copies both. A Get that begins after Put has
// returned sees it. Writers of one shard exclude each other. Put panics on
// a key of more than [MaxKey] bytes or a value of more than [MaxValue], and
// when one shard would need more than 65,536 chunks, which is at 1 GiB of
// values above 16 KiB or 4 GiB of smaller ones.
func (x *Index) Put(key, value []byte) {
	if len(key) > MaxKey || len(value) > MaxValue {
		panic(fmt.Sprintf("index: key of %d and value of %d bytes; limits are %d and %d: check before Put",
			len(key), len(value), MaxKey, MaxValue))
	}
	x.put(x.hash.sum(key), key, value)
}

// put is Put for a caller that has hashed the key and knows the limits.
func (x *Index) put(h hash, key, value []byte) { x.shards[h.shard()].put(h, key, value) }

// fetch makes sure that a search for a key, soon, need not wait for memory.
func (x *Index) fetch(h hash) {
	if v := x.shards[h.shard()].view.Load(); v != nil {
		t := v.table(h)
		_ = t.buckets[h.home(len(t.buckets))].overflow()
	}
}

// add is Put of a key that the index does not have, for a load of many.
func (x *Index) add(h hash, key, value []byte) {
	if len(key) > MaxKey || len(value) > MaxValue {
		panic(fmt.Sprintf("index: key of %d and value of %d bytes; limits are %d and %d: check before",
			len(key), len(value), MaxKey, MaxValue))
	}
	x.shards[h.shard()].add(h, key, value)
}

// reserve makes room in an empty index for about n keys, so that a load of many
// does not grow it step by step.
func (x *Index) reserve(n int) {
	for i := range x.shards {
		x.shards[i].reserve(n / shards)
	}
}

// expect says about how many keys there will be after a load that is under way, so
// that tables grow in larger steps; 0 once it is over.
func (x *Index) expect(n int) {
	for i := range x.shards {
		s := &x.shards[i]
		s.mu.Lock()
		s.expected = n / shards
		s.mu.Unlock()
	}
}

// Delete removes the key and reports whether it was there.
func (x *Index) Delete(key []byte) bool {
	h := x.hash.sum(key)
	return x.shards[h.shard()].delete(h, key)
}

// Len is the number of keys. While others write it is of no one moment.
func (x *Index) Len() int {
	n := 0
	for i := range x.shards {
		n += int(x.shards[i].count.Load())
	}
	return n
}

// Shards is the number of shards, by which [Index.Range] and [Index.Compact]
// go. It never changes.
func (x *Index) Shards() int { return shards }

// Range calls fn for every entry that the shard has at the moment of the
// call, in no order, until fn returns false. What is written meanwhile does not show. It
// holds no lock while fn runs, so fn may use the index; it holds the shard's
// writers up only while it copies 4 bytes for each entry. Key and value must
// not be modified and stay as they are.
func (x *Index) Range(shard int, fn func(key, value []byte) bool) {
	v, refs := x.shards[shard].snapshot()
	for _, r := range refs {
		rec := v.record(r)
		if !fn(rec.key, rec.value) {
			return
		}
	}
}

// Compact rewrites the chunks of a shard that have garbage in them and its
// tables that deletions have left nearly empty. Writers of the shard wait for one
// chunk or table at a time. Values handed out before stay as they are. There
// is no need to call it for the sake of garbage alone: Put and Delete keep that under half
// of the live bytes.
func (x *Index) Compact(shard int) { x.shards[shard].compact() }
