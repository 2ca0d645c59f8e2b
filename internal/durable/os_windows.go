package durable

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/windows"
)

func datasync(f *os.File) error { return f.Sync() }

func fallocate(*os.File, int64, int64) (supported bool, err error) { return false, nil }

// syncDir does nothing: Windows cannot flush a directory by a handle that Go
// opens; NTFS keeps names in its own journal.
func syncDir(string) error { return nil }

func free(path string) (int64, error) {
	p, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return 0, err
	}
	var avail uint64
	if err := windows.GetDiskFreeSpaceEx(p, &avail, nil, nil); err != nil {
		return 0, &os.PathError{Op: "GetDiskFreeSpaceEx", Path: path, Err: err}
	}
	return int64(avail), nil
}

// lock takes the lock of one byte far behind the content, so that the content
// stays readable for those who ask who holds it.
func lock(f *os.File) error {
	at := &windows.Overlapped{OffsetHigh: 0x7fffffff}
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return fmt.Errorf("LockFileEx %s: %w: %w", f.Name(), err, ErrLocked)
	}
	return err
}

func isFull(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL)
}
