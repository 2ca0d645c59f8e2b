// Package simos is the part of package os that github.com/tidwall/wal calls, on
// simulated disks. The tests compile the dependency's own source against it.
//
// # Invariants
//
//   - It adds nothing to what the disk does and hides nothing of it.
package simos

import (
	"errors"
	"io/fs"
	"strings"
	"sync"

	"github.com/oncelog/oncelog/internal/durable"
	"github.com/oncelog/oncelog/internal/simdisk"
)

var disks sync.Map // of *simdisk.Disk by the first name of their paths

// Mount makes a disk answer for all paths below an absolute directory of one name.
func Mount(dir string, d *simdisk.Disk) { disks.Store(dir, d) }

// disk is the file system, in its present life, that a path is on.
func disk(path string) durable.FS {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	d, ok := disks.Load("/" + first)
	if !ok {
		panic("simos: no disk is mounted for " + path)
	}
	return d.(*simdisk.Disk).FS()
}

// The names of package os that are the same here.
type (
	FileMode = fs.FileMode
	FileInfo = fs.FileInfo
)

// The flags of OpenFile that the dependency uses.
const (
	O_WRONLY = 1 << iota
	O_RDWR
	O_CREATE
	O_TRUNC
)

// A File is an open file. A nil one fails, as an os.File does.
type File struct{ file durable.File }

// Write appends at the file's offset.
func (f *File) Write(b []byte) (int, error) {
	if f == nil {
		return 0, fs.ErrInvalid
	}
	return f.file.Write(b)
}

// Sync makes the file's bytes durable.
func (f *File) Sync() error {
	if f == nil {
		return fs.ErrInvalid
	}
	return f.file.Sync()
}

// Close closes the file.
func (f *File) Close() error {
	if f == nil {
		return fs.ErrInvalid
	}
	return f.file.Close()
}

// OpenFile opens or creates a file, as os.OpenFile does.
func OpenFile(path string, flags int, _ FileMode) (*File, error) {
	f, err := disk(path).Open(path)
	if errors.Is(err, fs.ErrNotExist) && flags&O_CREATE != 0 {
		f, err = disk(path).Create(path)
	} else if err == nil && flags&O_TRUNC != 0 {
		err = f.Truncate(0)
	}
	if err != nil {
		return nil, err
	}
	return &File{f}, nil
}

// Seek moves the offset to the end, which is all that the dependency asks for.
func (f *File) Seek(offset int64, whence int) (int64, error) {
	if offset != 0 || whence != 2 {
		panic("simos: Seek to anywhere but the end")
	}
	return f.file.(interface{ SeekEnd() (int64, error) }).SeekEnd()
}

// MkdirAll makes a directory and its parents.
func MkdirAll(path string, _ FileMode) error {
	if _, err := disk(path).Stat(path); err == nil {
		return nil
	}
	return disk(path).Mkdir(path)
}

// Remove removes a file.
func Remove(path string) error { return disk(path).Remove(path) }

// RemoveAll removes a file, if it is there.
func RemoveAll(path string) error {
	if err := Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Rename renames a file.
func Rename(oldpath, newpath string) error { return disk(oldpath).Rename(oldpath, newpath) }

// ReadFile reads a whole file.
func ReadFile(path string) ([]byte, error) { return durable.ReadFile(disk(path), path) }

// ReadDir lists a directory, as ioutil.ReadDir does.
func ReadDir(path string) ([]FileInfo, error) {
	entries, err := disk(path).ReadDir(path)
	var all []FileInfo
	for _, e := range entries {
		info, infoErr := e.Info()
		if infoErr != nil {
			return nil, infoErr
		}
		all = append(all, info)
	}
	return all, err
}
