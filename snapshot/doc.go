// Package snapshot keeps entries in compressed, checksummed files. A file is
// written whole or not at all.
//
// # Invariants
//
//   - A file under its final name was synced and read back before it got the name,
//     and its directory was synced after.
//   - A file is sound only if every block and the footer are; entries of a file
//     that turns out not to be sound must not be used.
//   - A file of another ledger is never sound: its id seeds every checksum.
//   - Each key comes once in a file.
//
// # Format
//
// Little-endian. Names are base-<lsn>.snap and delta-<from>-<lsn>.snap, each LSN in 20
// decimal digits. A base has every key; a delta has those with a record after from
// and up to lsn, as they stood at lsn or later, and follows a snapshot that ends at
// from.
//
//	header
//	   0  magic "OLN" 0x01
//	   4  flags, 0                              uint32
//	   8  ledger id                             16 bytes
//	  24  LSN up to which records are in it     uint64
//	  32  from: LSN that a delta begins after   uint64, 0 for a base
//	  40  epoch that took it                    uint64
//	  48  about how many entries, a hint        uint64
//	  56  length of the extra bytes             uint32
//	  60  the extra bytes
//	      checksum                              uint64
//	block, any number of them
//	   0  length of the content, at least 1     uint32
//	   4  length as compressed by zstd          uint32
//	   8  number of entries, at least 1         uint32
//	  12  checksum                              uint64
//	  20  the compressed content: entries, each a uvarint length and key, a
//	      uvarint length and value
//	footer
//	   0  0                                     uint32
//	   4  number of blocks                      uint64
//	  12  number of entries                     uint64
//	  20  checksum                              uint64
//
// A checksum is xxhash64, seeded by the checksum before it in the file (by the
// id's halves xored for the first), over the bytes of its part but for itself.
// Chained like this the last one covers the whole file.
package snapshot
