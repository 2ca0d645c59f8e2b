package fuzz

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/oncelog/oncelog/internal/simdisk"
	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/ledger"
)

// TestFullDisk: others fill the disk while attempts run. New markers are refused,
// every outcome is recorded (G4b), nothing has to be restarted, and once there is
// room markers are taken again.
func TestFullDisk(t *testing.T) {
	for _, store := range rigStores {
		t.Run(string(store), func(t *testing.T) {
			for seed := range uint64(20) {
				fullDisk(t, newRig(rand.New(rand.NewPCG(seed, 5)), store, simdisk.Capacity(100<<20)), 20+int(seed)*10)
			}
		})
	}
}

func fullDisk(t *testing.T, r *rig, attempts int) {
	t.Helper()
	defer r.end()
	if err := r.open(); err != nil {
		t.Fatal(err)
	}
	granted := 0
	for ; granted < attempts; granted++ {
		if err := r.accept(keyOf(granted), true); err != nil {
			t.Fatal(err)
		}
	}
	r.disk.SetCapacity(r.disk.Used())
	for refused := 0; refused < 3; {
		key := keyOf(granted)
		err := r.accept(key, true)
		switch {
		case err == nil:
			granted++ // there was room in what was allocated
		case errors.Is(err, ledger.ErrFull):
			refused++
		default:
			t.Fatalf("accept on a full disk: %v", err)
		}
		if granted > 10*attempts {
			t.Fatalf("%d markers on a full disk", granted)
		}
	}
	for i := range granted {
		if i%3 == 0 {
			if _, err := r.l.Doubt(keyOf(i), 1, journal.Failed, "the answer was lost"); err != nil {
				t.Fatalf("doubt of attempt %d of %d: %v", i, granted, err)
			}
		}
		if err := r.execute(keyOf(i), journal.Run, i%2 == 0); err != nil {
			t.Fatalf("outcome %d of %d: %v", i, granted, err)
		}
	}
	if err := r.check(); err != nil {
		t.Fatal(err)
	}
	r.disk.SetCapacity(100 << 20)
	if _, err := r.l.Accept(context.Background(), keyOf(1_000_000), ledger.Input{}); err != nil {
		t.Fatalf("accept once there is room: %v", err)
	}
	if err := r.l.Close(); err != nil {
		t.Fatal(err)
	}
	r.l = nil
	r.disk.Crash()
	if err := r.open(); err != nil {
		t.Fatal(err)
	}
	for i := range granted {
		if e, err := r.l.Get(keyOf(i)); err != nil || !e.State.Done() || len(e.Result) == 0 {
			t.Fatalf("outcome %d of %d after an open: %+v, %v", i, granted, e, err)
		}
	}
}
