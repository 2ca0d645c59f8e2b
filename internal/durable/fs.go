package durable

import (
	"errors"
	"io"
	"io/fs"
)

// ErrLocked reports that another owner holds the lock of a directory.
var ErrLocked = errors.New("durable: locked by another process")

// An FS is a file system on which the order of durability is under control.
// [OS] is the operating system's; the tests' disk model is the other
// implementation. Paths are the operating system's. Methods may be called
// concurrently.
//
// A name (a created, renamed or removed file) is durable only once SyncDir of
// its parent directory has returned nil. A file's bytes and size are durable
// only once its Sync or Datasync has returned nil. A failed Sync proves nothing
// about any byte written before it and must not be retried and believed.
type FS interface {
	// Mkdir makes one directory, mode 0700. fs.ErrExist if it is there.
	Mkdir(path string) error
	// Create makes a new file for reading and writing, mode 0600. It fails
	// with fs.ErrExist if the name is taken.
	Create(path string) (File, error)
	// Open opens an existing file for reading and writing.
	Open(path string) (File, error)
	// OpenRead opens an existing file for reading.
	OpenRead(path string) (File, error)
	// Rename moves oldpath over newpath, atomically in one directory.
	Rename(oldpath, newpath string) error
	// Remove removes one file or empty directory.
	Remove(path string) error
	// ReadDir lists a directory, sorted by name.
	ReadDir(path string) ([]fs.DirEntry, error)
	// Stat describes a file. fs.ErrNotExist if there is none.
	Stat(path string) (fs.FileInfo, error)
	// SyncDir makes the names in a directory durable.
	SyncDir(path string) error
	// Free is the number of bytes that an unprivileged writer can still
	// allocate on the file system that holds path; -1 where it cannot be
	// told.
	Free(path string) (int64, error)
	// Lock takes the exclusive lock of the file at path, which it creates
	// where it is missing (mode 0600), without waiting: ErrLocked if another
	// owner holds it. Closing the file, or the end of the process, releases
	// the lock. The file's content is the holder's to write.
	Lock(path string) (File, error)
}

// A File is an open file of an [FS]. Write appends at the file's offset, which
// starts at 0; the At methods neither use nor move it.
type File interface {
	io.Writer
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Name is the path that the file was opened with.
	Name() string
	// Size is the file's length in bytes.
	Size() (int64, error)
	// Truncate sets the file's length.
	Truncate(size int64) error
	// Allocate makes sure that bytes [0, size) have blocks on disk and that
	// the file is at least size bytes long; new bytes read as zero. ENOSPC
	// (see [IsFull]) when the disk has no room, with the file's length
	// unchanged.
	Allocate(size int64) error
	// Sync makes the file's bytes and metadata durable.
	Sync() error
	// Datasync makes the file's bytes durable, and its size if it changed;
	// times may be left out. It is Sync where the system has no fdatasync.
	Datasync() error
}
