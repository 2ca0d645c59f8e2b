package fuzz

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/oncelog/oncelog/executor"
	"github.com/oncelog/oncelog/internal/durable"
	"github.com/oncelog/oncelog/internal/simdisk"
	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/ledger"
	"github.com/oncelog/oncelog/wal"
)

// ruin is a ledger of one segment, in a directory, that was closed and whose
// watermark is gone, so that only the log itself says what was acknowledged.
type ruin struct {
	t     *testing.T
	store wal.StoreKind
	dir   string
	log   string // its segment
	ends  []int  // where the blocks end
}

var ruinStores = []wal.StoreKind{wal.StoreTidwall, wal.StoreDirect}

// eachRuin makes a ruin on each store: ten items and the input size of the last.
func eachRuin(t *testing.T, last int, f func(r *ruin)) {
	t.Helper()
	for _, store := range ruinStores {
		r := &ruin{t: t, store: store, dir: filepath.Join(t.TempDir(), "state")}
		l, err := ledger.Create(r.dir, ledger.Options{Store: store, SegmentSize: 64 << 10, SnapshotEvery: -1})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 10 {
			in := ledger.Input{Fingerprint: 7, Data: []byte("x")}
			if i == 9 {
				in.Data = bytes.Repeat([]byte("y"), last)
			}
			if _, err := l.Accept(t.Context(), keyOf(i), in); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		remove(t, r.dir, "durable")
		r.log = filepath.Join(r.dir, "wal", "00000000000000000001")
		if store == wal.StoreDirect {
			r.log += ".seg"
		}
		b := readBytes(t, r.log)
		for at := 0; ; {
			next := bytes.Index(b[at:], []byte("OLB\x01"))
			if next < 0 {
				break
			}
			at += next + 40 + int(b[at+next+8]) + int(b[at+next+9])<<8
			r.ends = append(r.ends, at)
			if r.store == wal.StoreDirect && !bytes.Equal(b[at:at+8], b[16:24]) {
				break // of an earlier life, or nothing
			}
		}
		f(r)
	}
}

// start is where the last block's frame begins, in front of its header.
func (r *ruin) start() int { return r.ends[len(r.ends)-2] }

func (r *ruin) end() int { return r.ends[len(r.ends)-1] }

// copy is another ruin like this one, damaged.
func (r *ruin) copy(damage func(b []byte) []byte) (dir string) {
	r.t.Helper()
	dir = filepath.Join(r.t.TempDir(), "state")
	if err := os.CopyFS(dir, os.DirFS(r.dir)); err != nil {
		r.t.Fatal(err)
	}
	edit(r.t, filepath.Join(dir, "wal", filepath.Base(r.log)), damage)
	return dir
}

// holds opens a damaged ruin and wants the first n items; then it goes on: what is
// appended is there after two more openings.
func (r *ruin) holds(what string, dir string, n int) {
	r.t.Helper()
	for round := range 3 {
		l, err := ledger.Open(dir, ledger.Options{SegmentSize: 64 << 10, SnapshotEvery: -1})
		if err != nil {
			r.t.Errorf("%s, %s, opening %d: %v", r.store, what, round, err)
			return
		}
		for i := range 10 + round {
			e, err := l.Get(keyOf(i))
			if want := i < n || i >= 10; err != nil || e.Known() != want {
				r.t.Errorf("%s, %s, opening %d: item %d is %+v, %v; %d were whole", r.store, what, round, i, e, err, n)
			}
		}
		if _, err := l.Accept(context.Background(), keyOf(10+round), ledger.Input{}); err != nil {
			r.t.Error(err)
		}
		if err := l.Close(); err != nil {
			r.t.Error(err)
		}
	}
}

// refused wants ErrCorrupt, with the file's name.
func (r *ruin) refused(what string, dir string) {
	r.t.Helper()
	l, err := ledger.Open(dir, ledger.Options{})
	if !errors.Is(err, ledger.ErrCorrupt) || !strings.Contains(err.Error(), filepath.Base(r.log)) {
		r.t.Errorf("%s, %s: %v", r.store, what, err)
	}
	if l != nil {
		_ = l.Close()
	}
}

// Zeros behind the log are no records.
func TestCaseW01(t *testing.T) {
	eachRuin(t, 1, func(r *ruin) {
		for _, k := range []int{1, 2, 7, 8, 39, 40, 48, 511, 512, 4096, 5000} {
			dir := r.copy(func(b []byte) []byte { return append(b, make([]byte, k)...) })
			r.holds(fmt.Sprint(k, " zeros"), dir, 10)
		}
	})
}

// Every bit of the log, flipped: an error, or exactly what was there.
func TestCaseW02(t *testing.T) {
	eachRuin(t, 1, func(r *ruin) {
		whole := readBytes(t, r.log)
		v, err := ledger.OpenView(r.dir, ledger.Options{})
		if err != nil {
			t.Fatal(err)
		}
		want, err := stateOf(v)
		if err != nil {
			t.Fatal(err)
		}
		exact, refused, torn := 0, 0, 0
		stride := 3
		if testing.Short() {
			stride = 61
		}
		for bit := 0; bit < r.end()*8; bit += stride {
			b := bytes.Clone(whole)
			b[bit/8] ^= 1 << (bit % 8)
			if err := os.WriteFile(r.log, b, 0o600); err != nil {
				t.Fatal(err)
			}
			v, err := ledger.OpenView(r.dir, ledger.Options{})
			if err != nil {
				refused++
				if !errors.Is(err, ledger.ErrCorrupt) {
					t.Fatalf("bit %d: %v", bit, err)
				}
				continue
			}
			got, err := stateOf(v)
			switch {
			case err != nil:
				t.Fatal(err)
			case reflect.DeepEqual(got, want):
				exact++
			case bit/8 >= r.start():
				// The last block, without a watermark: it may never have been whole.
				torn++
				if e := got[keyOf(9).String()]; e.Known() {
					t.Errorf("bit %d: altered data: %+v", bit, e)
				}
			default:
				t.Fatalf("bit %d: altered data", bit)
			}
		}
		if refused == 0 || torn == 0 {
			t.Errorf("%d exact, %d refused, %d torn", exact, refused, torn)
		}
		if err := os.WriteFile(r.log, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	})
}

// The log, cut at every byte of its last block: what is before it is whole, and
// what is appended then can be read.
func TestCaseW03(t *testing.T) {
	eachRuin(t, 1, func(r *ruin) {
		stride := 1
		if testing.Short() {
			stride = 11
		}
		for cut := r.start() + 1; cut < r.end(); cut += stride {
			r.holds(fmt.Sprint("cut at ", cut), r.copy(func(b []byte) []byte { return b[:cut] }), 9)
		}
	})
}

// Readers, a writer and compactions at once.
func TestCaseW04(t *testing.T) {
	for _, store := range ruinStores {
		l, err := ledger.Create(filepath.Join(t.TempDir(), "state"), ledger.Options{Store: store, SegmentSize: 4 << 10, SnapshotEvery: -1})
		if err != nil {
			t.Fatal(err)
		}
		together(10, func(i int) {
			for n := range 60 {
				switch i {
				case 0:
					if _, err := l.Accept(t.Context(), keyOf(n), ledger.Input{Data: make([]byte, 300)}); err != nil {
						t.Error(err)
					}
				case 1:
					if _, err := l.Compact(); err != nil {
						t.Error(err)
					}
				default:
					for _, err := range l.Records(0) {
						if err != nil && !errors.Is(err, fs.ErrNotExist) && !strings.Contains(err.Error(), "no longer") {
							t.Error(err)
						}
					}
				}
			}
		})
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A log whose last entry is settled and that is compacted holds nothing pending.
func TestCaseW05(t *testing.T) {
	s := newShop(t, nil)
	s.does("a", "x", "sent x", nil)
	s.compact()
	s.compact()
	s.restarted()
	if n := s.l.UnsettledCount(); n != 0 {
		t.Errorf("%d keys in the journal", n)
	}
	s.does("a", "x", "sent x", nil)
	s.happened("a", 1)
}

// cutDuringCompaction cuts the power at every operation of a compaction that drops
// segments, on a disk where only a directory's sync makes a name durable.
func cutDuringCompaction(t *testing.T) {
	t.Helper()
	for k := 0; ; k++ {
		s := newShop(t, func(s *shop) { s.disk = simdisk.New(rand.New(rand.NewPCG(uint64(k), 3))) })
		for round := range 2 {
			s.polls(ids(100), 1)
			s.compact()
			for i := range 100 { // more log
				if _, err := s.l.Accept(t.Context(), keyOf(100*round+i), ledger.Input{Data: make([]byte, 100)}); err != nil {
					t.Fatal(err)
				}
			}
		}
		before, err := s.l.Stat()
		if err != nil {
			t.Fatal(err)
		}
		at := s.disk.Ops() + k
		s.disk.At(at, simdisk.Cut)
		_, err = s.l.Compact()
		if hit := s.disk.Ops() > at; !hit {
			if stat, statErr := s.l.Stat(); err != nil || statErr != nil || stat.Log.First <= before.Log.First || k < 5 {
				t.Errorf("a compaction of %d operations dropped nothing: %+v, was %+v, %v, %v", k, stat.Log, before.Log, err, statErr)
			}
			return
		}
		s.disk.Crash()
		s.end()
		s.open()
		if r := s.polls(ids(100), 1); r.Replayed != 100 {
			t.Fatalf("cut at operation %d: %+v", k, r)
		}
		s.end()
	}
}

// A crash at every step of a truncation: it opens again, with everything.
func TestCaseW06(t *testing.T) { cutDuringCompaction(t) }

// Lengths and counts that are not true are not believed.
func TestCaseW08(t *testing.T) {
	eachRuin(t, 1, func(r *ruin) {
		header := bytes.LastIndex(readBytes(t, r.log)[:r.end()], []byte("OLB\x01"))
		for _, field := range []int{8, 12, 16} {
			for _, v := range []byte{0xff, 0x7f, 0} {
				dir := r.copy(func(b []byte) []byte {
					for i := range 4 {
						b[header+field+i] = v
					}
					return b
				})
				r.holds(fmt.Sprintf("field %d is %x", field, v), dir, 9)
			}
		}
	})
}

// What is appended behind a torn tail that was cut is found.
func TestCaseW09(t *testing.T) {
	eachRuin(t, 3000, func(r *ruin) {
		r.holds("half of the last block", r.copy(func(b []byte) []byte { return b[:(r.start()+r.end())/2] }), 9)
	})
}

// A sync in the background that fails is everybody's failure.
func TestCaseW10(t *testing.T) {
	s := newShop(t, nil)
	if _, err := s.l.Accept(t.Context(), sendKey("a"), ledger.Input{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.l.Execute(sendKey("a"), 1, ledger.Outcome{Cause: journal.Run}); err != nil {
		t.Fatal(err)
	}
	s.disk.At(s.disk.Ops()+1, simdisk.FailLost) // the sync
	if err := s.l.Confirm(sendKey("a"), 1, false); err != nil {
		t.Fatal(err)
	}
	for s.l.Err() == nil {
		_, _ = s.l.Accept(t.Context(), sendKey("b"), ledger.Input{}) // fails or not: see below
	}
	together(20, func(i int) {
		if _, err := s.l.Accept(t.Context(), keyOf(i), ledger.Input{}); !errors.Is(err, ledger.ErrFailed) {
			t.Errorf("%v", err)
		}
	})
}

// sectors zeroes each sector of the last block in turn, as a write that was torn
// there leaves a file that was allocated before.
func sectors(r *ruin, size int) {
	for at := (r.start()/size + 1) * size; at < r.end(); at += size {
		dir := r.copy(func(b []byte) []byte { clear(b[at:min(at+size, len(b))]); return b })
		r.holds(fmt.Sprintf("%d zeros at %d", size, at), dir, 9)
	}
}

// Writes torn at the boundaries of sectors and pages.
func TestCaseW11(t *testing.T) {
	eachRuin(t, 10_000, func(r *ruin) {
		for _, size := range []int{512, 4096} {
			for at := (r.start()/size + 1) * size; at < r.end(); at += size {
				dir := r.copy(func(b []byte) []byte { clear(b[at:]); return b })
				r.holds(fmt.Sprintf("torn at %d", at), dir, 9)
			}
		}
	})
}

// Zeros inside the last record are a torn write; inside an earlier one, corruption.
func TestCaseW12(t *testing.T) {
	eachRuin(t, 3_000, func(r *ruin) {
		sectors(r, 512)
		r.refused("zeros in the middle", r.copy(func(b []byte) []byte { clear(b[r.ends[3]+5 : r.ends[3]+25]); return b }))
	})
}

// An error of corruption names file, offset and LSN, and what to do; and there is
// a repair, which says what is lost.
func TestCaseW13(t *testing.T) {
	eachRuin(t, 1, func(r *ruin) {
		dir := r.copy(func(b []byte) []byte { b[r.ends[3]+60] ^= 1; return b })
		_, err := ledger.Open(dir, ledger.Options{})
		var corrupt *wal.CorruptError
		if !errors.As(err, &corrupt) || corrupt.Offset == 0 || corrupt.LSN == 0 || !strings.Contains(err.Error(), "oncelog verify") {
			t.Errorf("%s: %v", r.store, err)
		}
		l, loss, err := ledger.Repair(dir, ledger.Options{}, "a test")
		if err != nil || loss.LSN == 0 {
			t.Fatalf("%s: %+v, %v", r.store, loss, err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Writes that reach the disk in another order: what comes back is a beginning of
// what was written, and holds all that was acknowledged.
func TestCaseW14(t *testing.T) {
	for seed := range 60 {
		r := newRig(rand.New(rand.NewPCG(uint64(seed), 8)), wal.StoreDirect)
		hit, err := r.runWithEvent(40+4*seed, simdisk.Cut)
		r.end()
		if err != nil || !hit {
			t.Errorf("seed %d: hit: %v, %v", seed, hit, err)
		}
	}
}

// full is a shop on a disk that is full for markers.
func full(t *testing.T) *shop {
	s := newShop(t, func(s *shop) { s.disk = simdisk.New(rand.New(rand.NewPCG(1, 2)), simdisk.Capacity(1<<20)) })
	if _, err := s.l.Accept(t.Context(), sendKey("running"), ledger.Input{}); err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		if i > 100_000 {
			t.Fatal("the disk does not become full")
		}
		_, err := s.l.Accept(t.Context(), keyOf(i), ledger.Input{Data: make([]byte, 1000)})
		if errors.Is(err, ledger.ErrFull) {
			return s
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A full disk refuses markers; outcomes still fit, it can be read, and opened.
func TestCaseW15(t *testing.T) {
	s := full(t)
	if e, err := s.l.Execute(sendKey("running"), 1, ledger.Outcome{Result: []byte("r"), Settles: true, Cause: journal.Run}); err != nil || e.State != journal.Confirmed {
		t.Errorf("%+v, %v", e, err)
	}
	if _, err := ledger.OpenView("/state", s.options()); err != nil {
		t.Errorf("a view: %v", err)
	}
	s.killed()
	s.is("running", journal.Confirmed)
}

// Killed while it is created: it can be created.
func TestCaseW17(t *testing.T) {
	for k := range 60 {
		d := simdisk.New(rand.New(rand.NewPCG(uint64(k), 9)))
		d.At(k, simdisk.CutAfter)
		o := ledger.Options{Create: true, FS: d.FS(), Store: wal.StoreDirect, SegmentSize: 2 << 10}
		if l, err := ledger.Open("/deep/state", o); err == nil {
			_ = l.Close() // the power may be off by then
		}
		d.Crash()
		o.FS = d.FS()
		l, err := ledger.Open("/deep/state", o)
		if err != nil {
			t.Fatalf("cut after operation %d: %v", k, err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// acknowledged cuts the power right after each of many acknowledgements.
func acknowledged(t *testing.T) {
	t.Helper()
	s := newShop(t, func(s *shop) { s.disk = simdisk.New(rand.New(rand.NewPCG(4, 4))) })
	for i := range 120 {
		if _, err := s.l.Accept(t.Context(), keyOf(i), ledger.Input{Data: make([]byte, 200)}); err != nil {
			t.Fatal(err)
		}
		s.disk.Crash()
		s.end()
		s.open()
		for j := range i + 1 {
			if e, err := s.l.Get(keyOf(j)); err != nil || !e.Known() {
				t.Fatalf("item %d was acknowledged, and is lost after %d: %v", j, i, err)
			}
		}
	}
	if n := s.l.Report().Log.Segments; n < 3 {
		t.Errorf("%d segments: no rotation was tried", n)
	}
}

// Nothing is acknowledged before it is synced.
func TestCaseW18(t *testing.T) { acknowledged(t) }

// Opened a hundred times: the same state.
func TestCaseW19(t *testing.T) {
	s := newShop(t, nil)
	s.polls(ids(20), 4)
	if _, err := s.l.Accept(t.Context(), sendKey("doubt"), ledger.Input{}); err != nil {
		t.Fatal(err)
	}
	s.killed()
	want, _ := s.entry("doubt")
	done, _ := s.entry("item-3")
	for i := range 100 {
		if i%2 == 0 {
			s.killed()
		} else {
			s.restarted()
		}
		e, state := s.entry("doubt")
		again, _ := s.entry("item-3")
		if state != journal.InDoubt || !reflect.DeepEqual(e, want) || !reflect.DeepEqual(again, done) {
			t.Fatalf("opening %d: %+v (%v), was %+v; %+v, was %+v", i, e, state, want, again, done)
		}
	}
}

// damaged is a closed ledger with snapshots and segments to damage.
func damaged(t *testing.T, f func(c *rotCase)) {
	t.Helper()
	for _, store := range ruinStores {
		f(newRotCase(t, store))
	}
}

// A snapshot that knows more than the log, whose end is lost, is not believed.
func TestCaseW21(t *testing.T) {
	damaged(t, func(c *rotCase) {
		c.mustRefuse(t, "the end of the log is lost", func(dir string) {
			remove(t, dir, c.in("wal")[len(c.in("wal"))/4:]...)
			remove(t, dir, "durable")
		})
	})
}

func (c *rotCase) mustRefuse(t *testing.T, what string, damage func(dir string)) {
	t.Helper()
	if !c.outcome(t, what, damage) {
		t.Errorf("%s: %s is not refused", c.store, what)
	}
}

// What was acknowledged is dropped by nothing but a repair that accepts it.
func TestCaseW22(t *testing.T) {
	eachRuin(t, 1, func(r *ruin) {
		dir := r.copy(func(b []byte) []byte { b[r.ends[5]+60] ^= 1; return b })
		before := readBytes(t, filepath.Join(dir, "wal", filepath.Base(r.log)))
		for range 2 {
			r.refused("a flipped bit", dir)
		}
		if !bytes.Equal(before, readBytes(t, filepath.Join(dir, "wal", filepath.Base(r.log)))) {
			t.Error("a refused open has changed the log")
		}
		l, _, err := ledger.Repair(dir, ledger.Options{}, "accepted")
		if err != nil {
			t.Fatal(err)
		}
		d, err := l.Accept(t.Context(), keyOf(9), ledger.Input{})
		if err != nil || d.State != journal.InDoubt {
			t.Errorf("a key that may be lost: %+v, %v", d, err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A segment in the middle is missing.
func TestCaseW24(t *testing.T) {
	damaged(t, func(c *rotCase) {
		c.mustRefuse(t, "a segment in the middle removed", func(dir string) { remove(t, dir, c.in("wal")[1]) })
	})
}

// A file that is longer than its data.
func TestCaseW25(t *testing.T) {
	eachRuin(t, 1, func(r *ruin) {
		r.holds("a megabyte longer", r.copy(func(b []byte) []byte { return append(b, make([]byte, 1<<20)...) }), 10)
	})
}

// A bad record with a good one behind it is corruption, not the end.
func TestCaseW26(t *testing.T) {
	eachRuin(t, 1, func(r *ruin) {
		for n := range len(r.ends) - 1 {
			r.refused(fmt.Sprint("block ", n+1), r.copy(func(b []byte) []byte { b[r.ends[n+1]-1] ^= 0x80; return append(b, 0) }))
			if n == len(r.ends)-3 {
				break // the last block has nothing behind it
			}
		}
	})
}

// Decoding after an error starts clean.
func TestCaseW27(t *testing.T) {
	good := (&journal.Record{Kind: journal.KindAccepted, Key: sendKey("a"), Attempt: 1, Epoch: 1, Fingerprint: 7}).AppendTo(nil)
	want, err := journal.DecodeRecord(good)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range good {
		if _, err := journal.DecodeRecord(good[:cut]); err == nil {
			t.Errorf("%d bytes of a record are taken", cut)
		}
		if got, err := journal.DecodeRecord(good); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("after an error: %+v, %v", got, err)
		}
	}
}

// One failed sync ends the log; opened again it works.
func TestCaseW29(t *testing.T) {
	for _, event := range []simdisk.Event{simdisk.FailLost, simdisk.FailPersisted} {
		s := newShop(t, nil)
		s.does("before", "x", "sent x", nil)
		s.disk.At(s.disk.Ops()+1, event)
		for i := range 3 {
			if _, err := s.h.Do(t.Context(), fmt.Sprint(i), "x"); !errors.Is(err, ledger.ErrFailed) {
				t.Errorf("call %d: %v", i, err)
			}
			s.happened(fmt.Sprint(i), 0)
		}
		s.does("before", "x", "sent x", nil) // answered from memory
		s.disk.Crash()
		s.end()
		s.open()
		s.does("after", "x", "sent x", nil)
		s.does("before", "x", "sent x", nil)
	}
}

// Many callers and a sync that fails: who hears success has it.
func TestCaseW30(t *testing.T) {
	for k := range 30 {
		s := newShop(t, func(s *shop) { s.disk = simdisk.New(rand.New(rand.NewPCG(uint64(k), 5))) })
		event := simdisk.FailLost
		if k%2 == 0 {
			event = simdisk.FailPersisted
		}
		s.disk.At(s.disk.Ops()+k, event)
		told := make([]bool, 40)
		together(len(told), func(i int) {
			d, err := s.l.Accept(context.Background(), keyOf(i), ledger.Input{})
			told[i] = err == nil && d.Granted
		})
		s.disk.Crash()
		s.end()
		s.open()
		for i, was := range told {
			if e, err := s.l.Get(keyOf(i)); err != nil || was && !e.Known() {
				t.Errorf("event at operation %d: item %d was granted and is lost: %v", k, i, err)
			}
		}
		s.end()
	}
}

// A directory whose sync fails is a clear error with its name.
func TestCaseW32(t *testing.T) {
	s := newShop(t, nil)
	s.end()
	s.fs = noDirSync{s.disk.FS()}
	s.disk.Kill()
	s.fs = noDirSync{s.disk.FS()}
	_, err := ledger.Open("/state", s.options())
	if err == nil || !strings.Contains(err.Error(), "/state") || !strings.Contains(err.Error(), "invalid argument") {
		t.Errorf("%v", err)
	}
}

type noDirSync struct{ durable.FS }

func (noDirSync) SyncDir(path string) error {
	return &fs.PathError{Op: "fsync", Path: path, Err: errors.New("invalid argument")}
}

// A full disk is told with the place, and how much is free.
func TestCaseW33(t *testing.T) {
	s := full(t)
	_, err := s.l.Accept(t.Context(), sendKey("one more"), ledger.Input{})
	if !errors.Is(err, ledger.ErrFull) || !strings.Contains(err.Error(), "/state") || !strings.Contains(err.Error(), "bytes are free") {
		t.Errorf("%v", err)
	}
}

// A repair yields whole records only.
func TestCaseW34(t *testing.T) {
	eachRuin(t, 1, func(r *ruin) {
		for n := 2; n < 8; n++ {
			dir := r.copy(func(b []byte) []byte { b[r.ends[n]-3] ^= 1; return b })
			l, _, err := ledger.Repair(dir, ledger.Options{}, "a test")
			if err != nil {
				t.Fatal(err)
			}
			for i := range 10 {
				e, err := l.Get(keyOf(i))
				if err != nil || e.Known() && (string(e.Input) != "x" || e.Fingerprint != 7) {
					t.Errorf("item %d: %+v, %v", i, e, err)
				}
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// After a full disk, an opening deletes nothing.
func TestCaseW35(t *testing.T) {
	s := full(t)
	known := 0
	for i := range 2000 {
		if e, err := s.l.Get(keyOf(i)); err == nil && e.Known() {
			known++
		}
	}
	for range 3 {
		s.killed()
	}
	for i := range known {
		if e, err := s.l.Get(keyOf(i)); err != nil || !e.Known() {
			t.Fatalf("item %d of %d is lost: %v", i, known, err)
		}
	}
	if known < 100 {
		t.Errorf("only %d items", known)
	}
}

// A compaction that fails is reported, the log goes on, and the next one works.
func TestCaseW37(t *testing.T) {
	s := newShop(t, nil)
	s.polls(ids(20), 4)
	s.disk.At(s.disk.Ops()+2, simdisk.FailFull)
	if _, err := s.l.Compact(); err == nil {
		t.Error("the compaction did not fail")
	}
	if stat, err := s.l.Stat(); err != nil || stat.Snapshots.Err == nil {
		t.Errorf("%+v, %v", stat.Snapshots, err)
	}
	s.does("a", "x", "sent x", nil)
	s.compact()
	if stat, err := s.l.Stat(); err != nil || stat.Snapshots.Err != nil {
		t.Errorf("%+v, %v", stat.Snapshots, err)
	}
}

// A segment that somebody deleted is named, with what to do.
func TestCaseW38(t *testing.T) {
	damaged(t, func(c *rotCase) {
		dir := filepath.Join(t.TempDir(), "state")
		if err := os.CopyFS(dir, os.DirFS(c.dir)); err != nil {
			t.Fatal(err)
		}
		gone := c.in("wal")[1]
		remove(t, dir, gone)
		_, err := ledger.Open(dir, rotOptions(c.store))
		if !errors.Is(err, ledger.ErrCorrupt) || !strings.Contains(err.Error(), "missing") || !strings.Contains(err.Error(), "oncelog verify") {
			t.Errorf("%s without %s: %v", c.store, gone, err)
		}
	})
}

// Closing while others append, rotate and compact.
func TestCaseW39(t *testing.T) {
	for _, store := range ruinStores {
		for range 5 {
			dir := filepath.Join(t.TempDir(), "state")
			l, err := ledger.Create(dir, ledger.Options{Store: store, SegmentSize: 4 << 10, SnapshotEvery: -1})
			if err != nil {
				t.Fatal(err)
			}
			granted := make([]int, 8)
			together(10, func(i int) {
				switch i {
				case 8:
					_, _ = l.Compact() // may find the ledger closed
				case 9:
					for l.UnsettledCount() < 20 && l.Err() == nil {
						_ = l.UnsettledCount()
					}
					if err := l.Close(); err != nil {
						t.Error(err)
					}
				default:
					for n := range 50 {
						d, err := l.Accept(t.Context(), keyOf(i*50+n), ledger.Input{Data: make([]byte, 200)})
						if errors.Is(err, ledger.ErrClosed) || errors.Is(err, wal.ErrClosed) {
							return
						}
						if err != nil || !d.Granted {
							t.Errorf("%+v, %v", d, err)
						}
						granted[i]++
					}
				}
			})
			if l, err = ledger.Open(dir, ledger.Options{}); err != nil {
				t.Fatal(err)
			}
			for i, n := range granted {
				for k := range n {
					if e, err := l.Get(keyOf(i*50 + k)); err != nil || !e.Known() {
						t.Errorf("%v was granted and is lost: %v", keyOf(i*50+k), err)
					}
				}
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// New names are durable before anything in them is acknowledged.
func TestCaseW40(t *testing.T) { acknowledged(t) }

// A snapshot's name is durable before any log is dropped.
func TestCaseW41(t *testing.T) { cutDuringCompaction(t) }

// A snapshot that does not read back as it was written is none, and no log is
// dropped for it.
func TestCaseW42(t *testing.T) {
	s := newShop(t, nil)
	s.polls(ids(50), 4)
	s.end()
	s.disk.Kill()
	s.fs = flippingFS{s.disk.FS()}
	s.open()
	first := s.l.Report().Log.First
	for range 3 {
		if _, err := s.l.Compact(); !errors.Is(err, ledger.ErrCorrupt) && (err == nil || !strings.Contains(err.Error(), "corrupt")) {
			t.Errorf("%v", err)
		}
	}
	if stat, err := s.l.Stat(); err != nil || stat.Log.First != first {
		t.Errorf("the log begins at %d, was %d; %v", stat.Log.First, first, err)
	}
}

// flippingFS flips a bit of what is written to snapshots.
type flippingFS struct{ durable.FS }

func (f flippingFS) Create(path string) (durable.File, error) {
	file, err := f.FS.Create(path)
	if err == nil && strings.Contains(path, "snapshots") {
		file = flippingFile{file}
	}
	return file, err
}

type flippingFile struct{ durable.File }

func (f flippingFile) Write(b []byte) (int, error) {
	b = bytes.Clone(b)
	b[len(b)/2] ^= 1
	return f.File.Write(b)
}

// The newest snapshot is rotten: the older one and more log give the same.
func TestCaseW43(t *testing.T) {
	damaged(t, func(c *rotCase) {
		snapshots := c.in("snapshots")
		newest := snapshots[len(snapshots)-1]
		if c.outcome(t, "the newest snapshot flipped", func(dir string) {
			edit(t, filepath.Join(dir, newest), func(b []byte) []byte { b[len(b)/2] ^= 1; return b })
		}) {
			t.Errorf("%s: one rotten snapshot is refused", c.store)
		}
	})
}

// The last LSN is that of the last whole record.
func TestCaseW44(t *testing.T) {
	eachRuin(t, 1, func(r *ruin) {
		whole, err := ledger.OpenView(r.dir, ledger.Options{})
		if err != nil {
			t.Fatal(err)
		}
		torn, err := ledger.OpenView(r.copy(func(b []byte) []byte { return b[:r.end()-1] }), ledger.Options{})
		if err != nil || torn.Report().Log.Last != whole.Report().Log.Last-1 {
			t.Errorf("%s: %+v, whole %+v, %v", r.store, torn.Report().Log, whole.Report().Log, err)
		}
	})
}

// Truncated after every few records, and opened: it goes on.
func TestCaseW45(t *testing.T) {
	s := newShop(t, nil)
	for n := range 30 {
		for _, id := range ids(7) {
			s.does(fmt.Sprint(id, " ", n), "x", "sent x", nil)
		}
		s.compact()
		if n%2 == 0 {
			s.restarted()
		} else {
			s.killed()
		}
	}
	if stat, err := s.l.Stat(); err != nil || stat.Log.First < 100 || s.world.Total() != 210 {
		t.Errorf("%+v, %d effects, %v", stat.Log, s.world.Total(), err)
	}
}

// shortWrite makes a write stop half way.
func shortWrite(t *testing.T) {
	t.Helper()
	for k := range 6 {
		s := newShop(t, nil)
		s.does("before", "x", "sent x", nil)
		s.disk.At(s.disk.Ops()+k, simdisk.FailShort)
		for i := range 4 {
			_, _ = s.h.Do(t.Context(), fmt.Sprint(i), "x") // one of them fails
		}
		if s.l.Err() == nil {
			t.Errorf("operation %d: nothing failed", k)
		}
		s.killed()
		for range 2 {
			s.does("before", "x", "sent x", nil)
			s.does("after", "x", "sent x", nil)
			s.restarted()
		}
		if d := s.world.Doubles(); len(d) > 0 {
			t.Errorf("%v", d)
		}
	}
}

// Half a write ends the log; opened again, what is appended is whole.
func TestCaseW46(t *testing.T) { shortWrite(t) }

// Only the last segment has a tail to cut: damage at the end of another is
// corruption.
func TestCaseW48(t *testing.T) {
	damaged(t, func(c *rotCase) {
		c.mustRefuse(t, "the end of a middle segment cut", func(dir string) {
			edit(t, filepath.Join(dir, c.in("wal")[1]), func(b []byte) []byte { return b[:600] })
		})
	})
}

// After a cut tail the log goes on in a place that the next opening reads.
func TestCaseW49(t *testing.T) {
	eachRuin(t, 10_000, func(r *ruin) {
		r.holds("one byte short", r.copy(func(b []byte) []byte { return b[:r.end()-1] }), 9)
	})
}

// One flipped bit is found by verify, which changes nothing.
func TestCaseW51(t *testing.T) {
	damaged(t, func(c *rotCase) {
		for _, file := range []string{c.in("wal")[0], c.in("snapshots")[0], "FORMAT"} {
			dir := filepath.Join(t.TempDir(), "state")
			if err := os.CopyFS(dir, os.DirFS(c.dir)); err != nil {
				t.Fatal(err)
			}
			edit(t, filepath.Join(dir, file), func(b []byte) []byte {
				at := bytes.Index(b, []byte("OLB\x01")) + 50 // in a block, in a log
				if !strings.HasPrefix(file, "wal") {
					at = len(b) / 2
				}
				b[at] ^= 4
				return b
			})
			v, err := ledger.Verify(dir, rotOptions(c.store))
			if err != nil || len(v.Problems) == 0 || !strings.Contains(fmt.Sprint(v.Problems), filepath.Base(file)) {
				t.Errorf("%s: %v, %v", file, v.Problems, err)
			}
		}
	})
}

// What cannot be read is never taken for something to clean up.
func TestCaseW52(t *testing.T) {
	damaged(t, func(c *rotCase) {
		dir := filepath.Join(t.TempDir(), "state")
		if err := os.CopyFS(dir, os.DirFS(c.dir)); err != nil {
			t.Fatal(err)
		}
		edit(t, filepath.Join(dir, "FORMAT"), func([]byte) []byte { return []byte("{}\n") })
		for _, create := range []bool{false, true} {
			o := rotOptions(c.store)
			o.Create = create
			if _, err := ledger.Open(dir, o); !errors.Is(err, ledger.ErrCorrupt) {
				t.Errorf("create %v: %v", create, err)
			}
		}
		for _, file := range append(c.in("wal"), c.in("snapshots")...) {
			if !bytes.Equal(readBytes(t, filepath.Join(dir, file)), readBytes(t, filepath.Join(c.dir, file))) {
				t.Errorf("%s has changed", file)
			}
		}
	})
}

// A view, an opening and a dump read with one decoder: they agree.
func TestCaseW54(t *testing.T) {
	damaged(t, func(c *rotCase) {
		if c.outcome(t, "killed", func(dir string) { remove(t, dir, "durable") }) {
			t.Errorf("%s: refused", c.store)
		}
	})
}

// A LOCK file that a dead owner has left does not lock.
func TestCaseW58(t *testing.T) {
	w, dir := newWitness(t), filepath.Join(t.TempDir(), "state")
	if _, killed, err := w.life(dir, wal.StoreDirect, "before run#1", 0); err != nil || !killed {
		t.Fatalf("killed: %v, %v", killed, err)
	}
	if len(readBytes(t, filepath.Join(dir, "LOCK"))) == 0 {
		t.Error("no owner's name is left")
	}
	l, err := ledger.Open(dir, ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// A file that was made longer, with zeros, before its data reached the disk.
func TestCaseW61(t *testing.T) {
	eachRuin(t, 3000, func(r *ruin) {
		for _, keep := range []int{0, 1, 8, 48, 600, 2999} {
			dir := r.copy(func(b []byte) []byte { clear(b[r.start()+keep : r.end()]); return b })
			r.holds(fmt.Sprint("all but ", keep, " bytes are zeros"), dir, 9)
		}
	})
}

// Opening cuts nothing that is whole.
func TestCaseW62(t *testing.T) {
	eachRuin(t, 100, func(r *ruin) { r.holds("nothing wrong", r.copy(func(b []byte) []byte { return b }), 10) })
}

// A header whose payload was not written leaves nothing that later writes build on.
func TestCaseW63(t *testing.T) { shortWrite(t) }

// Compactions race with appends: all that was granted is there.
func TestCaseW64(t *testing.T) {
	s := newShop(t, func(s *shop) { s.opts = executor.Options{DrainEvery: -1} })
	together(5, func(i int) {
		for n := range 100 {
			if i == 0 {
				if n%10 == 0 {
					s.compact()
				}
				continue
			}
			s.does(fmt.Sprint(i, "-", n), "x", "sent x", nil)
		}
	})
	s.disk.Crash()
	s.end()
	s.open()
	for i := 1; i < 5; i++ {
		for n := range 100 {
			s.is(fmt.Sprint(i, "-", n), journal.Confirmed)
		}
	}
}
