// Package tidy holds tests of the source itself: which package imports which,
// where files are touched, what every package must say.
//
// # Invariants
//
//   - It has no code but tests.
package tidy
