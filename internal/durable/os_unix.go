//go:build unix

package durable

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// control runs a system call on the file's descriptor until no signal
// interrupts it.
func control(f *os.File, op string, call func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		for failed = call(int(fd)); errors.Is(failed, unix.EINTR); {
			failed = call(int(fd))
		}
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return &os.PathError{Op: op, Path: f.Name(), Err: err}
	}
	return nil
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	if err := d.Sync(); err != nil {
		d.Close() // the sync's error is the one to report
		return err
	}
	return d.Close()
}

func free(path string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}

func lock(f *os.File) error {
	err := control(f, "flock", func(fd int) error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
	if errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("%w: %w", err, ErrLocked)
	}
	return err
}

func isFull(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG)
}
