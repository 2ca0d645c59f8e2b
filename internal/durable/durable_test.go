package durable_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/oncelog/oncelog/internal/durable"
	"github.com/oncelog/oncelog/internal/simdisk"
)

// recorder writes down what is asked of a file system.
type recorder struct {
	durable.FS
	calls []string
}

func (r *recorder) note(op, path string, err error) {
	call := op + " " + filepath.ToSlash(path)
	if err != nil {
		call += " fails"
	}
	r.calls = append(r.calls, call)
}

func (r *recorder) Create(path string) (durable.File, error) {
	f, err := r.FS.Create(path)
	r.note("create", path, err)
	if err != nil {
		return nil, err
	}
	return &recordedFile{f, r}, nil
}

func (r *recorder) Mkdir(path string) error {
	err := r.FS.Mkdir(path)
	r.note("mkdir", path, err)
	return err
}

func (r *recorder) Rename(from, to string) error {
	err := r.FS.Rename(from, to)
	r.note("rename", from+" "+filepath.ToSlash(to), err)
	return err
}

func (r *recorder) Remove(path string) error {
	err := r.FS.Remove(path)
	r.note("remove", path, err)
	return err
}

func (r *recorder) SyncDir(path string) error {
	err := r.FS.SyncDir(path)
	r.note("syncdir", path, err)
	return err
}

type recordedFile struct {
	durable.File
	r *recorder
}

func (f *recordedFile) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	f.r.note("write", f.Name(), err)
	return n, err
}

func (f *recordedFile) Sync() error {
	err := f.File.Sync()
	f.r.note("sync", f.Name(), err)
	return err
}

// TestSequences: each composite does what its comment says, in that order.
func TestSequences(t *testing.T) {
	for _, c := range []struct {
		name  string
		setup func(fsys durable.FS) error
		do    func(fsys durable.FS) error
		want  []string
	}{
		{"WriteFile", nil, func(f durable.FS) error { return durable.WriteFile(f, "/d/a", []byte("x")) },
			[]string{"create /d/a.tmp", "write /d/a.tmp", "sync /d/a.tmp", "rename /d/a.tmp /d/a", "syncdir /d"}},
		{"WriteFile over a leftover", func(f durable.FS) error { _, err := f.Create("/d/a.tmp"); return err },
			func(f durable.FS) error { return durable.WriteFile(f, "/d/a", []byte("x")) },
			[]string{"create /d/a.tmp fails", "remove /d/a.tmp", "create /d/a.tmp", "write /d/a.tmp", "sync /d/a.tmp", "rename /d/a.tmp /d/a", "syncdir /d"}},
		{"Remove", func(f durable.FS) error { _, err := f.Create("/d/a"); return err },
			func(f durable.FS) error { return durable.Remove(f, "/d/a") }, []string{"remove /d/a", "syncdir /d"}},
		{"Move in one directory", func(f durable.FS) error { _, err := f.Create("/d/a"); return err },
			func(f durable.FS) error { return durable.Move(f, "/d/a", "/d/b") }, []string{"rename /d/a /d/b", "syncdir /d"}},
		{"Move between two", func(f durable.FS) error { return errors.Join(second(f.Create("/d/a")), f.Mkdir("/e")) },
			func(f durable.FS) error { return durable.Move(f, "/d/a", "/e/a") }, []string{"rename /d/a /e/a", "syncdir /e", "syncdir /d"}},
		{"MkdirAll", nil, func(f durable.FS) error { return durable.MkdirAll(f, "/d/x/y") },
			[]string{"syncdir /", "mkdir /d/x", "syncdir /d", "mkdir /d/x/y", "syncdir /d/x"}},
		{"MkdirAll again", nil, func(f durable.FS) error { return durable.MkdirAll(f, "/d") }, []string{"syncdir /"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := simdisk.New(rand.New(rand.NewPCG(1, 1))).FS()
			if err := fsys.Mkdir("/d"); err != nil {
				t.Fatal(err)
			}
			if c.setup != nil {
				if err := c.setup(fsys); err != nil {
					t.Fatal(err)
				}
			}
			r := &recorder{FS: fsys}
			if err := c.do(r); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(r.calls, c.want) {
				t.Errorf("it does\n%s\nwant\n%s", strings.Join(r.calls, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

func second(_ durable.File, err error) error { return err }

// TestWriteFileIsOldOrNew: whatever happens at whichever operation, after a cut
// the file holds the old content or the new.
func TestWriteFileIsOldOrNew(t *testing.T) {
	for _, event := range []simdisk.Event{simdisk.Cut, simdisk.CutAfter, simdisk.FailLost, simdisk.FailPersisted, simdisk.FailShort, simdisk.FailFull} {
		for k := range 6 {
			d := simdisk.New(rand.New(rand.NewPCG(uint64(k), uint64(event))))
			if err := durable.MkdirAll(d.FS(), "/d"); err != nil {
				t.Fatal(err)
			}
			if err := durable.WriteFile(d.FS(), "/d/a", []byte("old")); err != nil {
				t.Fatal(err)
			}
			d.At(d.Ops()+k, event)
			wrote := durable.WriteFile(d.FS(), "/d/a", []byte("newer"))
			d.Crash()
			got, err := durable.ReadFile(d.FS(), "/d/a")
			if err != nil || string(got) != "old" && string(got) != "newer" || wrote == nil && string(got) != "newer" {
				t.Errorf("event %d at operation %d: write says %v, the file holds %q, %v", event, k, wrote, got, err)
			}
		}
	}
}

// TestOS is the operating system's file system.
func TestOS(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	if err := durable.MkdirAll(durable.OS, dir); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "file")
	if err := durable.WriteFile(durable.OS, path, []byte("content")); err != nil {
		t.Fatal(err)
	}
	if got, err := durable.ReadFile(durable.OS, path); err != nil || string(got) != "content" {
		t.Errorf("%q, %v", got, err)
	}
	if runtime.GOOS != "windows" {
		for p, want := range map[string]fs.FileMode{dir: 0o700, path: 0o600} {
			if info, err := os.Stat(p); err != nil || info.Mode().Perm() != want {
				t.Errorf("%s: mode %v, %v", p, info.Mode(), err)
			}
		}
	}
	if _, err := durable.OS.Create(path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("created over a file: %v", err)
	}
	f, err := durable.OS.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Allocate(100_000); err != nil {
		t.Errorf("allocate: %v", err)
	}
	if n, err := f.Size(); err != nil || n != 100_000 {
		t.Errorf("allocated to %d, %v", n, err)
	}
	if _, err := f.WriteAt([]byte("x"), 50_000); err != nil {
		t.Error(err)
	}
	if err := errors.Join(f.Datasync(), f.Sync(), f.Truncate(10), f.Close()); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "content\x00\x00\x00" {
		t.Errorf("%q, %v", b, err)
	}
	if free, err := durable.OS.Free(dir); err != nil || free == 0 {
		t.Errorf("free: %d, %v", free, err)
	}
	if err := durable.Remove(durable.OS, path); err != nil {
		t.Error(err)
	}
	if _, err := durable.ReadFile(durable.OS, path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("read what was removed: %v", err)
	}
}

// TestLock: it excludes in this process as in any other, and ends with its file.
func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "LOCK")
	for range 3 {
		lock, err := durable.OS.Lock(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := durable.OS.Lock(path); !errors.Is(err, durable.ErrLocked) {
			t.Errorf("locked twice: %v", err)
		}
		if err := lock.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestIsFull(t *testing.T) {
	if !durable.IsFull(fmt.Errorf("write: %w", durable.ErrNoSpace)) || durable.IsFull(fs.ErrExist) || durable.IsFull(nil) {
		t.Error("IsFull does not tell a full disk from others")
	}
}
