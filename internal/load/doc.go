// Package load measures durable records: how many a second, how long a caller waits
// for one, and what the disk itself would allow.
//
// # Invariants
//
//   - Every record that is counted was synced before it was counted.
//   - A limit writes the same bytes as what is compared with it, to the same file
//     system, in the same run: these machines are noisy, and only ratios hold.
package load
