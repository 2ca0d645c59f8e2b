//go:build unix

package wal

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"

	tidwall "github.com/tidwall/wal"
)

// quirkChild marks a child process, whose files may not grow over a limit.
const quirkChild = "ONCELOG_QUIRK_DIR"

// Q5: after a short write the next writes are acknowledged, and the log cannot be
// opened afterwards. Here: the log is poisoned by the first failed write.
func TestQuirkQ5WritesAfterAShortWrite(t *testing.T) {
	if dir := os.Getenv(quirkChild); dir != "" {
		if err := writeOverLimit(dir); err != nil {
			t.Fatal(err)
		}
		return
	}
	dir := t.TempDir()
	c := exec.Command(os.Args[0], "-test.run", "^TestQuirkQ5WritesAfterAShortWrite$")
	c.Env = append(os.Environ(), quirkChild+"="+dir)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if _, err := tidwall.Open(dir, nil); !errors.Is(err, tidwall.ErrCorrupt) {
		t.Errorf("open: %v", err)
	}
}

// writeOverLimit writes until the limit makes a write short, raises the limit, and
// writes on. It returns an error if the dependency noticed.
func writeOverLimit(dir string) error {
	signal.Ignore(syscall.SIGXFSZ)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	whole := limit
	limit.Cur = 1000
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	l, err := tidwall.Open(dir, nil)
	if err != nil {
		return err
	}
	index := uint64(1)
	for l.Write(index, bytes.Repeat([]byte("x"), 300)) == nil {
		index++
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &whole); err != nil {
		return err
	}
	return errors.Join(l.Write(index, []byte("small")), l.Write(index+1, []byte("next")))
}
