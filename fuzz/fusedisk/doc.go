//go:build linux

// Package fusedisk mounts the simulated disk of internal/simdisk, so that real
// processes work on it through real system calls, the dependencies' own included:
// what was not synced is lost, torn or kept at random when the power is cut.
//
// It is a module of its own because of github.com/hanwen/go-fuse, which nobody
// who embeds oncelog needs. Mounting wants root and /dev/fuse.
//
// # Invariants
//
//   - What a process is told to be synced is synced on the simulated disk: nothing
//     is cached on the way.
//   - The process that serves a mount opens no file on it: it would wait for
//     itself.
package fusedisk
