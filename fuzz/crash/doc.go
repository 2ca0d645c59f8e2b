// Package crash helps to prove that nothing runs twice and nothing is forgotten:
// a World that counts effects outside of what crashes, an Oracle that knows what
// a ledger has promised, and a file system that ends its process at a chosen
// operation. Users who inject crashes into executors of their own can use it as
// it is.
//
// # Invariants
//
//   - The World never loses an effect: it lives in a process, or on a disk, that
//     the test does not crash.
//   - The Oracle holds one of three values of each promise: unset, maybe, set. A
//     call that was cut off leaves maybe, and either is right afterwards; a call
//     that returned leaves set, and only that is.
//   - A run that checked nothing fails: Counts tells what was done.
package crash
