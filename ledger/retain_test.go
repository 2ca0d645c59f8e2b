package ledger

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelog/oncelog/internal/simdisk"
	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/wal"
)

// shelf is a ledger with retention on a simulated disk.
type shelf struct {
	t    *testing.T
	disk *simdisk.Disk
	o    Options
	l    *Embedded
}

func newShelf(t *testing.T, o Options) *shelf {
	t.Helper()
	s := &shelf{t: t, disk: simdisk.New(rand.New(rand.NewPCG(3, 3))), o: o}
	s.o.Store, s.o.SegmentSize, s.o.SnapshotEvery, s.o.Create = wal.StoreDirect, 4<<10, -1, true
	s.open()
	return s
}

func (s *shelf) open() {
	s.t.Helper()
	s.o.FS = s.disk.FS()
	var err error
	if s.l, err = Open("/state", s.o); err != nil {
		s.t.Fatal(err)
	}
}

func (s *shelf) close() {
	s.t.Helper()
	if err := s.l.Close(); err != nil {
		s.t.Fatal(err)
	}
	s.disk.Kill()
}

func (s *shelf) compact() {
	s.t.Helper()
	if _, err := s.l.Compact(); err != nil {
		s.t.Fatal(err)
	}
}

func shelfKey(item string) journal.Key { return journal.Key{Effect: "e", Item: item} }

// settle takes a key that is fresh to its end.
func (s *shelf) settle(item string) {
	s.t.Helper()
	d, err := s.l.Accept(s.t.Context(), shelfKey(item), Input{})
	if err != nil || !d.Granted {
		s.t.Fatalf("%s: %+v, %v", item, d, err)
	}
	if _, err := s.l.Execute(shelfKey(item), d.Entry.Attempt, Outcome{Result: []byte("result"), Settles: true, Cause: journal.Run}); err != nil {
		s.t.Fatal(err)
	}
}

// has says what is kept of a key: "all", "marker" or "nothing".
func (s *shelf) has(item, want string) {
	s.t.Helper()
	e, err := s.l.Get(shelfKey(item))
	if err != nil {
		s.t.Fatal(err)
	}
	got := "nothing"
	switch {
	case e.Known() && e.NoResult:
		got = "marker"
	case e.Known():
		got = "all"
	}
	if got != want {
		s.t.Errorf("%s is kept of %s, want %s: %+v", got, item, want, e)
	}
}

// TestRetentionCountsOpenTime: an age counts from the last record, while the ledger
// is open, over several owners.
func TestRetentionCountsOpenTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t, Options{Keep: Retention{Keys: 3 * time.Hour, Results: time.Hour}})
		if _, err := s.l.Accept(t.Context(), shelfKey("unsettled"), Input{}); err != nil {
			t.Fatal(err)
		}
		s.settle("old")
		time.Sleep(50 * time.Minute)
		s.compact()
		s.close()
		time.Sleep(1000 * time.Hour) // nobody has it open
		s.open()
		s.compact()
		s.has("old", "all")
		time.Sleep(30 * time.Minute)
		s.settle("young")
		s.compact()
		s.has("old", "marker")
		s.has("young", "all")
		time.Sleep(2 * time.Hour)
		s.compact()
		s.has("old", "nothing")
		s.has("young", "marker")
		s.close()
		s.open()
		s.has("old", "nothing")
		s.has("young", "marker")
		s.has("unsettled", "all")
		stat, err := s.l.Stat()
		if err != nil || stat.KeysFrom == 0 || stat.ResultsFrom <= stat.KeysFrom || stat.Open < 3*time.Hour || stat.Open > 4*time.Hour {
			t.Errorf("%+v, %v", stat, err)
		}
		s.settle("old") // fresh
		s.close()
	})
}

// TestRetentionByCount keeps the newest, and gives the memory of the others back.
func TestRetentionByCount(t *testing.T) {
	s := newShelf(t, Options{Keep: Retention{Count: 100}})
	for i := range 1000 {
		s.settle(fmt.Sprint(i))
	}
	before := s.l.book.Stat()
	s.compact()
	after := s.l.book.Stat()
	kept := 0
	for i := range 1000 {
		if e, err := s.l.Get(shelfKey(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		} else if e.Known() {
			kept++
		} else if i >= 900 {
			t.Errorf("%d, one of the newest, is gone", i)
		}
	}
	if kept < 100 || kept > 110 || after.Entries != kept || after.Live > before.Live/3 || after.Garbage > 0 {
		t.Errorf("%d keys are kept, the index holds %+v, before %+v", kept, after, before)
	}
	s.close()
}

// TestRetentionIsReplayed: with the newest snapshot rotten, the older one and the log
// let go of the same, and what came after fits.
func TestRetentionIsReplayed(t *testing.T) {
	s := newShelf(t, Options{Keep: Retention{Count: 5}})
	for round := range 3 {
		for i := range 40 {
			s.settle(fmt.Sprint(round, " ", i))
		}
		// A record of an old key, just before others like it are let go of.
		if _, err := s.l.Forget(shelfKey(fmt.Sprint(round, " 0")), "a test"); err != nil {
			t.Fatal(err)
		}
		s.compact()
	}
	s.has("0 3", "nothing")
	s.settle("0 3") // again, as a fresh key
	if _, err := s.l.Forget(shelfKey("2 39"), "a test"); err != nil {
		t.Fatal(err)
	}
	look := func() map[string]journal.Entry {
		all := map[string]journal.Entry{}
		for round := range 3 {
			for i := range 40 {
				e, err := s.l.Get(shelfKey(fmt.Sprint(round, " ", i)))
				if err != nil {
					t.Fatal(err)
				}
				all[fmt.Sprint(round, " ", i)] = e.Clone()
			}
		}
		return all
	}
	want := look()
	s.close()
	fsys := s.disk.FS()
	listed, err := fsys.ReadDir("/state/snapshots")
	if err != nil || len(listed) != 2 {
		t.Fatal(listed, err)
	}
	f, err := fsys.Open("/state/snapshots/" + listed[1].Name())
	if err == nil {
		_, err = f.WriteAt([]byte{0xff}, 100)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.disk.Kill()
	s.open()
	if r := s.l.Report(); len(r.Damaged) != 1 {
		t.Errorf("the report does not name the rotten snapshot: %+v", r)
	}
	for item, e := range look() {
		if w := want[item]; e.State != w.State || e.Attempt != w.Attempt || e.LSN != w.LSN || string(e.Result) != string(w.Result) {
			t.Errorf("%s is %+v, was %+v", item, e, w)
		}
	}
	s.close()
}

// TestRetentionKeepsConflicts: a double effect is never let go of silently.
func TestRetentionKeepsConflicts(t *testing.T) {
	s := newShelf(t, Options{Keep: Retention{Count: 1}})
	s.settle("conflict")
	if e, err := s.l.Release(shelfKey("conflict"), 1, journal.NotApplied, "it did not happen after all"); err != nil || !e.Conflict {
		t.Fatalf("%+v, %v", e, err)
	}
	for i := range 50 {
		s.settle(fmt.Sprint(i))
	}
	s.compact()
	s.has("conflict", "all")
	s.has("0", "nothing")
	s.close()
}

// TestMaxMemory: at the limit new keys are refused; known ones are answered, and
// outcomes recorded.
func TestMaxMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t, Options{MaxMemory: 200_000})
		if _, err := s.l.Accept(t.Context(), shelfKey("running"), Input{}); err != nil {
			t.Fatal(err)
		}
		n := 0
		for ; ; n++ {
			if n%100 == 0 {
				time.Sleep(2 * time.Second)
			}
			_, err := s.l.Accept(t.Context(), shelfKey(fmt.Sprint(n)), Input{})
			if errors.Is(err, ErrFull) {
				if !strings.Contains(err.Error(), "memory") {
					t.Errorf("%v", err)
				}
				break
			}
			if _, err2 := s.l.Execute(shelfKey(fmt.Sprint(n)), 1, Outcome{Result: make([]byte, 100), Settles: true, Cause: journal.Run}); err != nil || err2 != nil {
				t.Fatal(err, err2)
			}
		}
		if n < 500 || n > 3000 {
			t.Errorf("%d keys in 200,000 bytes", n)
		}
		if d, err := s.l.Accept(t.Context(), shelfKey("7"), Input{}); err != nil || d.State != journal.Confirmed {
			t.Errorf("a duplicate: %+v, %v", d, err)
		}
		if _, err := s.l.Execute(shelfKey("running"), 1, Outcome{Settles: true, Cause: journal.Run}); err != nil {
			t.Errorf("an outcome: %v", err)
		}
		s.close()
	})
}
