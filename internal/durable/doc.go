// Package durable is the only place in the project that creates, syncs,
// renames, removes and locks files.
//
// [FS] is the narrow waist: everything above reaches a disk through it, so that
// the tests can put a disk model under the whole engine that forgets, tears
// and reorders what was not synced. [OS] is the operating system's disk. The
// functions beside it ([WriteFile], [Remove], [Move], [MkdirAll]) are the few
// sequences of operations whose order matters for a crash; the comment of each
// is the list of what it does, in order, and a test holds it to that.
//
// # Invariants
//
//   - A function that returns nil has made what it did durable: bytes, size and
//     name. One that returns an error has made no promise in either direction.
//   - A file written with [WriteFile] is whole under its final name, or the
//     earlier file (or none) is still there; whatever the moment of a crash.
//   - A failed sync is never repeated here: the system may have dropped the
//     pages that it could not write, and a second sync would report success.
//   - A lock ends with its file or with its process, never by a timeout and
//     never by what the lock file says.
package durable
