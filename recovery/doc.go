// Package recovery turns a ledger's directory into a filled book: the newest
// sound snapshot, then the log from there, and a report of what was found and
// mended.
//
// # Invariants
//
//   - Recovery never runs an effect and writes no record.
//   - It is idempotent: a crash anywhere in it, and recovery again, gives the same
//     book.
//   - Every record goes through the same [index.Book.Apply] as when it was written.
//   - "No snapshot" is never concluded by mistake: where the log no longer begins
//     at LSN 1, a sound snapshot must reach it, or recovery refuses; a snapshot
//     that is ahead of the log's end proves that the log has lost records, and
//     recovery refuses.
package recovery
