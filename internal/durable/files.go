package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
)

// ErrNoSpace is what a file system that is not the operating system's returns
// for ENOSPC.
var ErrNoSpace = errors.New("no space left on device")

// IsFull reports whether an error means that the disk, the quota or the file's
// size limit is exhausted.
func IsFull(err error) bool { return errors.Is(err, ErrNoSpace) || isFull(err) }

// tempSuffix ends the names of files that are not whole yet.
const tempSuffix = ".tmp"

// WriteFile makes path hold data, whole or not at all: create path.tmp, write,
// sync, close, rename to path, sync the directory. On an error path is as it
// was, and path.tmp is removed where that is possible.
func WriteFile(fsys FS, path string, data []byte) error {
	temp := path + tempSuffix
	if err := removeLeftover(fsys, temp); err != nil {
		return err
	}
	f, err := fsys.Create(temp)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = Move(fsys, temp, path)
	}
	if err != nil {
		// Best effort: the next WriteFile removes it if this cannot.
		_ = fsys.Remove(temp)
	}
	return err
}

// removeLeftover removes what a crash left under a temporary name: unlink.
func removeLeftover(fsys FS, temp string) error {
	if err := fsys.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// ReadFile reads a whole file: open, fstat, pread, close.
func ReadFile(fsys FS, path string) ([]byte, error) {
	f, err := fsys.OpenRead(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	b := make([]byte, size)
	n, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if int64(n) != size {
		return nil, fmt.Errorf("durable: %s: read %d bytes of %d: %w", path, n, size, io.ErrUnexpectedEOF)
	}
	return b, nil
}

// MkdirAll makes a directory and its missing parents, outermost first: for each
// mkdir, then sync of the directory that holds it.
func MkdirAll(fsys FS, path string) error {
	path = filepath.Clean(path)
	if info, err := fsys.Stat(path); err == nil {
		if !info.IsDir() {
			return &fs.PathError{Op: "mkdir", Path: path, Err: errors.New("a file is there")}
		}
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(path)
	if parent != path {
		if err := MkdirAll(fsys, parent); err != nil {
			return err
		}
	}
	if err := fsys.Mkdir(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return fsys.SyncDir(parent)
}

// Remove removes one file or empty directory: unlink, sync its directory.
func Remove(fsys FS, path string) error {
	if err := fsys.Remove(path); err != nil {
		return err
	}
	return fsys.SyncDir(filepath.Dir(path))
}

// Move renames a file: rename, sync the new name's directory, and the old one's
// if it is another.
func Move(fsys FS, oldpath, newpath string) error {
	if err := fsys.Rename(oldpath, newpath); err != nil {
		return err
	}
	to, from := filepath.Dir(newpath), filepath.Dir(oldpath)
	if err := fsys.SyncDir(to); err != nil || to == from {
		return err
	}
	return fsys.SyncDir(from)
}
