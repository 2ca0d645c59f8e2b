// Package ledger decides who may run an effect, and remembers what became of it.
// [Ledger] is the contract, [Embedded] keeps it in a directory: a log, an index
// and snapshots under one lock file.
//
// # Invariants
//
//   - The book is the fold of the durable log; see package index. A decision
//     looks at what is durable and what is on its way, an answer only at what is
//     durable.
//   - Accept grants an attempt number of a key to one call, ever.
//   - A grant is returned only once its marker is on stable storage.
//   - Ownership is by epoch: an attempt accepted in an earlier epoch without an
//     outcome is in doubt, because the directory's lock admits one owner and its
//     owner is gone. No clock decides.
//   - Records of a key are queued under the key's lock, so their order in the log
//     is the order in which they were decided.
//   - A directory is a ledger once its FORMAT is in place, and never before; a
//     directory that has lost FORMAT, log or snapshots is refused, not begun anew.
//   - A snapshot is verified, renamed and its directory synced before the log
//     behind it is dropped.
package ledger
