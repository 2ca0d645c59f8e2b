package fuzz

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"syscall"
	"testing"

	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/ledger"
	"github.com/oncelog/oncelog/wal"
)

// pack puts the files of a directory into one string of bytes: for each, the length
// and bytes of its name, and the length and bytes of its content.
func pack(t testing.TB, dir string) []byte {
	t.Helper()
	var all []byte
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path) // below dir
		b, err := os.ReadFile(path)
		if name == "reserve" {
			b = nil // ballast
		}
		all = append(binary.AppendUvarint(all, uint64(len(name))), name...)
		all = append(binary.AppendUvarint(all, uint64(len(b))), b...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// unpack is the reverse; what does not parse ends it.
func unpack(t *testing.T, dir string, all []byte) {
	t.Helper()
	field := func() []byte {
		n, size := binary.Uvarint(all)
		if size <= 0 || n > uint64(len(all)-size) {
			all = nil
			return nil
		}
		b := all[size : size+int(n)]
		all = all[size+int(n):]
		return b
	}
	for len(all) > 0 {
		name, content := string(field()), field()
		if !filepath.IsLocal(name) {
			return
		}
		path := filepath.Join(dir, name)
		if os.MkdirAll(filepath.Dir(path), 0o700) != nil || os.WriteFile(path, content, 0o600) != nil {
			return // names that are no names, or a file for a directory
		}
	}
}

// FuzzDirectory opens directories that hold anything: the answer is a clear error
// that a second try repeats, or a ledger that works, and that is the same when it
// is opened again.
func FuzzDirectory(f *testing.F) {
	for _, store := range []wal.StoreKind{wal.StoreTidwall, wal.StoreDirect} {
		dir := filepath.Join(f.TempDir(), "state")
		l, err := ledger.Create(dir, ledger.Options{Store: store, SegmentSize: 1 << 10, SnapshotEvery: -1})
		if err != nil {
			f.Fatal(err)
		}
		for i := range 6 {
			if _, err := l.Accept(f.Context(), keyOf(i), ledger.Input{}); err != nil {
				f.Fatal(err)
			}
			if _, err := l.Execute(keyOf(i), 1, ledger.Outcome{Settles: i%2 == 0, Cause: journal.Run}); err != nil {
				f.Fatal(err)
			}
			if i == 3 {
				f.Add(pack(f, dir)) // no snapshot, and unpacked not even a place for one
				if _, err := l.Compact(); err != nil {
					f.Fatal(err)
				}
			}
		}
		if s, err := l.Snapshot(); err != nil || s.Deltas != 1 {
			f.Fatalf("%+v, %v", s, err)
		}
		f.Add(pack(f, dir)) // as a kill leaves it
		if err := l.Close(); err != nil {
			f.Fatal(err)
		}
		f.Add(pack(f, dir))
	}
	f.Fuzz(func(t *testing.T, all []byte) {
		dir := filepath.Join(t.TempDir(), "state")
		unpack(t, dir, all)
		o := ledger.Options{SegmentSize: 1 << 10, SnapshotEvery: -1}
		v, viewErr := ledger.OpenView(dir, o)
		l, err := ledger.Open(dir, o)
		// A file where a directory belongs, or a directory for a file: the system's
		// error says which. A view does not look at all that an opening needs.
		wrongKind := errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EISDIR)
		if (viewErr == nil) != (err == nil) && !wrongKind {
			t.Fatalf("a view says %v, an opening %v", viewErr, err)
		}
		if err != nil {
			if !errors.Is(err, ledger.ErrCorrupt) && !errors.Is(err, ledger.ErrNoLedger) && !wrongKind {
				t.Fatalf("no clear error: %v", err)
			}
			if _, again := ledger.Open(dir, o); again == nil {
				t.Fatalf("refused with %v, and then opened", err)
			}
			return
		}
		seen, err := stateOf(v)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := stateOf(l); err != nil || !reflect.DeepEqual(got, seen) {
			t.Fatalf("opened it is %v, a view of it was %v: %v", got, seen, err)
		}
		fresh := journal.Key{Effect: "fresh", Item: "fresh"}
		if _, err := l.Accept(t.Context(), fresh, ledger.Input{}); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Snapshot(); err != nil {
			t.Fatal(err)
		}
		want, err := l.Get(fresh)
		if err = errors.Join(err, l.Close()); err != nil {
			t.Fatal(err)
		}
		if l, err = ledger.Open(dir, o); err != nil {
			t.Fatalf("opened, closed, and then %v", err)
		}
		if got, err := stateOf(l); err != nil || !reflect.DeepEqual(got, seen) {
			t.Fatalf("opened again it is %v, was %v: %v", got, seen, err)
		}
		if e, err := l.Get(fresh); err != nil || !reflect.DeepEqual(e, want) {
			t.Fatalf("what was accepted is %+v, was %+v: %v", e, want, err)
		}
		if _, err := l.Compact(); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
