// Package simdisk is a disk in memory that keeps, for every file and every name,
// what was synced apart from what was only written. It can cut the power at any
// operation, lose, tear, reorder and zero what was not synced, and fail any
// operation, for tests of what stands above it.
//
// What it may do is what docs/CRASH.md assumes, and all of that: a file's bytes
// are safe once a sync of it has returned nil, a name once a sync of its directory
// has. In [Journal] mode a sync of any file also makes all names durable, as
// common file systems do; only the strict mode shows a missing directory sync.
//
// # Invariants
//
//   - What was synced survives every cut.
//   - A sync that failed may have written nothing and yet leave the bytes marked as
//     clean: a later sync then does not write them.
//   - The death of a process (Kill) loses nothing that was written; a cut after it
//     may.
//   - An operation on a file of an earlier life of the process fails.
package simdisk
