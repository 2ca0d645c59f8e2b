package durable

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func datasync(f *os.File) error {
	return control(f, "fdatasync", func(fd int) error { return unix.Fdatasync(fd) })
}

// fallocate reports false where the file system cannot.
func fallocate(f *os.File, off, n int64) (supported bool, err error) {
	err = control(f, "fallocate", func(fd int) error { return unix.Fallocate(fd, 0, off, n) })
	return !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.ENOSYS), err
}
