// Package bench measures the engine, each time beside a baseline in the same run:
// these machines are noisy, and only ratios hold. `go test -bench . ./bench`
// prints records a second and percentiles of the time that one caller waits.
//
// # Invariants
//
//   - Every write that is counted was synced before it was counted.
//   - A baseline writes the same bytes, to the same file system, in the same run.
package bench
