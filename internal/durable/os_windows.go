package durable

import (
	"errors"
	"math"
	"os"

	"golang.org/x/sys/windows"
)

var fullErrors = []error{
	windows.ERROR_DISK_FULL,
	windows.ERROR_HANDLE_DISK_FULL,
	windows.ERROR_DISK_QUOTA_EXCEEDED,
}

// rename asks for write-through: the call returns when the move is on disk,
// which stands in for the directory sync that Windows does not have.
func rename(oldpath, newpath string) error {
	from, err := windows.UTF16PtrFromString(oldpath)
	if err != nil {
		return &os.LinkError{Op: "rename", Old: oldpath, New: newpath, Err: err}
	}
	to, err := windows.UTF16PtrFromString(newpath)
	if err != nil {
		return &os.LinkError{Op: "rename", Old: oldpath, New: newpath, Err: err}
	}
	const flags = windows.MOVEFILE_REPLACE_EXISTING | windows.MOVEFILE_WRITE_THROUGH
	if err := windows.MoveFileEx(from, to, flags); err != nil {
		return &os.LinkError{Op: "rename", Old: oldpath, New: newpath, Err: err}
	}
	return nil
}

// syncDir only checks that the directory is there. Windows cannot flush a
// directory through an ordinary handle; NTFS commits the name of a new file
// with the flush of that file, and rename is written through.
func syncDir(path string) error {
	_, err := os.Stat(path)
	return err
}

// lockOffset is a byte that no lock file has: Windows locks bytes and keeps
// others from reading them, and who holds the lock must stay readable.
const lockOffset = 1 << 30

func lock(f *os.File) error {
	at := windows.Overlapped{OffsetHigh: lockOffset}
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return ErrLocked
	}
	return err
}

// datasync is Sync: FlushFileBuffers is all there is.
func datasync(f *os.File) error { return f.Sync() }

// allocate writes zeros: moving the end alone reserves the clusters on NTFS but
// leaves the first write into them to zero whatever lies before it.
func allocate(f *os.File, old, size int64) error { return zeroFill(f, old, size) }

func free(path string) (int64, error) {
	p, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return -1, &os.PathError{Op: "free space", Path: path, Err: err}
	}
	var available uint64
	if err := windows.GetDiskFreeSpaceEx(p, &available, nil, nil); err != nil {
		return -1, &os.PathError{Op: "free space", Path: path, Err: err}
	}
	return int64(min(available, math.MaxInt64)), nil
}
