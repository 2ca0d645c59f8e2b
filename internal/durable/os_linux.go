package durable

import (
	"errors"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

func datasync(f *os.File) error {
	return control(f, "fdatasync", unix.Fdatasync)
}

// allocate falls back to writing zeros where the file system has no fallocate
// (NFS before 4.2, some FUSE mounts); both leave real blocks behind.
func allocate(f *os.File, old, size int64) error {
	err := control(f, "fallocate", func(fd int) error { return unix.Fallocate(fd, 0, 0, size) })
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return zeroFill(f, old, size)
	}
	return err
}

func free(path string) (int64, error) {
	var st unix.Statfs_t
	if err := retry(func() error { return unix.Statfs(path, &st) }); err != nil {
		return -1, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	if st.Bavail > uint64(math.MaxInt64)/uint64(st.Bsize) {
		return math.MaxInt64, nil
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}
