// Package journal holds the words of oncelog and their rules: keys, records,
// entries, the transition function and the two codecs. It does no I/O, reads no
// clock and keeps no state.
//
// # Invariants
//
//   - Only [Entry.Apply] changes an entry. The live commit and the replay call it
//     with the same records in the same LSN order, so an index is the fold of
//     Apply over the log and nothing else.
//   - Apply either refuses, and then the entry is unchanged, or performs exactly
//     the step that the transition table names for its state and the record's
//     kind.
//   - A key is accepted only from absent or released, and its attempt number then
//     grows by one. Attempt numbers are never used twice for a key, not even
//     after it was forgotten, so a late outcome always says which run it is of.
//   - [DecodeRecord] and [DecodeEntry] never panic, and what they accept encodes
//     to the same bytes again.
//
// # Record format
//
// One byte of kind, then the fields that the kind has, in the order of the
// table. A uint is a minimal unsigned varint; bytes are a uint length and that
// many bytes; a time is a uint of milliseconds since 1970 UTC. The key is framed
// as bytes and contains the effect's name as bytes, then the item.
//
//	kind  name       fields
//	1     epoch      epoch uint, time, open uint (ms open so far), note bytes
//	2     accepted   key, attempt uint, epoch uint, time, fingerprint 8 bytes LE,
//	                 input bytes
//	3     executed   key, attempt uint, time, cause byte, flags byte, result bytes,
//	                 reason bytes, note bytes
//	4     confirmed  key, attempt uint, time
//	5     released   key, attempt uint, time, cause byte, note bytes
//	6     doubt      key, attempt uint, time, cause byte, note bytes
//	7     observed   key, attempt uint, time, flags byte, note bytes
//	8     forgotten  key, time, note bytes
//	9     amnesia    flags byte, time, note bytes
//	10    aged       time, open uint (ms open so far), keys uint, results uint (LSNs)
//
// A kind that is not in the table is skipped if its high bit (0x80) is set and
// refused otherwise. These numbers are part of the disk format.
package journal
