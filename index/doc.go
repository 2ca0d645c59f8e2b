// Package index maps keys to values in memory: opaque bytes to opaque bytes,
// millions of them, at a few bytes more than they are themselves, and with
// next to no work for the garbage collector.
//
// Keys are spread over 64 shards, each with a lock for its writers; readers
// take none. A shard keeps its records (lengths, key, value) in append-only
// chunks of bytes, and in hash tables, for each record, a tag of 8 bits and a
// ref of 32: 12 of these to a cache line. There are no pointers inside
// tables and chunks, so the garbage collector does not scan them.
//
//	hash  ─▶ shard ─▶ view ─▶ directory ─▶ table ─▶ bucket: tags, refs
//	                    └───▶ chunks ◀──── ref = chunk, offset
//
// A table that is full is replaced by one that is larger by the square root of
// two; past 64 KiB it is split in two instead, under a directory that doubles
// (extendible hashing). So one step of growth hashes at most 11,136 keys
// anew, about half a millisecond, however many there are, and delays only
// the writers of that shard. The sizes of tables are staggered over the shards, so
// that between them they are always about equally full.
//
// A replaced or deleted record is garbage. When a shard has more of it than half
// its live bytes, a Put or Delete moves what is live out of the worst chunk
// (64 KiB at most) and drops it.
//
// # Invariants
//
//   - Two keys are the same only if all their bytes are. Hashes and tags only
//     narrow the search.
//   - Bytes of a chunk are written once, before the ref to them is published,
//     and never again. What Get or Range returned stays as it was.
//   - A key that is present is found, whatever growth, cleaning or writes to other
//     keys go on beside the look-up.
//   - Get takes no lock, allocates nothing and waits for nobody.
//   - Garbage is at most half of the live bytes of a shard, plus one chunk and 1 KiB.
package index
