package recovery

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/oncelog/oncelog/index"
	"github.com/oncelog/oncelog/internal/durable"
	"github.com/oncelog/oncelog/internal/simdisk"
	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/snapshot"
	"github.com/oncelog/oncelog/wal"
)

var testID = [16]byte{7}

func key(i int) journal.Key { return journal.Key{Effect: "e", Item: fmt.Sprint(i)} }

// place is the parts of a ledger on a simulated disk, with a log in it of one
// epoch record and two records for each key.
func place(t *testing.T, keys int) Options {
	t.Helper()
	fs := simdisk.New(rand.New(rand.NewPCG(3, 3))).FS()
	o := Options{FS: fs, Snapshots: "/snapshots", ID: testID, Seed: 9, Log: wal.Options{FS: fs, Dir: "/wal", Quarantine: "/quarantine",
		Watermark: "/durable", ID: testID, Store: wal.StoreDirect, SegmentSize: 1 << 10}}
	for _, dir := range []string{o.Snapshots, o.Log.Dir} {
		if err := durable.MkdirAll(fs, dir); err != nil {
			t.Fatal(err)
		}
	}
	epoch := journal.Record{Kind: journal.KindEpoch, Epoch: 1}
	log, err := wal.Create(o.Log, 0, epoch.AppendTo(nil))
	if err != nil {
		t.Fatal(err)
	}
	for i := range keys {
		put(t, log, journal.Record{Kind: journal.KindAccepted, Key: key(i), Attempt: 1, Epoch: 1})
		if i%3 > 0 {
			put(t, log, journal.Record{Kind: journal.KindExecuted, Key: key(i), Attempt: 1, Cause: journal.Run, Settles: i%3 == 1, Result: []byte("result")})
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	return o
}

func put(t *testing.T, log *wal.Log, r journal.Record) {
	t.Helper()
	ticket, err := log.Append(r.AppendTo(nil), 0)
	if err == nil {
		err = ticket.Wait()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// recovered opens, and is given back what the book then holds.
func recovered(t *testing.T, o Options, truncate uint64) (map[string]journal.Entry, *Report) {
	t.Helper()
	log, book, r, err := Run(o)
	if err != nil {
		t.Fatal(err)
	}
	if truncate > 0 {
		if err := log.Truncate(truncate); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	return holds(t, book), r
}

func holds(t *testing.T, book *index.Book) map[string]journal.Entry {
	t.Helper()
	all := map[string]journal.Entry{}
	for k, v := range book.All() {
		e, err := journal.DecodeEntry(v)
		if err != nil {
			t.Fatal(err)
		}
		all[string(k)] = e.Clone()
	}
	return all
}

// take takes a snapshot of what the log holds now.
func take(t *testing.T, o Options) snapshot.Info {
	t.Helper()
	log, book, _, err := Run(o)
	if err != nil {
		t.Fatal(err)
	}
	info, err := snapshot.Write(o.FS, o.Snapshots, snapshot.Header{ID: o.ID, LSN: log.Durable(), About: 5, Extra: EncodeLedgerwide(book.Ledgerwide())}, book.All(), nil)
	if err != nil {
		t.Fatal(err)
	}
	put(t, log, journal.Record{Kind: journal.KindAccepted, Key: key(int(log.Durable()) + 1000), Attempt: 1, Epoch: 1})
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	return info
}

// TestTheSameBookFromEveryStart: from the log alone, from the newest snapshot, from
// the one before when that is damaged, and again.
func TestTheSameBookFromEveryStart(t *testing.T) {
	o := place(t, 90)
	older := take(t, o)
	newer := take(t, o)
	want, r := recovered(t, o, 0)
	if r.Snapshot != newer.Path || r.Unsettled != 62 || r.InDoubt != 32 || len(want) != 92 {
		t.Fatalf("%+v of %d keys", r, len(want))
	}
	again, _ := recovered(t, o, 0)
	if !reflect.DeepEqual(again, want) {
		t.Error("the second recovery gives another book")
	}
	if book, _, err := Inspect(o); err != nil || !reflect.DeepEqual(holds(t, book), want) {
		t.Errorf("inspecting gives another book, %v", err)
	}
	damage(t, o, newer.Path)
	got, r := recovered(t, o, 0)
	if r.Snapshot != older.Path || len(r.Damaged) != 1 || !errors.Is(r.Damaged[0], snapshot.ErrCorrupt) || !reflect.DeepEqual(got, want) {
		t.Errorf("from the older snapshot: %+v", r)
	}
	damage(t, o, older.Path)
	got, r = recovered(t, o, 0)
	if r.Snapshot != "" || len(r.Damaged) != 2 || !reflect.DeepEqual(got, want) {
		t.Errorf("from the log alone: %+v", r)
	}
}

func damage(t *testing.T, o Options, path string) {
	t.Helper()
	b, err := durable.ReadFile(o.FS, path)
	if err == nil {
		b[len(b)/2] ^= 1
		err = durable.WriteFile(o.FS, path, b)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestNoSnapshotIsNotConcludedByMistake: a log that begins later needs a sound
// snapshot that reaches it, and a snapshot needs a log that reaches it.
func TestNoSnapshotIsNotConcludedByMistake(t *testing.T) {
	o := place(t, 90)
	info := take(t, o)
	want, _ := recovered(t, o, info.Header.LSN)
	if got, r := recovered(t, o, 0); !reflect.DeepEqual(got, want) || r.Log.First == 1 {
		t.Fatalf("a truncated log: %+v", r)
	}
	damage(t, o, info.Path)
	if _, _, r, err := Run(o); !errors.Is(err, wal.ErrCorrupt) || !errors.Is(err, snapshot.ErrCorrupt) {
		t.Errorf("the snapshot in front of a truncated log is damaged: %v, %+v", err, r)
	}
	if _, _, err := Inspect(o); !errors.Is(err, wal.ErrCorrupt) {
		t.Errorf("inspecting that: %v", err)
	}
	ahead := place(t, 3)
	book := index.NewBook(9)
	if _, err := snapshot.Write(ahead.FS, ahead.Snapshots, snapshot.Header{ID: testID, LSN: 1000, Extra: EncodeLedgerwide(book.Ledgerwide())}, book.All(), nil); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := Run(ahead); !errors.Is(err, wal.ErrCorrupt) {
		t.Errorf("a snapshot that is ahead of the log: %v", err)
	}
}

// TestRefusedTransition: a log that no ledger wrote is corrupt.
func TestRefusedTransition(t *testing.T) {
	o := place(t, 3)
	log, _, err := wal.Open(o.Log, nil)
	if err != nil {
		t.Fatal(err)
	}
	put(t, log, journal.Record{Kind: journal.KindExecuted, Key: key(77), Attempt: 1, Cause: journal.Run})
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := Run(o); !errors.Is(err, wal.ErrCorrupt) || !errors.Is(err, journal.ErrRefused) {
		t.Errorf("an outcome of a key that was never accepted: %v", err)
	}
}

func TestLedgerwide(t *testing.T) {
	for _, w := range []index.Ledgerwide{{}, {Epoch: 1 << 60, Open: 77}, {Open: 5, Keys: 6, Results: 7, Marks: []index.Mark{{LSN: 3, Open: 4}, {LSN: 9, Open: 9}}}, {Epoch: 3, Amnesia: true, Since: 300, Reason: "a backup"}} {
		b := EncodeLedgerwide(w)
		if got, err := DecodeLedgerwide(b); err != nil || !reflect.DeepEqual(got, w) {
			t.Errorf("%+v is read as %+v, %v", w, got, err)
		}
		for n := range min(len(b), 3) {
			if got, err := DecodeLedgerwide(b[:n]); err == nil {
				t.Errorf("%d bytes of %+v are read as %+v", n, w, got)
			}
		}
	}
}
