package ledger

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/oncelog/oncelog/internal/durable"
	"github.com/oncelog/oncelog/internal/simdisk"
	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/wal"
)

// goldenFormat is part of the disk format.
const goldenFormat = `{"format":1,"id":"000102030405060708090a0b0c0d0e0f","store":"tidwall","seed":"1011121314151617","sum":"%s"}` + "\n"

func TestGoldenFormat(t *testing.T) {
	f := format{Version: 1, ID: "000102030405060708090a0b0c0d0e0f", Store: wal.StoreTidwall, Seed: "1011121314151617"}
	if got, want := string(f.encode()), fmt.Sprintf(goldenFormat, "12eee1f578f108a0"); got != want {
		t.Errorf("FORMAT is\n%swant\n%s", got, want)
	}
	for at := range f.encode() {
		b := f.encode()
		b[at] ^= 1
		if got, err := parseFormat("FORMAT", b); !errors.Is(err, ErrCorrupt) {
			t.Errorf("byte %d changed: %+v, %v", at, got, err)
		}
	}
	if got, err := parseFormat("FORMAT", f.encode()); err != nil || got.id() != f.id() || got.seed() != 0x1011121314151617 {
		t.Errorf("read as %+v, %v", got, err)
	}
}

func FuzzParseFormat(f *testing.F) {
	f.Add(newFormat(wal.StoreTidwall).encode())
	f.Add([]byte(`{"format":1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := parseFormat("FORMAT", b)
		if err == nil && string(got.encode()) != string(b) {
			t.Errorf("%q is taken, and is written as %q", b, got.encode())
		}
	})
}

// TestNoLedger: G6, what is missing is not made anew unless that is asked for.
func TestNoLedger(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenView(dir, Options{}); !errors.Is(err, ErrNoLedger) || !strings.Contains(err.Error(), "no directory") {
		t.Errorf("a view of a file: %v", err)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"missing", "empty"} {
		if _, err := Open(dir, Options{}); !errors.Is(err, ErrNoLedger) || !strings.Contains(err.Error(), dir) {
			t.Errorf("a directory that is %s: %v", what, err)
		}
		if _, err := OpenView(dir, Options{}); !errors.Is(err, ErrNoLedger) {
			t.Errorf("a view of a directory that is %s: %v", what, err)
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("a refused open left %v, %v", left, err)
		}
	}
	l, err := Create(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Create(dir, Options{}); !errors.Is(err, ErrLocked) {
		t.Errorf("created while it is open: %v", err)
	}
	if _, err := Open(dir, Options{}); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("opened while it is open: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(dir, Options{}); !errors.Is(err, ErrExists) {
		t.Errorf("created twice: %v", err)
	}
	for _, file := range []string{"FORMAT", "LOCK", "durable", "reserve"} {
		info, err := os.Stat(filepath.Join(dir, file))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info.Mode(), err)
		}
	}
	if err := os.Remove(filepath.Join(dir, "FORMAT")); err != nil {
		t.Fatal(err)
	}
	for _, create := range []bool{false, true} {
		if _, err := Open(dir, Options{Create: create}); !errors.Is(err, ErrCorrupt) {
			t.Errorf("FORMAT is gone, create %v: %v", create, err)
		}
	}
}

// TestSnapshotsLeftOut: a copy that leaves out empty directories is whole, and one that
// leaves out snapshots which the log needs is refused.
func TestSnapshotsLeftOut(t *testing.T) {
	for compactions, want := range []error{nil, nil, ErrCorrupt} {
		dir := filepath.Join(t.TempDir(), "state")
		l, err := Create(dir, Options{SegmentSize: 1 << 10, SnapshotEvery: -1})
		if err != nil {
			t.Fatal(err)
		}
		key := journal.Key{Effect: "mail", Item: "first"}
		for i := range 30 * (compactions + 1) {
			if _, err := l.Accept(t.Context(), key, Input{}); err != nil {
				t.Fatal(err)
			}
			key.Item = fmt.Sprint(i)
			if i%30 == 29 && i/30 < compactions {
				if _, err := l.Compact(); err != nil {
					t.Fatal(err)
				}
			}
		}
		key.Item = "first"
		if err := errors.Join(l.Close(), os.RemoveAll(filepath.Join(dir, "snapshots"))); err != nil {
			t.Fatal(err)
		}
		if l, err = Open(dir, Options{}); !errors.Is(err, want) {
			t.Fatalf("after %d compactions: %v, want %v", compactions, err, want)
		}
		if err != nil {
			continue
		}
		e, err := l.Get(key)
		if err != nil || l.State(&e) != journal.InDoubt {
			t.Errorf("after %d compactions: %+v, %v", compactions, e, err)
		}
		if _, err := l.Compact(); err != nil {
			t.Errorf("after %d compactions: %v", compactions, err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestCreationIsAllOrNothing cuts a creation at every operation: what is left is
// no ledger, or one, and creating again makes it one.
func TestCreationIsAllOrNothing(t *testing.T) {
	for _, event := range []simdisk.Event{simdisk.Cut, simdisk.CutAfter, simdisk.FailLost, simdisk.FailPersisted, simdisk.FailShort} {
		k := 0
		for ; ; k++ {
			d := simdisk.New(rand.New(rand.NewPCG(uint64(k), 6)))
			o := func() Options { return Options{FS: d.FS(), Store: wal.StoreDirect, SegmentSize: 1 << 10} }
			d.At(k, event)
			l, err := Create("/a/b/state", o())
			hit := d.Ops() > k
			if l != nil {
				_ = l.Close() // the process ends
			}
			d.Crash()
			l, openErr := Open("/a/b/state", o())
			if openErr != nil && !errors.Is(openErr, ErrNoLedger) {
				t.Fatalf("event %d at operation %d: %v", event, k, openErr)
			}
			if err == nil && openErr != nil {
				t.Fatalf("event %d at operation %d: created, and then %v", event, k, openErr)
			}
			if openErr != nil {
				if l, err = Create("/a/b/state", o()); err != nil {
					t.Fatalf("event %d at operation %d: created again: %v", event, k, err)
				}
			}
			if _, err := l.Accept(t.Context(), journal.Key{Effect: "e", Item: "i"}, Input{}); err != nil {
				t.Fatal(err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if !hit {
				break
			}
		}
		if k < 20 {
			t.Errorf("event %d: a creation has only %d operations", event, k)
		}
	}
}

// TestViewChangesNothing: a view of a ledger that was killed repairs nothing, and
// sees what its owner would.
func TestViewChangesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	l, err := Create(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	key := journal.Key{Effect: "e", Item: "i"}
	if _, err := l.Accept(t.Context(), key, Input{}); err != nil {
		t.Fatal(err)
	}
	seen := func(dir string, want journal.State) {
		t.Helper()
		before := tree(t, dir)
		v, err := OpenView(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if e, err := v.Get(key); err != nil || v.State(&e) != want {
			t.Errorf("a view says %v, %v, want %v", v.State(&e), err, want)
		}
		verdict, err := Verify(dir, Options{})
		if err != nil || len(verdict.Problems) > 0 {
			t.Errorf("verify: %v, %v", verdict.Problems, err)
		}
		if after := tree(t, dir); !reflect.DeepEqual(after, before) {
			t.Errorf("a view has changed %v to %v", before, after)
		}
	}
	seen(dir, journal.Accepted) // its owner lives
	dead := filepath.Join(t.TempDir(), "dead")
	if err := os.CopyFS(dead, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(dead, "wal", "00000000000000000001"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("torn"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	seen(dead, journal.InDoubt)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// tree is the sizes and contents of a directory's files.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, sub := range []string{".", "wal", "snapshots"} {
		entries, err := os.ReadDir(filepath.Join(dir, sub))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.IsDir() {
				all[e.Name()] = "dir"
				continue
			}
			b, err := durable.ReadFile(durable.OS, filepath.Join(dir, sub, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			all[filepath.Join(sub, e.Name())] = string(b)
		}
	}
	return all
}
