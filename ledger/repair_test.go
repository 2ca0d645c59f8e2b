package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oncelog/oncelog/internal/durable"
	"github.com/oncelog/oncelog/internal/simdisk"
	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/wal"
)

// damagedLedger is a ledger of two snapshots and 30 settled keys, one byte of
// which is wrong, in a log file: the oldest one, or the newest that has blocks.
func damagedLedger(t *testing.T, seed uint64, oldest bool) (*simdisk.Disk, Options) {
	t.Helper()
	d := simdisk.New(rand.New(rand.NewPCG(seed, 9)))
	o := Options{FS: d.FS(), Store: wal.StoreDirect, SegmentSize: 2 << 10, SnapshotEvery: -1}
	l, err := Create("/state", o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		key := journal.Key{Effect: "e", Item: fmt.Sprint(i)}
		if _, err := l.Accept(t.Context(), key, Input{}); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Execute(key, 1, Outcome{Cause: journal.Run, Settles: true, Result: []byte("done")}); err != nil {
			t.Fatal(err)
		}
		if i == 10 || i == 20 {
			if _, err := l.Compact(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	damage(t, o.FS, oldest)
	return d, o
}

func damage(t *testing.T, fsys durable.FS, oldest bool) {
	t.Helper()
	listed, err := fsys.ReadDir("/state/wal")
	if err != nil {
		t.Fatal(err)
	}
	segments := slices.DeleteFunc(slices.Clone(listed), func(e fs.DirEntry) bool { return !strings.HasSuffix(e.Name(), ".seg") })
	if !oldest {
		slices.Reverse(segments)
	}
	for _, e := range segments {
		path := filepath.Join("/state/wal", e.Name())
		b, err := durable.ReadFile(fsys, path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b[16:24], b[512:520]) { // the nonces of the header and of the first block
			continue // nothing in it yet
		}
		f, err := fsys.Open(path)
		if err == nil {
			_, err = f.WriteAt([]byte{^b[560]}, 560)
		}
		if err == nil {
			err = errors.Join(f.Sync(), f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatal("no block to damage")
}

// TestRepairIsAllOrNothing cuts a repair at every operation, or fails it there:
// what is left is refused, or knows that it has lost something; and repairing it
// again ends there.
func TestRepairIsAllOrNothing(t *testing.T) {
	fresh := journal.Key{Effect: "e", Item: "nobody knows"}
	events := []simdisk.Event{simdisk.CutAfter, simdisk.FailPersisted, simdisk.Cut, simdisk.FailLost, simdisk.FailShort}
	if testing.Short() {
		events = events[:1]
	}
	for _, oldest := range []bool{true, false} {
		for _, event := range events {
			k, refused := 0, 0
			for ; ; k++ {
				d, o := damagedLedger(t, uint64(k), oldest)
				if _, err := Open("/state", o); !errors.Is(err, ErrCorrupt) {
					t.Fatalf("a damaged ledger: %v", err)
				}
				at := d.Ops() + k
				d.At(at, event)
				l, loss, err := Repair("/state", o, "a test")
				hit := d.Ops() > at
				if l != nil {
					_ = l.Close() // the process ends
				}
				d.Crash()
				o.FS = d.FS()
				if l, openErr := Open("/state", o); openErr == nil {
					if w := l.book.Ledgerwide(); !w.Amnesia {
						t.Fatalf("event %d at operation %d: opened, and does not know of %+v; the repair: %v", event, k, loss, err)
					}
					_ = l.Close()
				} else if refused++; !errors.Is(openErr, ErrCorrupt) {
					t.Fatalf("event %d at operation %d: %v", event, k, openErr)
				} else if _, viewErr := OpenView("/state", o); !errors.Is(viewErr, ErrCorrupt) {
					t.Fatalf("event %d at operation %d: a view: %v", event, k, viewErr)
				} else if err == nil {
					t.Fatalf("event %d at operation %d: repaired, and then %v", event, k, openErr)
				}
				if l, _, err = Repair("/state", o, "a test"); err != nil {
					t.Fatalf("event %d at operation %d: repaired again: %v", event, k, err)
				}
				if d, err := l.Accept(t.Context(), fresh, Input{}); err != nil || d.State != journal.InDoubt {
					t.Fatalf("event %d at operation %d: an unknown key: %+v, %v", event, k, d, err)
				}
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				if !hit {
					break
				}
			}
			if k < 20 || refused < 10 {
				t.Errorf("event %d: a repair has only %d operations, %d of them leave what is refused", event, k, refused)
			}
		}
	}
}
