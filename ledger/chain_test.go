package ledger

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"sync"
	"testing"

	"github.com/oncelog/oncelog/internal/durable"
	"github.com/oncelog/oncelog/internal/simdisk"
	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/snapshot"
	"github.com/oncelog/oncelog/wal"
)

// chainOf makes the infos of a base at LSN 1000 of a size and of deltas that end at the
// given LSNs, a byte for a record.
func chainOf(bytes int64, entries uint64, ends ...uint64) []snapshot.Info {
	chain := []snapshot.Info{{Header: snapshot.Header{LSN: 1000}, Bytes: bytes, Entries: entries}}
	from := uint64(1000)
	for _, end := range ends {
		chain = append(chain, snapshot.Info{Header: snapshot.Header{From: from, LSN: end}, Bytes: int64(end - from)})
		from = end
	}
	return chain
}

func TestFollows(t *testing.T) {
	for _, c := range []struct {
		name          string
		chain         []snapshot.Info
		lsn, logFirst uint64
		want          int
	}{
		{"no base", nil, 5, 1, 0},
		{"the first delta", chainOf(1000, 1000), 1010, 900, 1},
		{"a smaller one", chainOf(1000, 1000, 1010), 1015, 900, 2},
		{"one as large takes its place", chainOf(1000, 1000, 1010), 1020, 900, 1},
		{"like a counter", chainOf(1000, 1000, 1040, 1060, 1070), 1080, 900, 1},
		{"as far as it goes", chainOf(1000, 1000, 1040, 1050, 1055), 1060, 900, 2},
		{"deltas of half the base", chainOf(1000, 1000, 1400, 1500), 1501, 900, 3},
		{"deltas of more", chainOf(1000, 1000, 1400, 1501), 1502, 900, 0},
		{"small deltas of many records", chainOf(100_000, 10), 1041, 900, 0},
		{"the log begins too late", chainOf(1000, 1000), 1010, 1002, 0},
		{"the log begins in time", chainOf(1000, 1000), 1010, 1001, 1},
	} {
		if got := follows(c.chain, c.lsn, c.logFirst); got != c.want {
			t.Errorf("%s: follows %d files, want %d", c.name, got, c.want)
		}
	}
}

// entriesOf is every key's entry.
func entriesOf(t *testing.T, l interface {
	Get(journal.Key) (journal.Entry, error)
}, keys int) []journal.Entry {
	t.Helper()
	all := make([]journal.Entry, keys)
	for i := range all {
		e, err := l.Get(shelfKey(fmt.Sprint(i)))
		if err != nil {
			t.Fatal(err)
		}
		all[i] = e.Clone()
	}
	return all
}

// advance takes a key a step along.
func advance(l *Embedded, item int) error {
	k := shelfKey(fmt.Sprint(item))
	e, err := l.Get(k)
	if err != nil {
		return err
	}
	switch {
	case e.State == journal.Absent || e.State == journal.Released:
		_, err = l.Accept(context.Background(), k, Input{})
	case e.State == journal.Executed:
		err = l.Confirm(k, e.Attempt, true)
	case e.State == journal.Accepted && item%5 == 0:
		_, err = l.Release(k, e.Attempt, journal.NotApplied, "nobody listened")
	case e.State == journal.Accepted:
		_, err = l.Execute(k, e.Attempt, Outcome{Result: fmt.Append(nil, "result ", item), Settles: item%3 == 0, Cause: journal.Run})
	}
	return err
}

// grown is a ledger on a simulated disk with a base, several deltas, and a base and
// deltas behind those.
func grown(t *testing.T, store wal.StoreKind, keys int) (*simdisk.Disk, Options, *Embedded) {
	t.Helper()
	d := simdisk.New(rand.New(rand.NewPCG(5, 5)))
	o := Options{FS: d.FS(), Store: store, SegmentSize: 8 << 10, SnapshotEvery: -1, Create: true}
	l, err := Open("/state", o)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(6, 6))
	grow := func(steps int, take func() (SnapshotStat, error)) {
		for range steps {
			if err := advance(l, rng.IntN(keys)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := take(); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		grow(2*keys, l.Compact)
		for _, n := range []int{keys / 8, keys / 32, keys / 64, keys / 128} {
			grow(n, l.Snapshot)
		}
	}
	return d, o, l
}

// TestOneRottenSnapshotLosesNothing damages and removes each file of two chains.
func TestOneRottenSnapshotLosesNothing(t *testing.T) {
	const keys = 600
	_, o, l := grown(t, wal.StoreDirect, keys)
	want := entriesOf(t, l, keys)
	s, err := l.Stat()
	if err != nil || s.Snapshots.Deltas < 3 {
		t.Fatalf("%+v, %v", s.Snapshots, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join("/state", snapshotsName)
	files, err := snapshot.List(o.FS, dir)
	if err != nil || len(snapshot.Chains(files)) != 2 || len(files) < 8 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, f := range files {
		whole, err := durable.ReadFile(o.FS, f.Path)
		if err != nil {
			t.Fatal(err)
		}
		for what, damage := range map[string]func() error{
			"damaged": func() error {
				b := append([]byte(nil), whole...)
				b[len(b)/2] ^= 4
				return durable.WriteFile(o.FS, f.Path, b)
			},
			"removed": func() error { return durable.Remove(o.FS, f.Path) },
		} {
			if err := damage(); err != nil {
				t.Fatal(err)
			}
			v, err := OpenView("/state", o)
			if err != nil {
				t.Fatalf("%s %s: %v", f.Path, what, err)
			}
			if got := entriesOf(t, v, keys); !reflect.DeepEqual(got, want) {
				t.Errorf("%s %s: another state", f.Path, what)
			}
			if err := durable.WriteFile(o.FS, f.Path, whole); err != nil {
				t.Fatal(err)
			}
		}
	}
	// The next snapshot clears up, and what is damaged is kept for a person.
	if err := durable.WriteFile(o.FS, files[0].Path, []byte("rot")); err != nil {
		t.Fatal(err)
	}
	if l, err = Open("/state", o); err != nil || len(l.Report().Damaged) != 1 {
		t.Fatalf("%+v, %v", l, err)
	}
	if s, err := l.Snapshot(); err != nil || s.Deltas != 0 {
		t.Fatalf("behind a damaged snapshot: %+v, %v", s, err)
	}
	kept, err := o.FS.ReadDir(filepath.Join("/state", quarantineName))
	if err != nil || len(kept) != 1 {
		t.Errorf("in quarantine: %v, %v", kept, err)
	}
	if got := entriesOf(t, l, keys); !reflect.DeepEqual(got, want) {
		t.Error("another state")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestSnapshotCutAnywhere plans each event at each operation of a delta that takes the
// place of others, and of the base after it: the state is the same before and
// after.
func TestSnapshotCutAnywhere(t *testing.T) {
	const keys = 100
	cuts := 0
	for _, event := range []simdisk.Event{simdisk.Cut, simdisk.CutAfter, simdisk.FailLost, simdisk.FailShort, simdisk.FailFull, simdisk.FailPersisted} {
		for k := 0; ; k++ {
			d, o, l := grown(t, wal.StoreDirect, keys)
			for i := range 5 {
				if err := advance(l, i); err != nil {
					t.Fatal(err)
				}
			}
			want := entriesOf(t, l, keys)
			first := d.Ops()
			d.At(first+k, event)
			_, err := l.Snapshot()
			if err == nil {
				_, err = l.Compact()
			}
			hit := d.Ops() > first+k
			if err != nil && !hit {
				t.Fatal(err)
			}
			_ = l.Close() // the disk may be off
			d.Crash()
			o.FS = d.FS()
			if l, err = Open("/state", o); err != nil {
				t.Fatalf("event %d at operation %d: %v", event, k, err)
			}
			if got := entriesOf(t, l, keys); !reflect.DeepEqual(got, want) {
				t.Fatalf("event %d at operation %d: another state", event, k)
			}
			if _, err := l.Snapshot(); err != nil {
				t.Fatalf("event %d at operation %d: the next snapshot: %v", event, k, err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if !hit {
				break
			}
			cuts++
		}
	}
	if cuts < 60 {
		t.Errorf("only %d events", cuts)
	}
}

// TestSnapshotsWhileOthersWork: what was acknowledged before, during and after the
// snapshots of a busy ledger is there when it is opened from them.
func TestSnapshotsWhileOthersWork(t *testing.T) {
	const keys = 2000
	dir := filepath.Join(t.TempDir(), "state")
	o := Options{Create: true, Store: wal.StoreDirect, SegmentSize: 64 << 10, SnapshotEvery: -1}
	l, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	var workers sync.WaitGroup
	failed := make(chan error, 8)
	for w := range cap(failed) {
		workers.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 7))
			for range 1500 {
				item := rng.IntN(keys/cap(failed))*cap(failed) + w // no two work on one key
				if err := advance(l, item); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { workers.Wait(); close(done) }()
	taken, deltas := 0, 0
	for busy := true; busy; {
		select {
		case <-done:
			busy = false
		default:
		}
		s, err := l.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		taken, deltas = s.Taken, max(deltas, s.Deltas)
	}
	select {
	case err := <-failed:
		t.Fatal(err)
	default:
	}
	want := entriesOf(t, l, keys)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if taken < 5 || deltas < 2 {
		t.Errorf("%d snapshots, at most %d deltas at a time", taken, deltas)
	}
	// The log holds everything that is not in the snapshots, and its records are
	// applied once more on top of what they hold: both must fit.
	if l, err = Open(dir, o); err != nil {
		t.Fatal(err)
	}
	r := l.Report()
	if got := entriesOf(t, l, keys); !reflect.DeepEqual(got, want) || len(r.Chain) == 0 {
		t.Errorf("opened from %d snapshots and %d records it is another state", len(r.Chain), r.Records)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestDeltaNeedsItsLog: where the log cannot be read there is no delta, and nothing is
// dropped for it.
func TestDeltaNeedsItsLog(t *testing.T) {
	d, o, l := grown(t, wal.StoreDirect, 200)
	for i := range 40 {
		if err := advance(l, i); err != nil {
			t.Fatal(err)
		}
	}
	before, err := snapshot.List(o.FS, filepath.Join("/state", snapshotsName))
	if err != nil {
		t.Fatal(err)
	}
	segments, err := o.FS.ReadDir(filepath.Join("/state", walName))
	if err != nil {
		t.Fatal(err)
	}
	// Rot in all of them: records that only the memory has now.
	for _, s := range segments {
		f, err := o.FS.Open(filepath.Join("/state", walName, s.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte("rot"), 600); err != nil {
			t.Fatal(err)
		}
	}
	if s, err := l.Snapshot(); !errors.Is(err, ErrCorrupt) || s.Err == nil {
		t.Errorf("a delta from a damaged log: %+v, %v", s, err)
	}
	after, err := snapshot.List(o.FS, filepath.Join("/state", snapshotsName))
	if err != nil || !reflect.DeepEqual(before, after) {
		t.Errorf("%v, before %v: %v", after, before, err)
	}
	_ = d
}
