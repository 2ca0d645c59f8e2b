package durable

import (
	"errors"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// datasync is Sync: os.File.Sync asks for F_FULLFSYNC, the only call on darwin
// that empties the drive's own cache; its fdatasync does not.
func datasync(f *os.File) error { return f.Sync() }

// allocate reserves the blocks behind the end with F_PREALLOCATE, then moves
// the end; it writes zeros where the file system cannot.
func allocate(f *os.File, old, size int64) error {
	if size <= old {
		return nil
	}
	store := unix.Fstore_t{
		Flags:   unix.F_ALLOCATEALL,
		Posmode: unix.F_PEOFPOSMODE,
		Length:  size - old,
	}
	err := control(f, "preallocate", func(fd int) error {
		return unix.FcntlFstore(uintptr(fd), unix.F_PREALLOCATE, &store)
	})
	if errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.EINVAL) {
		return zeroFill(f, old, size)
	}
	if err != nil {
		return err
	}
	return f.Truncate(size)
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
