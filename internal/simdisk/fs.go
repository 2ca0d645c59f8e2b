package simdisk

import (
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/oncelog/oncelog/internal/durable"
)

// FS is the disk as the process of its present life sees it. After Kill or Crash
// the file system of the earlier life is dead.
func (d *Disk) FS() durable.FS {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &system{d, d.life}
}

type system struct {
	disk *Disk
	life int
}

// lock takes the disk's lock if the process still lives.
func (s *system) lock(op, path string) error {
	s.disk.mu.Lock()
	if s.life != s.disk.life || s.disk.off {
		s.disk.mu.Unlock()
		return &fs.PathError{Op: op, Path: path, Err: ErrPowerCut}
	}
	return nil
}

func pathError(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}

// Mkdir implements durable.FS.
func (s *system) Mkdir(path string) error {
	if err := s.lock("mkdir", path); err != nil {
		return err
	}
	defer s.disk.mu.Unlock()
	parent, name, err := s.disk.parent(path)
	if err == nil && parent.cache[name] != (node{}) {
		err = fs.ErrExist
	}
	if err != nil {
		return pathError("mkdir", path, err)
	}
	return s.disk.operate("mkdir", path, func() error {
		parent.change(rename{to: name, node: node{dir: newDir()}})
		return nil
	}, nil, nil)
}

// Create implements durable.FS.
func (s *system) Create(path string) (durable.File, error) {
	if err := s.lock("create", path); err != nil {
		return nil, err
	}
	defer s.disk.mu.Unlock()
	return s.create(path)
}

func (s *system) create(path string) (*handle, error) {
	parent, name, err := s.disk.parent(path)
	if err == nil && parent.cache[name] != (node{}) {
		err = fs.ErrExist
	}
	if err != nil {
		return nil, pathError("create", path, err)
	}
	f := &file{}
	err = s.disk.operate("create", path, func() error {
		parent.change(rename{to: name, node: node{file: f}})
		return nil
	}, nil, nil)
	if err != nil {
		return nil, err
	}
	return &handle{s: s, path: path, file: f}, nil
}

// Open implements durable.FS.
func (s *system) Open(path string) (durable.File, error) { return s.open(path, false) }

// OpenRead implements durable.FS.
func (s *system) OpenRead(path string) (durable.File, error) { return s.open(path, true) }

func (s *system) open(path string, readOnly bool) (durable.File, error) {
	if err := s.lock("open", path); err != nil {
		return nil, err
	}
	defer s.disk.mu.Unlock()
	n, err := s.disk.find(path)
	if err == nil && n.file == nil {
		err = errors.New("is a directory")
	}
	if err != nil {
		return nil, pathError("open", path, err)
	}
	return &handle{s: s, path: path, file: n.file, readOnly: readOnly}, nil
}

// Rename implements durable.FS.
func (s *system) Rename(oldpath, newpath string) error {
	if err := s.lock("rename", oldpath); err != nil {
		return err
	}
	defer s.disk.mu.Unlock()
	from, oldname, err := s.disk.parent(oldpath)
	if err != nil {
		return pathError("rename", oldpath, err)
	}
	n, ok := from.cache[oldname]
	to, newname, err := s.disk.parent(newpath)
	if !ok {
		err = fs.ErrNotExist
	}
	if err != nil {
		return pathError("rename", oldpath, err)
	}
	return s.disk.operate("rename", newpath, func() error {
		if from == to {
			from.change(rename{from: oldname, to: newname, node: n})
			return nil
		}
		// Two directories: a cut may leave both names, or neither.
		to.change(rename{to: newname, node: n})
		from.change(rename{from: oldname})
		return nil
	}, nil, nil)
}

// Remove implements durable.FS.
func (s *system) Remove(path string) error {
	if err := s.lock("remove", path); err != nil {
		return err
	}
	defer s.disk.mu.Unlock()
	parent, name, err := s.disk.parent(path)
	if err == nil {
		n, ok := parent.cache[name]
		switch {
		case !ok:
			err = fs.ErrNotExist
		case n.dir != nil && len(n.dir.cache) > 0:
			err = errors.New("directory not empty")
		}
	}
	if err != nil {
		return pathError("remove", path, err)
	}
	return s.disk.operate("remove", path, func() error {
		parent.change(rename{from: name})
		return nil
	}, nil, nil)
}

// ReadDir implements durable.FS.
func (s *system) ReadDir(path string) ([]fs.DirEntry, error) {
	if err := s.lock("readdir", path); err != nil {
		return nil, err
	}
	defer s.disk.mu.Unlock()
	n, err := s.disk.find(path)
	if err == nil && n.dir == nil {
		err = errors.New("not a directory")
	}
	if err != nil {
		return nil, pathError("readdir", path, err)
	}
	var all []fs.DirEntry
	for name, c := range n.dir.cache {
		all = append(all, fs.FileInfoToDirEntry(infoOf(name, c)))
	}
	slices.SortFunc(all, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return all, nil
}

// Stat implements durable.FS.
func (s *system) Stat(path string) (fs.FileInfo, error) {
	if err := s.lock("stat", path); err != nil {
		return nil, err
	}
	defer s.disk.mu.Unlock()
	n, err := s.disk.find(path)
	if err != nil {
		return nil, pathError("stat", path, err)
	}
	return infoOf(path, n), nil
}

// SyncDir implements durable.FS.
func (s *system) SyncDir(path string) error {
	if err := s.lock("syncdir", path); err != nil {
		return err
	}
	defer s.disk.mu.Unlock()
	n, err := s.disk.find(path)
	if err == nil && n.dir == nil {
		err = errors.New("not a directory")
	}
	if err != nil {
		return pathError("syncdir", path, err)
	}
	return s.disk.operate("syncdir", path, func() error {
		n.dir.sync()
		return nil
	}, nil, nil)
}

// Free implements durable.FS.
func (s *system) Free(path string) (int64, error) {
	if err := s.lock("statfs", path); err != nil {
		return 0, err
	}
	defer s.disk.mu.Unlock()
	return s.disk.room(), nil
}

// Lock implements durable.FS.
func (s *system) Lock(path string) (durable.File, error) {
	if err := s.lock("lock", path); err != nil {
		return nil, err
	}
	defer s.disk.mu.Unlock()
	if s.disk.locks[path] != nil {
		return nil, pathError("lock", path, durable.ErrLocked)
	}
	n, err := s.disk.find(path)
	var h *handle
	if err == nil {
		h = &handle{s: s, path: path, file: n.file}
	} else if h, err = s.create(path); err != nil {
		return nil, err
	}
	s.disk.locks[path] = h
	return h, nil
}

type info struct {
	name string
	size int64
	dir  bool
}

func infoOf(path string, n node) info {
	i := info{name: path[strings.LastIndex(path, "/")+1:], dir: n.dir != nil}
	if n.file != nil {
		i.size = int64(len(n.file.cache))
	}
	return i
}

// Name implements fs.FileInfo.
func (i info) Name() string { return i.name }

// Size implements fs.FileInfo.
func (i info) Size() int64 { return i.size }

// Mode implements fs.FileInfo.
func (i info) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o700
	}
	return 0o600
}

// ModTime implements fs.FileInfo; the disk keeps no times.
func (i info) ModTime() time.Time { return time.Time{} }

// IsDir implements fs.FileInfo.
func (i info) IsDir() bool { return i.dir }

// Sys implements fs.FileInfo.
func (i info) Sys() any { return nil }

// handle is an open file.
type handle struct {
	s        *system
	path     string
	file     *file
	readOnly bool
	offset   int
	closed   bool
}

func (h *handle) lock(op string) error {
	if err := h.s.lock(op, h.path); err != nil {
		return err
	}
	if h.closed {
		h.s.disk.mu.Unlock()
		return pathError(op, h.path, fs.ErrClosed)
	}
	return nil
}

// Name implements durable.File.
func (h *handle) Name() string { return h.path }

// Write implements durable.File.
func (h *handle) Write(b []byte) (int, error) {
	n, err := h.WriteAt(b, int64(h.offset))
	h.offset += n
	return n, err
}

// WriteAt implements durable.File. A disk that becomes full takes what fits.
func (h *handle) WriteAt(b []byte, off int64) (int, error) {
	if err := h.lock("write"); err != nil {
		return 0, err
	}
	defer h.s.disk.mu.Unlock()
	if h.readOnly {
		return 0, pathError("write", h.path, fs.ErrPermission)
	}
	if len(b) == 0 {
		return 0, nil
	}
	n := 0
	put := func(m int) {
		if n = m; n > 0 {
			h.file.change(write{int(off), slices.Clone(b[:n])})
		}
	}
	err := h.s.disk.operate("write", h.path, func() error {
		fits := h.s.disk.room() + max(int64(len(h.file.cache))-off, 0)
		if fits < int64(len(b)) {
			put(int(fits))
			return durable.ErrNoSpace
		}
		put(len(b))
		return nil
	}, func() { put(len(b) / 2) }, nil)
	return n, err
}

// ReadAt implements durable.File.
func (h *handle) ReadAt(b []byte, off int64) (int, error) {
	if err := h.lock("read"); err != nil {
		return 0, err
	}
	defer h.s.disk.mu.Unlock()
	if off >= int64(len(h.file.cache)) {
		return 0, io.EOF
	}
	n := copy(b, h.file.cache[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// Size implements durable.File.
func (h *handle) Size() (int64, error) {
	if err := h.lock("stat"); err != nil {
		return 0, err
	}
	defer h.s.disk.mu.Unlock()
	return int64(len(h.file.cache)), nil
}

// Truncate implements durable.File.
func (h *handle) Truncate(size int64) error {
	if err := h.lock("truncate"); err != nil {
		return err
	}
	defer h.s.disk.mu.Unlock()
	return h.s.disk.operate("truncate", h.path, func() error {
		h.file.change(write{off: int(size)})
		return nil
	}, nil, nil)
}

// Allocate implements durable.File.
func (h *handle) Allocate(size int64) error {
	if err := h.lock("allocate"); err != nil {
		return err
	}
	defer h.s.disk.mu.Unlock()
	return h.s.disk.operate("allocate", h.path, func() error {
		if more := size - int64(len(h.file.cache)); more > h.s.disk.room() {
			return durable.ErrNoSpace
		} else if more > 0 {
			h.file.change(write{off: int(size)})
		}
		return nil
	}, nil, nil)
}

// Sync implements durable.File.
func (h *handle) Sync() error { return h.sync("sync") }

// Datasync implements durable.File.
func (h *handle) Datasync() error { return h.sync("datasync") }

func (h *handle) sync(op string) error {
	if err := h.lock(op); err != nil {
		return err
	}
	defer h.s.disk.mu.Unlock()
	return h.s.disk.operate(op, h.path, func() error {
		h.file.sync()
		if h.s.disk.journal {
			syncNames(h.s.disk.root)
		}
		return nil
	}, nil, func() { h.file.dirty = nil })
}

// Close implements durable.File. It also works when the power is off.
func (h *handle) Close() error {
	h.s.disk.mu.Lock()
	defer h.s.disk.mu.Unlock()
	if h.closed {
		return pathError("close", h.path, fs.ErrClosed)
	}
	h.closed = true
	if h.s.disk.locks[h.path] == h {
		delete(h.s.disk.locks, h.path)
	}
	return nil
}

// SeekEnd moves the offset of Write to the end.
func (h *handle) SeekEnd() (int64, error) {
	n, err := h.Size()
	h.offset = int(n)
	return n, err
}
