package index

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// How the 64 bits of a hash are spent, from the top: shard, directory, (two
// spare), bucket, tag. The parts do not overlap, so that keys which share a
// table still spread over its buckets and their tags.
const (
	shardBits = 6
	shards    = 1 << shardBits

	shardShift = 64 - shardBits
	dirBits    = 16
	dirShift   = shardShift - dirBits
	homeShift  = 8 // 32 bits choose the bucket; the low 8 are the tag
)

// A hasher is xxhash64 over the seed's 8 bytes and the key: in one piece it is
// faster than with the seed as xxhash's own, and as hard to foresee. The mask is
// all ones except in tests, which clear bits of it to force collisions.
type hasher struct {
	seed, mask uint64
}

func (hs hasher) sum(key []byte) hash {
	buf := seeded(hs.seed)
	return hs.of(append(buf[:seedSize], key...))
}

// of is the hash of a key that stands behind the seed.
func (hs hasher) of(seedAndKey []byte) hash { return hash(xxhash.Sum64(seedAndKey) & hs.mask) }

const seedSize = 8

// seeded is a buffer that begins with the seed and has room for most keys.
func seeded(seed uint64) (buf [seedSize + len(keyBuffer{})]byte) {
	binary.LittleEndian.PutUint64(buf[:], seed)
	return buf
}

// A hash is a key's hash; its methods are the parts.
type hash uint64

func (h hash) shard() int { return int(h >> shardShift) }

// dir is the key's position in a directory of 1<<depth tables.
func (h hash) dir(depth uint8) int {
	return int(h>>dirShift) & (1<<dirBits - 1) >> (dirBits - depth)
}

// home is the bucket, of n, at which the search for the key begins.
func (h hash) home(n int) int {
	return int(uint64(uint32(h>>homeShift)) * uint64(n) >> 32)
}

// tag is the byte that stands for the key in its bucket; 0 means a free slot.
func (h hash) tag() uint64 {
	t := uint64(h & 0xff)
	if t == 0 {
		return 1
	}
	return t
}
