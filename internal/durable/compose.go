package durable

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
)

// TempSuffix ends the names of files that [WriteFile] has not finished. After a
// crash such a file may be left; it is garbage and may be removed by whoever
// holds the directory's lock.
const TempSuffix = ".tmp"

// WriteFile writes a whole file: after a crash at any moment the path holds
// data in full, or what it held before. It is not for concurrent use on one
// path. When it fails before the rename, the path is unchanged and the
// temporary file removed where possible; when the last step fails, the new
// file is in place but a power cut may undo it.
//
//	create path.tmp   (a leftover one is removed first)
//	write
//	sync
//	rename path.tmp path
//	syncdir of path
func WriteFile(fsys FS, path string, data []byte) error {
	return CopyFile(fsys, path, bytes.NewReader(data))
}

// CopyFile is WriteFile of what a reader yields. When reading fails, nothing is
// written.
func CopyFile(fsys FS, path string, from io.Reader) error {
	temp := path + TempSuffix
	if err := writeTemp(fsys, temp, from); err != nil {
		return fmt.Errorf("durable: write %s: %w", path, err)
	}
	if err := fsys.Rename(temp, path); err != nil {
		return fmt.Errorf("durable: write %s: %w", path, errors.Join(err, removeIfThere(fsys, temp)))
	}
	// Commit point: once the directory is synced, the new content stays.
	if err := fsys.SyncDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("durable: write %s: in place, but perhaps not durable: %w", path, err)
	}
	return nil
}

// writeTemp leaves a synced file with the given content, or none.
func writeTemp(fsys FS, temp string, from io.Reader) error {
	f, err := fsys.Create(temp)
	if errors.Is(err, fs.ErrExist) {
		if err := fsys.Remove(temp); err != nil {
			return err
		}
		f, err = fsys.Create(temp)
	}
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return errors.Join(err, removeIfThere(fsys, temp))
	}
	return nil
}

func removeIfThere(fsys FS, path string) error {
	if err := fsys.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// ReadFile returns the whole content of a file. fs.ErrNotExist if there is
// none. What it returns is what the system shows, which after a process death
// is not yet what a power cut would leave.
//
//	open for reading
//	read
func ReadFile(fsys FS, path string) ([]byte, error) { return ReadFileInto(fsys, path, nil) }

// ReadFileInto is ReadFile into memory that is there, where the file fits in.
func ReadFileInto(fsys FS, path string, room []byte) ([]byte, error) {
	f, err := fsys.OpenRead(path)
	if err != nil {
		return nil, fmt.Errorf("durable: read %s: %w", path, err)
	}
	data, err := readAll(f, room)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, fmt.Errorf("durable: read %s: %w", path, err)
	}
	return data, nil
}

func readAll(f File, room []byte) ([]byte, error) {
	size, err := f.Size()
	if err != nil || size == 0 {
		return nil, err
	}
	if int64(cap(room)) < size {
		room = make([]byte, size)
	}
	data := room[:size]
	n, err := f.ReadAt(data, 0)
	if n == len(data) {
		return data, nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = fmt.Errorf("got %d of %d bytes: %w", n, size, io.ErrUnexpectedEOF)
	}
	return nil, err
}

// MkdirAll makes a directory and its missing parents, mode 0700, and makes
// their names durable. It is harmless to repeat, and repeating it after a crash
// finishes what was begun: each directory is synced into its parent before the
// next is made in it, so that at most the deepest existing one can still be
// without a durable name, and that one is synced first.
//
//	stat path and its parents, up to the first that exists: E
//	syncdir of E's parent
//	then for each missing directory from E down to path:
//	    mkdir it
//	    syncdir of its parent
func MkdirAll(fsys FS, path string) error {
	path = filepath.Clean(path)
	missing, found, err := missingDirs(fsys, path)
	if err != nil {
		return fmt.Errorf("durable: make directory %s: %w", path, err)
	}
	// Where we may not even look into E's parent, we did not make E in it.
	if err := fsys.SyncDir(filepath.Dir(found)); err != nil && !errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("durable: make directory %s: %w", path, err)
	}
	for i := len(missing) - 1; i >= 0; i-- {
		if err := fsys.Mkdir(missing[i]); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("durable: make directory %s: %w", path, err)
		}
		if err := fsys.SyncDir(filepath.Dir(missing[i])); err != nil {
			return fmt.Errorf("durable: make directory %s: %w", path, err)
		}
	}
	return nil
}

// missingDirs lists what is not there of path and its parents, deepest first,
// and names the deepest directory that is.
func missingDirs(fsys FS, path string) (missing []string, found string, err error) {
	for dir := path; ; dir = filepath.Dir(dir) {
		info, err := fsys.Stat(dir)
		switch {
		case err == nil && info.IsDir():
			return missing, dir, nil
		case err == nil:
			return nil, "", fmt.Errorf("%s is a file, not a directory", dir)
		case !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir):
			return nil, "", err
		}
		missing = append(missing, dir)
	}
}

// Remove removes one file or empty directory, durably. fs.ErrNotExist if there
// is none; a removal that a crash undid is then repeated without it.
//
//	remove path
//	syncdir of path
func Remove(fsys FS, path string) error {
	if err := fsys.Remove(path); err != nil {
		return fmt.Errorf("durable: remove %s: %w", path, err)
	}
	if err := fsys.SyncDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("durable: remove %s: gone, but perhaps not durably: %w", path, err)
	}
	return nil
}

// Move renames a file over newpath, durably; the file itself must have been
// synced. The directory that gains the name is synced before the one that loses
// it: a crash between the two leaves the file under both names, never under none.
//
//	rename oldpath newpath
//	syncdir of newpath
//	syncdir of oldpath, if that is another directory
func Move(fsys FS, oldpath, newpath string) error {
	if err := fsys.Rename(oldpath, newpath); err != nil {
		return fmt.Errorf("durable: move %s to %s: %w", oldpath, newpath, err)
	}
	dirs := []string{filepath.Dir(newpath)}
	if from := filepath.Dir(oldpath); from != dirs[0] {
		dirs = append(dirs, from)
	}
	for _, dir := range dirs {
		if err := fsys.SyncDir(dir); err != nil {
			return fmt.Errorf("durable: move %s to %s: moved, but perhaps not durably: %w", oldpath, newpath, err)
		}
	}
	return nil
}
