//go:build unix

package durable

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// EFBIG is the file size limit of the process (RLIMIT_FSIZE): no more bytes fit.
var fullErrors = []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG}

func rename(oldpath, newpath string) error { return os.Rename(oldpath, newpath) }

func syncDir(path string) error {
	d, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	err = d.Sync()
	if closeErr := d.Close(); err == nil {
		err = closeErr
	}
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		// Going on would acknowledge files whose names a power cut may lose.
		return fmt.Errorf("%w: this file system cannot make file names durable; use a directory on a local disk", err)
	}
	return err
}

// lock takes flock: it belongs to the open file, so it also excludes a second
// holder in this process, and the kernel drops it when the process is gone.
func lock(f *os.File) error {
	err := control(f, "flock", func(fd int) error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}

// control makes a call on the file's descriptor, which stays open for it
// whatever Close does meanwhile.
func control(f *os.File, op string, call func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = retry(func() error { return call(int(fd)) })
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return &os.PathError{Op: op, Path: f.Name(), Err: err}
	}
	return nil
}

// retry repeats a call that a signal interrupted before it did anything.
func retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
