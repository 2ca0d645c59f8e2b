// Package wal is the log: records, grouped into blocks, in segments. It knows
// bytes, not their meaning.
//
// A record is durable once its [Ticket] says so. Many callers share one block
// and one sync: the first that waits becomes the leader, takes what is queued,
// writes and syncs it; whoever arrives meanwhile is in the next block. While one block
// is applied and its callers are told, the next leader writes and syncs the next.
// There is no timer and no goroutine between a lone caller and its sync.
//
// # Invariants
//
//   - Blocks are written and synced strictly one after another. A sound block
//     behind an unsound one therefore proves that the unsound one was synced, and may
//     have been acknowledged.
//   - Blocks are applied in the order in which they were written. A record is
//     applied, and its caller told, after the sync of its block, and of the directory
//     where the block began a segment, has returned nil.
//   - After the first failed write, sync, directory sync or apply the log accepts
//     nothing more. No sync is repeated.
//   - The watermark is written after the sync of what it names and is never ahead
//     of the truth.
//   - Only bytes that were provably never acknowledged are cut, and they are kept
//     in quarantine. Anything else that is not sound is [ErrCorrupt].
//   - What a replay reads after an unclean stop is written anew and synced before
//     anybody decides on it.
//   - Truncation removes whole segments, oldest first, each durably before the
//     next, so that a crash leaves a later beginning and never a gap.
//
// # Block
//
// Little-endian. A block holds one group commit.
//
//	 0  magic "OLB" 0x01
//	 4  flags, 0                             uint32
//	 8  payload length in bytes              uint32
//	12  number of records, at least 1        uint32
//	16  LSN of the first record, from 1      uint64
//	24  checksum of the block before it      uint64, 0 for LSN 1
//	32  checksum                             uint64
//	40  payload: records, each a uvarint length and its bytes
//
// The checksum is xxhash64 over the ledger's id (16 bytes), bytes 0 to 31 and the
// payload, seeded by the two halves of the id xored; 1 where it would be 0.
//
// # Segments of the store "tidwall"
//
// Files named by 20 decimal digits, the number of their first block, from 1. Each
// block is an entry of github.com/tidwall/wal: a uvarint length and the block.
//
// # Segments of the store "direct"
//
// Files named by 20 decimal digits, counted from 1, and ".seg". They are as long
// as a segment from the start and are overwritten in place.
//
//	  0  magic "OLS" 0x01
//	  4  0                                   uint32
//	  8  number of the segment               uint64
//	 16  nonce of this life of the file      uint64
//	 24  checksum over bytes 0 to 23         uint64, as for a block
//	512  frames: the nonce (uint64) and a block, each
//
// Where no nonce stands, the frames end: the bytes are zeros or of an earlier life.
//
// # Watermark
//
// One file of 40 bytes, overwritten in place.
//
//	 0  magic "OLW" 0x01
//	 4  1 after a clean close, else 0        uint32
//	 8  LSN that is known to be durable      uint64
//	16  0                                    16 bytes
//	32  checksum over bytes 0 to 31          uint64, as for a block
//
// A watermark that does not parse is taken for none.
package wal
