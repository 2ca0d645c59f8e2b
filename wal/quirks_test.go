package wal

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	tidwall "github.com/tidwall/wal"
)

// The tests in this file are of the dependency, github.com/tidwall/wal: each pins
// a weakness that this package mends from above. One that fails after an upgrade
// says that the dependency has changed there, and that what is written here about
// it has to be looked at again.

// quirkLog is a log of the dependency with n entries of 100 bytes, closed.
func quirkLog(t *testing.T, n int, o *tidwall.Options) string {
	t.Helper()
	dir := t.TempDir()
	l, err := tidwall.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := l.Write(uint64(i+1), bytes.Repeat([]byte{byte('a' + i)}, 100)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

const quirkSegment = "00000000000000000001"

func quirkEdit(t *testing.T, dir, name string, f func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), f(b), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Q1: a torn last entry makes the whole log unreadable. Here: the tail is repaired
// before the dependency opens it.
func TestQuirkQ1TornTailIsNotRepaired(t *testing.T) {
	dir := quirkLog(t, 10, nil)
	quirkEdit(t, dir, quirkSegment, func(b []byte) []byte { return b[:len(b)-3] })
	if _, err := tidwall.Open(dir, nil); !errors.Is(err, tidwall.ErrCorrupt) {
		t.Errorf("open: %v", err)
	}
}

// Q2: zeros at the end are entries. Here: blocks are never empty and begin with
// magic bytes; raw bytes are scanned before the dependency sees them.
func TestQuirkQ2ZerosAreEntries(t *testing.T) {
	dir := quirkLog(t, 10, nil)
	quirkEdit(t, dir, quirkSegment, func(b []byte) []byte { return append(b, make([]byte, 100)...) })
	l, err := tidwall.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if last, err := l.LastIndex(); err != nil || last != 110 {
		t.Errorf("last index %d, %v", last, err)
	}
}

// Q3: no checksum. Here: one on every block, checked on every read.
func TestQuirkQ3DamageIsReturned(t *testing.T) {
	dir := quirkLog(t, 10, nil)
	quirkEdit(t, dir, quirkSegment, func(b []byte) []byte { b[150] ^= 1; return b })
	l, err := tidwall.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got, err := l.Read(2); err != nil || bytes.Equal(got, bytes.Repeat([]byte("b"), 100)) {
		t.Errorf("read: %q, %v", got, err)
	}
}

// Q4: a segment in the middle that is short or missing is not noticed, and Read
// panics. Here: every segment is counted at open, and Read is never called.
func TestQuirkQ4ShortMiddleSegmentPanics(t *testing.T) {
	o := &tidwall.Options{SegmentSize: 350}
	for name, damage := range map[string]func([]byte) []byte{
		"short": func(b []byte) []byte { return b[:101] },
		"empty": func([]byte) []byte { return nil },
	} {
		dir := quirkLog(t, 20, o)
		names, err := os.ReadDir(dir)
		if err != nil || len(names) < 3 {
			t.Fatalf("%d segments, %v", len(names), err)
		}
		quirkEdit(t, dir, names[1].Name(), damage)
		l, err := tidwall.Open(dir, o)
		if err != nil {
			t.Fatal(err)
		}
		panicked := func() (p bool) {
			defer func() { p = recover() != nil }()
			for i := range uint64(20) {
				_, _ = l.Read(i + 1) // it does not come to an error
			}
			return false
		}()
		if !panicked {
			t.Errorf("%s: no panic", name)
		}
		_ = l.Close() // after a panic its lock may be held; there is nothing to lose
	}
}

func quirkSource(t *testing.T) string {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/tidwall/wal").Output()
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "wal.go"))
	if err != nil {
		t.Fatal(err)
	}
	return string(source)
}

// Q6: Read takes only a read lock and yet fills caches: a data race. Here: Read is
// never called.
func TestQuirkQ6ReadRaces(t *testing.T) {
	source := quirkSource(t)
	read := source[strings.Index(source, "func (l *Log) Read("):]
	read = read[:strings.Index(read, "\n}")]
	if !strings.Contains(read, "l.mu.RLock()") || !strings.Contains(read, "l.loadSegment(") {
		t.Errorf("Read no longer loads segments under a read lock:\n%s", read)
	}
	load := source[strings.Index(source, "func (l *Log) loadSegmentEntries("):]
	if load = load[:strings.Index(load, "\n}")]; !strings.Contains(load, "s.ebuf =") {
		t.Errorf("loading no longer writes to the segment:\n%s", load)
	}
}

// Q7, Q8: no directory is ever synced, after a rotation or a truncation. Here: the
// directory is synced before a rotation is acknowledged, and segments are removed
// one by one, the directory synced after each; the dependency's truncation is
// never called.
func TestQuirkQ7Q8DirectoriesAreNotSynced(t *testing.T) {
	for _, sync := range regexp.MustCompile(`\w+(\.\w+)*\.Sync\(\)`).FindAllString(quirkSource(t), -1) {
		if sync != "l.sfile.Sync()" && sync != "f.Sync()" && sync != "l.Sync()" {
			t.Errorf("%s: is that a directory?", sync)
		}
	}
	if source := quirkSource(t); strings.Contains(source, "os.Open(l.path)") || strings.Contains(source, "O_DIRECTORY") {
		t.Error("the dependency opens its directory")
	}
}

// Q9: nothing locks the directory. Here: the ledger's lock does.
func TestQuirkQ9NoLock(t *testing.T) {
	dir := quirkLog(t, 1, nil)
	for range 2 {
		l, err := tidwall.Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
}

// Q10: Open writes into the options that it is given. Here: fresh ones each time.
func TestQuirkQ10OptionsAreWritten(t *testing.T) {
	o := &tidwall.Options{}
	quirkLog(t, 1, o)
	if o.SegmentSize == 0 {
		t.Error("the options are as they were")
	}
}
