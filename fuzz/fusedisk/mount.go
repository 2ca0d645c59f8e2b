//go:build linux

package fusedisk

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"syscall"

	fusefs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/oncelog/oncelog/internal/durable"
)

// Mount serves a file system under a directory until the returned server is
// unmounted.
func Mount(dir string, fsys durable.FS) (*fuse.Server, error) {
	return fusefs.Mount(dir, &node{fsys: fsys}, &fusefs.Options{MountOptions: fuse.MountOptions{Name: "simdisk", MaxWrite: 1 << 20, DirectMountStrict: true}})
}

// node is a file or a directory.
type node struct {
	fusefs.Inode
	fsys durable.FS
}

// handle is an open file.
type handle struct{ file durable.File }

func (n *node) path(name string) string { return path.Join("/", n.Path(nil), name) }

func errno(err error) syscall.Errno {
	switch {
	case err == nil, errors.Is(err, io.EOF):
		return fusefs.OK
	case errors.Is(err, fs.ErrNotExist):
		return syscall.ENOENT
	case errors.Is(err, fs.ErrExist):
		return syscall.EEXIST
	case durable.IsFull(err):
		return syscall.ENOSPC
	}
	return syscall.EIO
}

func describe(out *fuse.Attr, dir bool, size int64) {
	out.Mode, out.Nlink, out.Size, out.Blocks = fuse.S_IFREG|0o600, 1, uint64(size), uint64(size+511)/512
	if dir {
		out.Mode = fuse.S_IFDIR | 0o700
	}
}

func (n *node) child(ctx context.Context, out *fuse.EntryOut, dir bool, size int64) *fusefs.Inode {
	describe(&out.Attr, dir, size)
	return n.NewInode(ctx, &node{fsys: n.fsys}, fusefs.StableAttr{Mode: out.Mode & syscall.S_IFMT})
}

// Lookup implements fs.NodeLookuper.
func (n *node) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fusefs.Inode, syscall.Errno) {
	info, err := n.fsys.Stat(n.path(name))
	if err != nil {
		return nil, errno(err)
	}
	return n.child(ctx, out, info.IsDir(), info.Size()), fusefs.OK
}

// Getattr implements fs.NodeGetattrer.
func (n *node) Getattr(_ context.Context, f fusefs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	if h, ok := f.(*handle); ok {
		size, err := h.file.Size()
		describe(&out.Attr, false, size)
		return errno(err)
	}
	info, err := n.fsys.Stat(n.path(""))
	if n.IsRoot() {
		describe(&out.Attr, true, 0)
		return fusefs.OK
	}
	if err != nil {
		return errno(err)
	}
	describe(&out.Attr, info.IsDir(), info.Size())
	return fusefs.OK
}

// Setattr implements fs.NodeSetattrer: sizes only, modes and times are not kept.
func (n *node) Setattr(ctx context.Context, f fusefs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if size, ok := in.GetSize(); ok {
		h, open := f.(*handle)
		if !open {
			file, err := n.fsys.Open(n.path(""))
			if err != nil {
				return errno(err)
			}
			defer file.Close()
			h = &handle{file}
		}
		if err := h.file.Truncate(int64(size)); err != nil {
			return errno(err)
		}
	}
	return n.Getattr(ctx, f, out)
}

// Create implements fs.NodeCreater.
func (n *node) Create(ctx context.Context, name string, flags, _ uint32, out *fuse.EntryOut) (*fusefs.Inode, fusefs.FileHandle, uint32, syscall.Errno) {
	file, err := n.fsys.Create(n.path(name))
	if errors.Is(err, fs.ErrExist) && flags&syscall.O_EXCL == 0 {
		file, err = n.fsys.Open(n.path(name))
	}
	if err != nil {
		return nil, nil, 0, errno(err)
	}
	return n.child(ctx, out, false, 0), &handle{file}, fuse.FOPEN_DIRECT_IO, fusefs.OK
}

// Open implements fs.NodeOpener.
func (n *node) Open(_ context.Context, flags uint32) (fusefs.FileHandle, uint32, syscall.Errno) {
	file, err := n.fsys.Open(n.path(""))
	if err == nil && flags&syscall.O_TRUNC != 0 {
		err = file.Truncate(0)
	}
	if err != nil {
		return nil, 0, errno(err)
	}
	return &handle{file}, fuse.FOPEN_DIRECT_IO, fusefs.OK
}

// Read implements fs.NodeReader.
func (n *node) Read(_ context.Context, f fusefs.FileHandle, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	got, err := f.(*handle).file.ReadAt(dest, off)
	return fuse.ReadResultData(dest[:got]), errno(err)
}

// Write implements fs.NodeWriter.
func (n *node) Write(_ context.Context, f fusefs.FileHandle, data []byte, off int64) (uint32, syscall.Errno) {
	did, err := f.(*handle).file.WriteAt(data, off)
	if did > 0 {
		err = nil // a short write is told by its length
	}
	return uint32(did), errno(err)
}

// fdatasync is the flag of a sync that may leave out times.
const fdatasync = 1

// Fsync implements fs.NodeFsyncer, for files and directories.
func (n *node) Fsync(_ context.Context, f fusefs.FileHandle, flags uint32) syscall.Errno {
	h, ok := f.(*handle)
	switch {
	case !ok:
		return errno(n.fsys.SyncDir(n.path("")))
	case flags&fdatasync != 0:
		return errno(h.file.Datasync())
	}
	return errno(h.file.Sync())
}

// Flush implements fs.NodeFlusher. Closing makes nothing durable.
func (n *node) Flush(context.Context, fusefs.FileHandle) syscall.Errno { return fusefs.OK }

// Release implements fs.NodeReleaser.
func (n *node) Release(_ context.Context, f fusefs.FileHandle) syscall.Errno {
	return errno(f.(*handle).file.Close())
}

// Allocate implements fs.NodeAllocater.
func (n *node) Allocate(_ context.Context, f fusefs.FileHandle, off, size uint64, mode uint32) syscall.Errno {
	if mode != 0 {
		return syscall.EOPNOTSUPP
	}
	return errno(f.(*handle).file.Allocate(int64(off + size)))
}

// Mkdir implements fs.NodeMkdirer.
func (n *node) Mkdir(ctx context.Context, name string, _ uint32, out *fuse.EntryOut) (*fusefs.Inode, syscall.Errno) {
	if err := n.fsys.Mkdir(n.path(name)); err != nil {
		return nil, errno(err)
	}
	return n.child(ctx, out, true, 0), fusefs.OK
}

// Unlink implements fs.NodeUnlinker.
func (n *node) Unlink(_ context.Context, name string) syscall.Errno {
	return errno(n.fsys.Remove(n.path(name)))
}

// Rmdir implements fs.NodeRmdirer.
func (n *node) Rmdir(_ context.Context, name string) syscall.Errno {
	return errno(n.fsys.Remove(n.path(name)))
}

// Rename implements fs.NodeRenamer.
func (n *node) Rename(_ context.Context, name string, parent fusefs.InodeEmbedder, newName string, flags uint32) syscall.Errno {
	if flags != 0 {
		return syscall.EINVAL
	}
	to := path.Join("/", parent.EmbeddedInode().Path(nil), newName)
	return errno(n.fsys.Rename(n.path(name), to))
}

// Readdir implements fs.NodeReaddirer.
func (n *node) Readdir(context.Context) (fusefs.DirStream, syscall.Errno) {
	listed, err := n.fsys.ReadDir(n.path(""))
	if err != nil {
		return nil, errno(err)
	}
	var entries []fuse.DirEntry
	for _, e := range listed {
		mode := uint32(fuse.S_IFREG)
		if e.IsDir() {
			mode = fuse.S_IFDIR
		}
		entries = append(entries, fuse.DirEntry{Name: e.Name(), Mode: mode})
	}
	return fusefs.NewListDirStream(entries), fusefs.OK
}

// Statfs implements fs.NodeStatfser.
func (n *node) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno {
	free, err := n.fsys.Free("/")
	if err != nil {
		return errno(err)
	}
	out.Bsize, out.Frsize = 512, 512
	out.Blocks, out.Bfree, out.Bavail = 1<<30, uint64(free)/512, uint64(free)/512
	return fusefs.OK
}
