package ledger

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/oncelog/oncelog/internal/durable"
	"github.com/oncelog/oncelog/internal/simdisk"
	"github.com/oncelog/oncelog/wal"
)

// TestMigrate moves a ledger to the other store and back, with work between.
func TestMigrate(t *testing.T) {
	const keys = 300
	dir := filepath.Join(t.TempDir(), "state")
	o := Options{Create: true, SegmentSize: 16 << 10, SnapshotEvery: -1}
	l, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	for round, to := range []wal.StoreKind{wal.StoreDirect, wal.StoreTidwall, wal.StoreDirect} {
		for i := range 4 * keys {
			if err := advance(l, i*(round+3)%keys); err != nil {
				t.Fatal(err)
			}
			if i == keys || i == 2*keys {
				if _, err := l.Compact(); err != nil {
					t.Fatal(err)
				}
			}
		}
		want := entriesOf(t, l, keys)
		s, err := l.Stat()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Migrate(dir, to, o); !errors.Is(err, ErrLocked) {
			t.Fatalf("a ledger in use is migrated: %v", err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		m, err := Migrate(dir, to, o)
		if err != nil || m.Records != s.Log.Durable-s.Log.First+1 || m.From == to {
			t.Fatalf("%+v, %v: the log was %+v", m, err, s.Log)
		}
		if m, err = Migrate(dir, to, o); err != nil || m.Records != 0 {
			t.Fatalf("once more: %+v, %v", m, err)
		}
		if l, err = Open(dir, o); err != nil {
			t.Fatal(err)
		}
		if got := entriesOf(t, l, keys); !reflect.DeepEqual(got, want) {
			t.Errorf("to %s: another state", to)
		}
		backup := filepath.Join(t.TempDir(), "backup")
		if _, err := Backup(dir, backup, o); err != nil {
			t.Fatal(err)
		}
		again := filepath.Join(t.TempDir(), fmt.Sprint("again", round))
		if _, err := Restore(backup, again, o, "a test"); err != nil {
			t.Fatal(err)
		}
		if err := restored(t, again, o).Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Migrate(dir, "paper", o); err == nil {
		t.Error("a store that there is none of")
	}
}

// TestMigrateCutAnywhere plans each event at each operation of a move of the log: before
// and after it the state is the same, and the move can be repeated.
func TestMigrateCutAnywhere(t *testing.T) {
	const keys = 60
	cuts := 0
	moved := map[bool]int{}
	for _, event := range []simdisk.Event{simdisk.Cut, simdisk.CutAfter, simdisk.FailLost, simdisk.FailShort, simdisk.FailFull, simdisk.FailPersisted} {
		for k := 0; ; k++ {
			d, o, l := grown(t, wal.StoreDirect, keys)
			want := entriesOf(t, l, keys)
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			o.Create = false
			move := func() error {
				f, err := readFormat(o.FS, "/state")
				if err == nil {
					// To the same store, which does not matter to the move: the
					// other one calls the operating system itself.
					_, err = moveLog("/state", f, f.migrated(f.Store), o)
				}
				return err
			}
			at := d.Ops() + k
			d.At(at, event)
			err := move()
			hit := d.Ops() > at
			if err != nil && !hit {
				t.Fatal(err)
			}
			d.Crash()
			o.FS = d.FS()
			for again := range 2 {
				if l, err = Open("/state", o); err != nil {
					t.Fatalf("event %d at operation %d: %v", event, k, err)
				}
				if got := entriesOf(t, l, keys); !reflect.DeepEqual(got, want) {
					t.Fatalf("event %d at operation %d: another state", event, k)
				}
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				if again == 0 {
					moved[l.format.Log != ""]++
					if _, err := o.FS.Stat(filepath.Join("/state", l.format.migrated("").logName())); err == nil {
						t.Fatalf("event %d at operation %d: two logs", event, k)
					}
					if err := move(); err != nil {
						t.Fatalf("event %d at operation %d: once more: %v", event, k, err)
					}
				}
			}
			if !hit {
				break
			}
			cuts++
		}
	}
	if cuts < 60 || moved[false] < 30 || moved[true] < 10 {
		t.Errorf("%d events, %v moved", cuts, moved)
	}
}

// TestOldFormatPutBack: a FORMAT from before a migration names a log that is not there
// any more. That is an error, and costs nothing.
func TestOldFormatPutBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	l, err := Create(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	format := filepath.Join(dir, formatName)
	old, err := os.ReadFile(format)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Migrate(dir, wal.StoreDirect, Options{}); err != nil {
		t.Fatal(err)
	}
	right, err := os.ReadFile(format)
	if err != nil {
		t.Fatal(err)
	}
	for what, put := range map[string][]byte{"old": old, "none": nil} {
		if err := os.Remove(format); err != nil {
			t.Fatal(err)
		}
		if put != nil {
			if err := os.WriteFile(format, put, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Open(dir, Options{Create: true}); !errors.Is(err, ErrCorrupt) {
			t.Errorf("FORMAT: %s: %v", what, err)
		}
		if _, err := Migrate(dir, wal.StoreDirect, Options{}); !errors.Is(err, ErrCorrupt) {
			t.Errorf("FORMAT: %s: migrate: %v", what, err)
		}
		if err := durable.WriteFile(durable.OS, format, right); err != nil {
			t.Fatal(err)
		}
		if l, err = Open(dir, Options{}); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
