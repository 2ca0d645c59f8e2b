// Package fuzz tries to break oncelog: ledger and executor on a simulated disk,
// real processes killed at named points, whole directories of damaged bytes, and
// variants of the code itself with one thing broken, each of which must be caught.
//
// What a harness sees and what it is blind to is in docs/TRACK_RECORD.md.
//
// # Invariants
//
//   - An effect is witnessed outside of what is crashed.
//   - A harness that did nothing fails.
package fuzz
