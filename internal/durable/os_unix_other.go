//go:build unix && !linux && !darwin

package durable

import "os"

// datasync is Sync: not every one of these systems has fdatasync.
func datasync(f *os.File) error { return f.Sync() }

func allocate(f *os.File, old, size int64) error { return zeroFill(f, old, size) }

// free cannot tell: each of these systems has its own call and layout for it.
func free(string) (int64, error) { return -1, nil }
