package durable

import (
	"fmt"
	"io/fs"
	"os"
)

// The modes of what is made: a ledger holds other people's data.
const (
	dirMode  fs.FileMode = 0o700
	fileMode fs.FileMode = 0o600
)

// OS is the operating system's file system. Its errors are those of package
// os, with operation and path in them. Safe for concurrent use.
var OS FS = osFS{}

type osFS struct{}

// Mkdir: mkdir.
func (osFS) Mkdir(path string) error { return os.Mkdir(path, dirMode) }

// Create: open with O_RDWR, O_CREAT and O_EXCL.
func (osFS) Create(path string) (File, error) {
	return wrap(os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, fileMode))
}

// Open: open with O_RDWR.
func (osFS) Open(path string) (File, error) { return wrap(os.OpenFile(path, os.O_RDWR, 0)) }

// OpenRead: open with O_RDONLY.
func (osFS) OpenRead(path string) (File, error) { return wrap(os.Open(path)) }

// Rename: rename; MoveFileEx, written through, on Windows.
func (osFS) Rename(oldpath, newpath string) error { return rename(oldpath, newpath) }

// Remove: unlink, or rmdir for a directory.
func (osFS) Remove(path string) error { return os.Remove(path) }

// ReadDir: open, getdents until the end, close.
func (osFS) ReadDir(path string) ([]fs.DirEntry, error) { return os.ReadDir(path) }

// Stat: stat.
func (osFS) Stat(path string) (fs.FileInfo, error) { return os.Stat(path) }

// SyncDir: open the directory with O_RDONLY, fsync, close; on Windows see
// syncDir for why nothing is left to do.
func (osFS) SyncDir(path string) error { return syncDir(path) }

// Free: statfs.
func (osFS) Free(path string) (int64, error) { return free(path) }

// Lock: open with O_RDWR and O_CREAT, flock with LOCK_EX and LOCK_NB
// (LockFileEx on Windows). The lock is the open file's: a second Lock is
// refused in this process as in any other, and no child process inherits it.
func (osFS) Lock(path string) (File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, err
	}
	if err := lock(f); err != nil {
		_ = f.Close() // nothing was written; the lock's error is the one to tell
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return &osFile{File: f}, nil
}

// An osFile adds to os.File what a log needs of it.
type osFile struct{ *os.File }

func wrap(f *os.File, err error) (File, error) {
	if err != nil {
		return nil, err // not a nil *osFile in a File
	}
	return &osFile{File: f}, nil
}

// Size: fstat.
func (f *osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Datasync: fdatasync on Linux, elsewhere what Sync does (on darwin os.File
// makes that F_FULLFSYNC).
func (f *osFile) Datasync() error { return datasync(f.File) }

// Allocate: fstat, then fallocate of [0, size) on Linux, F_PREALLOCATE and
// ftruncate on darwin; writes of zeros from the end on where that is not
// supported. After a failure ftruncate to the old length.
func (f *osFile) Allocate(size int64) error {
	old, err := f.Size()
	if err != nil {
		return err
	}
	if size <= 0 {
		return nil
	}
	if err := allocate(f.File, old, size); err != nil {
		// A file that grew part of the way would read as one with a torn tail.
		if undo := f.Truncate(old); undo != nil {
			return fmt.Errorf("allocate %d bytes of %s: %w; then cut back to %d bytes: %w", size, f.Name(), err, old, undo)
		}
		return fmt.Errorf("allocate %d bytes of %s: %w", size, f.Name(), err)
	}
	return nil
}

// zeroFill writes real zeros from old to size. Holes before old stay holes:
// finding them takes reading the file, and nothing in the project makes any.
func zeroFill(f *os.File, old, size int64) error {
	var zeros [64 << 10]byte
	for off := old; off < size; {
		n, err := f.WriteAt(zeros[:min(int64(len(zeros)), size-off)], off)
		if err != nil {
			return err
		}
		off += int64(n)
	}
	return nil
}
