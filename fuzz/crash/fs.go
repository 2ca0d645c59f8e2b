package crash

import (
	"path/filepath"
	"strings"

	"github.com/oncelog/oncelog/internal/durable"
)

// FS is a file system whose operations that change something are points: "before"
// and "after", the operation (create, write, writeat, truncate, allocate, sync,
// datasync, rename, remove, syncdir, mkdir) and the part of the ledger's directory
// (wal, snapshots, quarantine, durable, reserve, FORMAT, LOCK or dir).
type FS struct {
	durable.FS
	// Root is the ledger's directory.
	Root string
	// Points hears of each.
	Points *Points
}

// around runs one operation between its two points.
func (f *FS) around(op, path string, do func() error) error {
	name := op + " " + f.part(path)
	f.Points.Reach("before " + name)
	err := do()
	f.Points.Reach("after " + name)
	return err
}

// part is the first name of the path below the root.
func (f *FS) part(path string) string {
	rel, err := filepath.Rel(f.Root, path)
	if err != nil || rel == "." || strings.HasPrefix(rel, "..") {
		return "dir"
	}
	first, _, _ := strings.Cut(filepath.ToSlash(rel), "/")
	first, _, _ = strings.Cut(first, ".")
	return first
}

// Mkdir passes on between its points.
func (f *FS) Mkdir(path string) error {
	return f.around("mkdir", path, func() error { return f.FS.Mkdir(path) })
}

// Create passes on between its points.
func (f *FS) Create(path string) (file durable.File, err error) {
	err = f.around("create", path, func() error {
		file, err = f.FS.Create(path)
		return err
	})
	return f.wrap(file, err)
}

// Open gives the file its points.
func (f *FS) Open(path string) (durable.File, error) { return f.wrap(f.FS.Open(path)) }

func (f *FS) wrap(file durable.File, err error) (durable.File, error) {
	if err != nil {
		return nil, err
	}
	return &pointedFile{file, f}, nil
}

// Rename passes on between its points, which are of the new name's part.
func (f *FS) Rename(oldpath, newpath string) error {
	return f.around("rename", newpath, func() error { return f.FS.Rename(oldpath, newpath) })
}

// Remove passes on between its points.
func (f *FS) Remove(path string) error {
	if _, err := f.Stat(path); err != nil {
		return err // nothing to remove is no point
	}
	return f.around("remove", path, func() error { return f.FS.Remove(path) })
}

// SyncDir passes on between its points.
func (f *FS) SyncDir(path string) error {
	return f.around("syncdir", path, func() error { return f.FS.SyncDir(path) })
}

// pointedFile is a file whose operations have points.
type pointedFile struct {
	durable.File
	fs *FS
}

func (p *pointedFile) Write(b []byte) (n int, err error) {
	err = p.fs.around("write", p.Name(), func() error { n, err = p.File.Write(b); return err })
	return n, err
}

func (p *pointedFile) WriteAt(b []byte, off int64) (n int, err error) {
	err = p.fs.around("writeat", p.Name(), func() error { n, err = p.File.WriteAt(b, off); return err })
	return n, err
}

func (p *pointedFile) Truncate(size int64) error {
	return p.fs.around("truncate", p.Name(), func() error { return p.File.Truncate(size) })
}

func (p *pointedFile) Allocate(size int64) error {
	return p.fs.around("allocate", p.Name(), func() error { return p.File.Allocate(size) })
}

func (p *pointedFile) Sync() error {
	return p.fs.around("sync", p.Name(), p.File.Sync)
}

func (p *pointedFile) Datasync() error {
	return p.fs.around("datasync", p.Name(), p.File.Datasync)
}
