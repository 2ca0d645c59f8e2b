//go:build unix && !linux

package durable

import "os"

// datasync is fsync: what other systems call fdatasync is missing or weaker. On
// darwin os.File.Sync asks the drive to empty its cache (F_FULLFSYNC).
func datasync(f *os.File) error { return f.Sync() }

func fallocate(*os.File, int64, int64) (supported bool, err error) { return false, nil }
