package durable

import (
	"io/fs"
	"os"
)

// OS is the operating system's file system.
var OS FS = osFS{}

type osFS struct{}

// Mkdir: mkdir.
func (osFS) Mkdir(path string) error { return os.Mkdir(path, 0o700) }

// Create: openat(O_RDWR|O_CREAT|O_EXCL).
func (osFS) Create(path string) (File, error) {
	return wrap(os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600))
}

// Open: openat(O_RDWR).
func (osFS) Open(path string) (File, error) { return wrap(os.OpenFile(path, os.O_RDWR, 0)) }

// OpenRead: openat(O_RDONLY).
func (osFS) OpenRead(path string) (File, error) { return wrap(os.Open(path)) }

// Rename: renameat.
func (osFS) Rename(oldpath, newpath string) error { return os.Rename(oldpath, newpath) }

// Remove: unlinkat.
func (osFS) Remove(path string) error { return os.Remove(path) }

// ReadDir: openat, getdents64, close.
func (osFS) ReadDir(path string) ([]fs.DirEntry, error) { return os.ReadDir(path) }

// Stat: fstatat.
func (osFS) Stat(path string) (fs.FileInfo, error) { return os.Stat(path) }

// SyncDir: openat(O_RDONLY), fsync, close; nothing on Windows, see syncDir.
func (osFS) SyncDir(path string) error { return syncDir(path) }

// Free: statfs.
func (osFS) Free(path string) (int64, error) { return free(path) }

// Lock: openat(O_RDWR|O_CREAT), flock(LOCK_EX|LOCK_NB).
func (osFS) Lock(path string) (File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lock(f); err != nil {
		f.Close() // the lock's error is the one to report
		return nil, err
	}
	return osFile{f}, nil
}

type osFile struct{ *os.File }

func wrap(f *os.File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// Size: fstat.
func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Datasync: fdatasync; fsync where there is none.
func (f osFile) Datasync() error { return datasync(f.File) }

// Allocate: fallocate; where it is not supported, pwrite of zeros from the
// file's end on.
func (f osFile) Allocate(size int64) error {
	have, err := f.Size()
	if err != nil || have >= size {
		return err
	}
	supported, err := fallocate(f.File, have, size-have)
	if !supported {
		err = writeZeros(f.File, have, size)
	}
	if err != nil {
		// Best effort: the error that counts is why there is no room.
		_ = f.Truncate(have)
	}
	return err
}

// writeZeros allocates by writing.
func writeZeros(f *os.File, from, to int64) error {
	zeros := make([]byte, min(to-from, 1<<20))
	for from < to {
		n, err := f.WriteAt(zeros[:min(int64(len(zeros)), to-from)], from)
		if err != nil {
			return err
		}
		from += int64(n)
	}
	return nil
}
