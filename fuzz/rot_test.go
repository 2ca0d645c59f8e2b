package fuzz

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/ledger"
	"github.com/oncelog/oncelog/wal"
)

const rotKeys = 60

func rotOptions(store wal.StoreKind) ledger.Options {
	return ledger.Options{Store: store, SegmentSize: 2 << 10, SnapshotEvery: -1}
}

// rotLedger makes a closed ledger with two snapshots and several segments behind
// each. salt goes into the results, so that two of them have the same LSNs and
// other bytes.
func rotLedger(t *testing.T, dir string, store wal.StoreKind, salt string) {
	t.Helper()
	l, err := ledger.Create(dir, rotOptions(store))
	if err != nil {
		t.Fatal(err)
	}
	fillRot(t, l, 0, rotKeys, salt)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// fillRot takes keys through different lives, with a base after each third and a delta
// behind it.
func fillRot(t *testing.T, l *ledger.Embedded, from, to int, salt string) {
	t.Helper()
	for i := from; i < to; i++ {
		if _, err := l.Accept(context.Background(), keyOf(i), ledger.Input{Fingerprint: uint64(i + 1), Data: []byte("input")}); err != nil {
			t.Fatal(err)
		}
		var err error
		switch i % 5 {
		case 0: // stays in flight
		case 1:
			_, err = l.Doubt(keyOf(i), 1, journal.Failed, "the answer was lost")
		case 2:
			_, err = l.Release(keyOf(i), 1, journal.NotApplied, "nobody listened")
		default:
			_, err = l.Execute(keyOf(i), 1, ledger.Outcome{Result: []byte(fmt.Sprintf("result %d %s", i, salt)), Settles: i%5 == 3, Cause: journal.Run})
		}
		if err != nil {
			t.Fatal(err)
		}
		if i%(rotKeys/3) == rotKeys/6 {
			if _, err := l.Compact(); err != nil {
				t.Fatal(err)
			}
		}
		if i%(rotKeys/3) == rotKeys/6+3 {
			if s, err := l.Snapshot(); err != nil || s.Deltas != 1 {
				t.Fatalf("%+v, %v", s, err)
			}
		}
	}
}

// stateOf is every key's entry.
func stateOf(l interface {
	Get(journal.Key) (journal.Entry, error)
}) (map[string]journal.Entry, error) {
	all := map[string]journal.Entry{}
	for i := range rotKeys + 5 {
		e, err := l.Get(keyOf(i))
		if err != nil {
			return nil, err
		}
		all[keyOf(i).String()] = e.Clone()
	}
	return all, nil
}

// rotCase is a closed ledger, and what it holds.
type rotCase struct {
	store wal.StoreKind
	dir   string
	want  map[string]journal.Entry
	files []string // relative
}

func newRotCase(t *testing.T, store wal.StoreKind) *rotCase {
	t.Helper()
	c := &rotCase{store: store, dir: filepath.Join(t.TempDir(), "state")}
	rotLedger(t, c.dir, store, "a")
	v, err := ledger.OpenView(c.dir, rotOptions(store))
	if err != nil {
		t.Fatal(err)
	}
	if c.want, err = stateOf(v); err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(c.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(c.dir, path) // below c.dir
			c.files = append(c.files, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *rotCase) in(dir string) []string {
	return slices.DeleteFunc(slices.Clone(c.files), func(f string) bool { return filepath.Dir(f) != dir })
}

// outcome opens a copy of the ledger that damage has been done to: it must be
// refused with a clear error, or hold exactly what it held, and a view of it must
// say the same. refused says which it was.
func (c *rotCase) outcome(t *testing.T, what string, damage func(dir string)) (refused bool) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.CopyFS(dir, os.DirFS(c.dir)); err != nil {
		t.Fatal(err)
	}
	damage(dir)
	clear := func(err error) bool {
		return errors.Is(err, ledger.ErrCorrupt) || errors.Is(err, ledger.ErrNoLedger) || strings.Contains(err.Error(), "corrupt")
	}
	v, viewErr := ledger.OpenView(dir, rotOptions(c.store))
	if viewErr != nil && !clear(viewErr) {
		t.Errorf("%s: a view fails with %v", what, viewErr)
	}
	l, err := ledger.Open(dir, rotOptions(c.store))
	if err != nil {
		if !clear(err) {
			t.Errorf("%s: open fails with %v", what, err)
		}
		if viewErr == nil {
			t.Errorf("%s: open fails with %v and a view does not", what, err)
		}
		return true
	}
	defer l.Close()
	if viewErr != nil {
		t.Errorf("%s: open goes well and a view fails with %v", what, viewErr)
		return false
	}
	got, err := stateOf(l)
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
	seen, err := stateOf(v)
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
	for key, want := range c.want {
		if !reflect.DeepEqual(got[key], want) || !reflect.DeepEqual(seen[key], want) {
			t.Errorf("%s: %s is\n%+v, a view says\n%+v, want\n%+v", what, key, got[key], seen[key], want)
			return false
		}
	}
	return false
}

func edit(t *testing.T, path string, f func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, f(b), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestRot damages a closed ledger in every way that a disk or a careless hand
// may: each outcome is a clear error or the exact state, never a smaller one.
func TestRot(t *testing.T) {
	for _, store := range []wal.StoreKind{wal.StoreTidwall, wal.StoreDirect} {
		t.Run(string(store), func(t *testing.T) {
			c := newRotCase(t, store)
			counts := map[string]int{}
			note := func(refused bool) {
				counts["tried"]++
				if refused {
					counts["refused"]++
				} else {
					counts["exact"]++
				}
			}
			if c.outcome(t, "no damage", func(string) {}) {
				t.Fatal("a sound ledger is refused")
			}
			for _, file := range c.files {
				c.everyWay(t, file, note)
			}
			c.pairs(t, note)
			did(t, counts, "refused", "exact")
		})
	}
}

// everyWay damages one file.
func (c *rotCase) everyWay(t *testing.T, file string, note func(bool)) {
	info, err := os.Stat(filepath.Join(c.dir, file))
	if err != nil {
		t.Fatal(err)
	}
	size := int(info.Size())
	stride := max(size/40, 1)
	if file == "reserve" {
		stride = size
	}
	if testing.Short() {
		stride = max(size/12, 1)
	}
	for at := 0; at < size; at += stride {
		note(c.outcome(t, fmt.Sprintf("bit %d of byte %d of %s flipped", at%8, at, file), func(dir string) {
			edit(t, filepath.Join(dir, file), func(b []byte) []byte { b[at] ^= 1 << (at % 8); return b })
		}))
	}
	for at := 0; at < size; at += 4 * stride {
		note(c.outcome(t, fmt.Sprintf("%s cut at byte %d", file, at), func(dir string) {
			edit(t, filepath.Join(dir, file), func(b []byte) []byte { return b[:at] })
		}))
		note(c.outcome(t, fmt.Sprintf("64 bytes from byte %d of %s zeroed", at, file), func(dir string) {
			edit(t, filepath.Join(dir, file), func(b []byte) []byte { clear(b[at:min(at+64, len(b))]); return b })
		}))
	}
	note(c.outcome(t, file+" removed", func(dir string) {
		if err := os.Remove(filepath.Join(dir, file)); err != nil {
			t.Fatal(err)
		}
	}))
	note(c.outcome(t, "100 zeros behind "+file, func(dir string) {
		edit(t, filepath.Join(dir, file), func(b []byte) []byte { return append(b, make([]byte, 100)...) })
	}))
}

// pairs damages two things at once, and mixes ledgers.
func (c *rotCase) pairs(t *testing.T, note func(bool)) {
	segments, snapshots := c.in("wal"), c.in("snapshots")
	if len(segments) < 3 || len(snapshots) != 4 {
		t.Fatalf("segments %v, snapshots %v: want 3 or more, and two bases with a delta each", segments, snapshots)
	}
	for _, pair := range [][2]string{{segments[0], segments[1]}, {segments[1], segments[2]}, {snapshots[0], snapshots[1]}, {snapshots[2], snapshots[3]}} {
		note(c.outcome(t, fmt.Sprintf("%v swapped", pair), func(dir string) {
			a, b := filepath.Join(dir, pair[0]), filepath.Join(dir, pair[1])
			var first []byte
			edit(t, a, func(x []byte) []byte { first = x; return readBytes(t, b) })
			edit(t, b, func([]byte) []byte { return first })
		}))
		note(c.outcome(t, fmt.Sprintf("%s copied over %s", pair[0], pair[1]), func(dir string) {
			edit(t, filepath.Join(dir, pair[1]), func([]byte) []byte { return readBytes(t, filepath.Join(dir, pair[0])) })
		}))
	}
	must := func(what string, damage func(dir string)) {
		t.Helper()
		if !c.outcome(t, what, damage) {
			t.Errorf("%s is not refused", what)
		}
		note(true)
	}
	must("all snapshots removed", func(dir string) { remove(t, dir, snapshots...) })
	must("all segments removed", func(dir string) { remove(t, dir, segments...) })
	must("wal/ removed", func(dir string) {
		if err := os.RemoveAll(filepath.Join(dir, "wal")); err != nil {
			t.Fatal(err)
		}
	})
	must("FORMAT removed", func(dir string) { remove(t, dir, "FORMAT") })
	// Without the watermark, what follows proves the damage.
	must("the watermark removed and a byte in the middle of the log flipped", func(dir string) {
		remove(t, dir, "durable")
		edit(t, filepath.Join(dir, segments[len(segments)/2]), func(b []byte) []byte { b[len(b)/4] ^= 1; return b })
	})
	must("the watermark removed and a byte before the last blocks flipped", func(dir string) {
		remove(t, dir, "durable")
		c.flipInTail(t, dir)
	})
	for _, s := range snapshots {
		if c.outcome(t, s+" removed", func(dir string) { remove(t, dir, s) }) {
			t.Errorf("%s is gone, one of four, and the ledger is refused", s)
		}
	}
	c.foreign(t, note)
}

// flipInTail flips a byte in the last segment that holds more than one block, in
// its first block.
func (c *rotCase) flipInTail(t *testing.T, dir string) {
	t.Helper()
	for _, file := range slices.Backward(c.in("wal")) {
		b := readBytes(t, filepath.Join(dir, file))
		first := strings.Index(string(b), "OLB\x01")
		if c.blocks(b) > 1 && filepath.Ext(file) != ".tmp" {
			edit(t, filepath.Join(dir, file), func(b []byte) []byte { b[first+50] ^= 1; return b })
			return
		}
	}
	t.Fatal("no segment with two blocks")
}

// blocks counts a segment's blocks of its present life.
func (c *rotCase) blocks(b []byte) int {
	if c.store == wal.StoreDirect {
		return strings.Count(string(b[512:]), string(b[16:24]))
	}
	return strings.Count(string(b), "OLB\x01")
}

// foreign puts files of another ledger, and of another history of this one, in
// the place of its own.
func (c *rotCase) foreign(t *testing.T, note func(bool)) {
	other := filepath.Join(t.TempDir(), "other")
	rotLedger(t, other, c.store, "a")
	for _, file := range c.in("wal") {
		if _, err := os.Stat(filepath.Join(other, file)); err != nil {
			continue
		}
		note(c.outcome(t, file+" of another ledger", func(dir string) {
			edit(t, filepath.Join(dir, file), func([]byte) []byte { return readBytes(t, filepath.Join(other, file)) })
		}))
	}
	// Two histories that part: the same LSNs, the same ledger id, other records.
	one, two := filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "two")
	if err := os.CopyFS(one, os.DirFS(c.dir)); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(two, os.DirFS(c.dir)); err != nil {
		t.Fatal(err)
	}
	for dir, salt := range map[string]string{one: "x", two: "y"} {
		l, err := ledger.Open(dir, rotOptions(c.store))
		if err != nil {
			t.Fatal(err)
		}
		fillRot(t, l, 10*rotKeys+rotKeys/2, 11*rotKeys+rotKeys/6, salt)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	mixed := 0
	files, err := os.ReadDir(filepath.Join(one, "wal"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		a, b := filepath.Join(one, "wal", f.Name()), filepath.Join(two, "wal", f.Name())
		if _, err := os.Stat(b); err != nil || string(readBytes(t, a)) == string(readBytes(t, b)) || c.blocks(readBytes(t, b)) == 0 {
			continue
		}
		dir := filepath.Join(t.TempDir(), "mixed")
		if err := os.CopyFS(dir, os.DirFS(one)); err != nil {
			t.Fatal(err)
		}
		edit(t, filepath.Join(dir, "wal", f.Name()), func([]byte) []byte { return readBytes(t, b) })
		if _, err := ledger.Open(dir, rotOptions(c.store)); !errors.Is(err, ledger.ErrCorrupt) {
			t.Errorf("segment %s of another history: open says %v", f.Name(), err)
		}
		mixed++
	}
	if mixed < 2 {
		t.Errorf("mixed %d segments of two histories, want 2 or more", mixed)
	}
}

func remove(t *testing.T, dir string, files ...string) {
	t.Helper()
	for _, file := range files {
		if err := os.Remove(filepath.Join(dir, file)); err != nil {
			t.Fatal(err)
		}
	}
}

func readBytes(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestRepair: a damaged ledger is opened by Repair without what is lost. Every key
// it then knows is as it was at some moment; every other one is in doubt, not
// fresh (G6).
func TestRepair(t *testing.T) {
	for _, store := range []wal.StoreKind{wal.StoreTidwall, wal.StoreDirect} {
		t.Run(string(store), func(t *testing.T) {
			c := newRotCase(t, store)
			counts := map[string]int{}
			for _, file := range append(c.in("wal"), c.in("snapshots")...) {
				b := readBytes(t, filepath.Join(c.dir, file))
				written := len(bytes.TrimRight(b, "\x00")) // a segment of the direct store has its full size from the start
				for _, at := range []int{len(b) / 3, len(b) / 2, len(b) - 30, written - 30} {
					if at > 0 {
						counts[c.repaired(t, file, at)]++
					}
				}
			}
			did(t, counts, "cut", "sound")
		})
	}
}

func (c *rotCase) repaired(t *testing.T, file string, at int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.CopyFS(dir, os.DirFS(c.dir)); err != nil {
		t.Fatal(err)
	}
	edit(t, filepath.Join(dir, file), func(b []byte) []byte { b[at] ^= 4; return b })
	before, err := ledger.Verify(dir, rotOptions(c.store))
	if err != nil {
		t.Fatal(err)
	}
	l, loss, err := ledger.Repair(dir, rotOptions(c.store), "a test")
	if err != nil {
		t.Fatalf("byte %d of %s: %v (before: %v)", at, file, err, before.Problems)
	}
	got, err := stateOf(l)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range c.want {
		e := got[key]
		switch {
		case reflect.DeepEqual(e, want), e.Known() && e.LSN < want.LSN:
		case !e.Known() && want.LSN > loss.LSN:
		default:
			t.Errorf("byte %d of %s: %s is %+v, was %+v; %+v", at, file, key, e, want, loss)
		}
	}
	d, err := l.Accept(context.Background(), journal.Key{Effect: "e", Item: "nobody knows"}, ledger.Input{})
	if err != nil || d.Granted || d.State != journal.InDoubt {
		t.Errorf("an unknown key after a repair: %+v, %v", d, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	after, err := ledger.Verify(dir, rotOptions(c.store))
	if err != nil || after.View == nil {
		t.Errorf("byte %d of %s: after the repair %v, %v", at, file, after.Problems, err)
	}
	if l, err = ledger.Open(dir, rotOptions(c.store)); err != nil {
		t.Fatalf("byte %d of %s: open after the repair: %v", at, file, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	switch {
	case loss.Restarted:
		return "restarted"
	case loss.LSN < c.last():
		return "cut"
	}
	return "sound"
}

// last is the LSN of the newest record that a key shows.
func (c *rotCase) last() (lsn uint64) {
	for _, e := range c.want {
		lsn = max(lsn, e.LSN)
	}
	return lsn
}
