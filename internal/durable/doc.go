// Package durable is the only place that creates, syncs, renames, removes and
// locks files. Each function's comment is the list of system calls to expect of
// it, in order.
//
// # Invariants
//
//   - A function that returns nil has made durable what its comment says.
//   - A sync that failed is reported, and never repeated here.
//   - What must appear whole is written under a temporary name, synced, renamed,
//     and its directory synced.
package durable
