package ledger_test

import (
	"path/filepath"
	"testing"

	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/ledger"
	"github.com/oncelog/oncelog/ledger/ledgertest"
	"github.com/oncelog/oncelog/wal"
)

// directory is a place of an embedded ledger.
type directory struct {
	dir   string
	store wal.StoreKind
}

func (d directory) Open(t *testing.T) ledger.Ledger {
	t.Helper()
	l, err := ledger.Open(d.dir, ledger.Options{Create: true, Store: d.store})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestEmbeddedKeepsTheContract(t *testing.T) {
	for _, store := range []wal.StoreKind{wal.StoreTidwall, wal.StoreDirect} {
		t.Run(string(store), func(t *testing.T) {
			ledgertest.Run(t, func(t *testing.T) ledgertest.Place {
				return directory{filepath.Join(t.TempDir(), "state"), store}
			})
		})
	}
}

func TestAmnesiaPutsUnknownKeysInDoubt(t *testing.T) {
	place := directory{filepath.Join(t.TempDir(), "state"), wal.StoreTidwall}
	l := place.Open(t).(*ledger.Embedded)
	known := journal.Key{Effect: "e", Item: "known"}
	if _, err := l.Accept(t.Context(), known, ledger.Input{}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Execute(known, 1, ledger.Outcome{Settles: true, Cause: journal.Run}); err != nil {
		t.Fatal(err)
	}
	if err := l.SetAmnesia(true, "ada: a backup of last week"); err != nil {
		t.Fatal(err)
	}
	unknown := journal.Key{Effect: "e", Item: "unknown"}
	for range 2 {
		if d, err := l.Accept(t.Context(), unknown, ledger.Input{}); err != nil || d.Granted || d.State != journal.InDoubt {
			t.Errorf("an unknown key: %+v, %v", d, err)
		}
		if d, err := l.Accept(t.Context(), known, ledger.Input{}); err != nil || d.State != journal.Confirmed {
			t.Errorf("a known key: %+v, %v", d, err)
		}
		// It survives a snapshot and an open.
		if _, err := l.Snapshot(); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l = place.Open(t).(*ledger.Embedded)
	}
	if err := l.SetAmnesia(false, "ada: all keys of that week are checked"); err != nil {
		t.Fatal(err)
	}
	fresh := journal.Key{Effect: "e", Item: "fresh"}
	if d, err := l.Accept(t.Context(), fresh, ledger.Input{}); err != nil || !d.Granted {
		t.Errorf("after the amnesia: %+v, %v", d, err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// TestAmnesiaReachesKnownKeys: the lost records of a key that is known may hold
// another attempt, so what permitted one before the loss does not permit it after.
func TestAmnesiaReachesKnownKeys(t *testing.T) {
	place := directory{filepath.Join(t.TempDir(), "state"), wal.StoreTidwall}
	l := place.Open(t).(*ledger.Embedded)
	released, forgotten := journal.Key{Effect: "e", Item: "released"}, journal.Key{Effect: "e", Item: "forgotten"}
	release := func(key journal.Key, attempt uint32) {
		t.Helper()
		if _, err := l.Release(key, attempt, journal.NotApplied, "nobody at home"); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []journal.Key{released, forgotten} {
		if _, err := l.Accept(t.Context(), key, ledger.Input{}); err != nil {
			t.Fatal(err)
		}
		release(key, 1)
	}
	if _, err := l.Forget(forgotten, "again, please"); err != nil {
		t.Fatal(err)
	}
	if err := l.SetAmnesia(true, "ada: a backup of last week"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Compact(); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = place.Open(t).(*ledger.Embedded)
	for key, attempt := range map[journal.Key]uint32{released: 1, forgotten: 2} {
		d, err := l.Accept(t.Context(), key, ledger.Input{})
		if err != nil || d.Granted || d.State != journal.InDoubt || d.Entry.Attempt != attempt {
			t.Errorf("%v: %+v, %v", key, d, err)
		}
		// What is decided after the loss counts.
		if _, err := l.Resolve(key, false, "ada: it did not happen"); err != nil {
			t.Fatal(err)
		}
		if d, err := l.Accept(t.Context(), key, ledger.Input{}); err != nil || !d.Granted {
			t.Errorf("%v after a person has decided: %+v, %v", key, d, err)
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
