package wal

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelog/oncelog/internal/durable"
	"github.com/oncelog/oncelog/internal/simdisk"
)

var stores = []StoreKind{StoreTidwall, StoreDirect}

// eachStore runs a test on a fresh place for every store.
func eachStore(t *testing.T, test func(t *testing.T, o Options)) {
	for _, store := range stores {
		t.Run(string(store), func(t *testing.T) { test(t, options(t.TempDir(), store)) })
	}
}

func options(dir string, store StoreKind) Options {
	o := Options{FS: durable.OS, Dir: filepath.Join(dir, "wal"), Quarantine: filepath.Join(dir, "quarantine"),
		Watermark: filepath.Join(dir, "durable"), Reserve: filepath.Join(dir, "reserve"), ID: [16]byte{1, 2, 3}, Store: store, SegmentSize: 1 << 10}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		panic(err)
	}
	return o
}

// record is the record with an LSN, in these tests.
func record(lsn uint64) []byte { return fmt.Appendf(nil, "record %d of the log", lsn) }

func create(t *testing.T, o Options) *Log {
	t.Helper()
	l, err := Create(o, 0, record(1))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func open(t *testing.T, o Options) (*Log, *Report) {
	t.Helper()
	l, r, err := Open(o, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l, r
}

// fill appends records up to an LSN, each waited for.
func fill(t *testing.T, l *Log, to uint64) {
	t.Helper()
	for lsn := l.Durable() + 1; lsn <= to; lsn++ {
		ticket, err := l.Append(record(lsn), 0)
		if err == nil {
			err = ticket.Wait()
		}
		if err != nil || ticket.LSN() != lsn {
			t.Fatalf("append of LSN %d: LSN %d, %v", lsn, ticket.LSN(), err)
		}
	}
}

// holds checks that the log holds the records [from, to] and nothing else.
func holds(t *testing.T, l *Log, from, to uint64) {
	t.Helper()
	if l.First() != from || l.Durable() != to {
		t.Errorf("the log holds LSN %d to %d, want %d to %d", l.First(), l.Durable(), from, to)
	}
	due := from
	for r, err := range l.Records(from) {
		if err != nil {
			t.Fatal(err)
		}
		if r.LSN != due || !bytes.Equal(r.Data, record(due)) {
			t.Fatalf("LSN %d is %q, want LSN %d", r.LSN, r.Data, due)
		}
		due++
	}
	if due != to+1 {
		t.Errorf("the records end at %d, want %d", due-1, to)
	}
}

func closeLog(t *testing.T, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAppendCloseOpen(t *testing.T) {
	eachStore(t, func(t *testing.T, o Options) {
		l := create(t, o)
		for to := uint64(1); to < 200; to += 60 {
			fill(t, l, to)
			holds(t, l, 1, to)
			closeLog(t, l)
			var r *Report
			if l, r = open(t, o); !r.Clean || r.Rewrote || r.Last != to || r.TornBytes != 0 {
				t.Errorf("a properly closed log: %+v", r)
			}
		}
		if s := l.Stat(); s.Segments < 4 {
			t.Errorf("%d segments of %d bytes after 200 records", s.Segments, o.SegmentSize)
		}
		var some []uint64
		for r := range l.Records(100) {
			some = append(some, r.LSN)
			if len(some) == 3 {
				break
			}
		}
		if fmt.Sprint(some) != "[100 101 102]" {
			t.Errorf("records from 100: %v", some)
		}
		closeLog(t, l)
		if _, err := Create(o, 0, record(1)); err == nil {
			t.Error("a log was created over another")
		}
	})
}

func TestLimits(t *testing.T) {
	eachStore(t, func(t *testing.T, o Options) {
		l := create(t, o)
		for _, n := range []int{0, MaxRecord + 1} {
			if _, err := l.Append(make([]byte, n), 0); !errors.Is(err, ErrTooLarge) {
				t.Errorf("a record of %d bytes: %v", n, err)
			}
		}
		large := bytes.Repeat([]byte("x"), MaxRecord)
		ticket, err := l.Append(large, 0)
		if err == nil {
			err = ticket.Wait()
		}
		if err != nil {
			t.Fatalf("the largest record: %v", err)
		}
		closeLog(t, l)
		l, _ = open(t, o)
		for r, err := range l.Records(2) {
			if err != nil || !bytes.Equal(r.Data, large) {
				t.Errorf("the largest record is read as %d bytes, %v", len(r.Data), err)
			}
		}
		closeLog(t, l)
		if err := l.Close(); !errors.Is(err, ErrClosed) {
			t.Errorf("closed twice: %v", err)
		}
		if _, err := l.Append(record(3), 0); !errors.Is(err, ErrClosed) {
			t.Errorf("append to a closed log: %v", err)
		}
	})
}

// counting counts the syncs of segments.
type counting struct {
	durable.FS
	syncs atomic.Int64
	slow  chan struct{} // if not nil, a sync waits for a value
}

func (c *counting) Open(path string) (durable.File, error) {
	f, err := c.FS.Open(path)
	if err != nil || filepath.Ext(path) != directSuffix {
		return f, err
	}
	return &countedFile{f, c}, nil
}

func (c *counting) Create(path string) (durable.File, error) {
	f, err := c.FS.Create(path)
	if err != nil {
		return nil, err
	}
	return &countedFile{f, c}, nil
}

type countedFile struct {
	durable.File
	c *counting
}

func (f *countedFile) Datasync() error {
	f.c.syncs.Add(1)
	if f.c.slow != nil {
		<-f.c.slow
	}
	return f.File.Datasync()
}

// TestGroupCommit: who arrives while a sync runs shares the next one, whatever
// their number; a lone caller has its own, and no goroutine is started for it.
func TestGroupCommit(t *testing.T) {
	c := &counting{FS: durable.OS}
	o := options(t.TempDir(), StoreDirect)
	o.FS, o.SegmentSize = c, 1<<20
	l := create(t, o)
	defer l.Close()
	before, goroutines := c.syncs.Load(), runtime.NumGoroutine()
	fill(t, l, 11)
	if n := c.syncs.Load() - before; n != 10 {
		t.Errorf("10 records of a lone caller took %d syncs", n)
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		t.Errorf("%d goroutines before and %d after", goroutines, n)
	}
	// A leader is in its sync; 100 others queue up behind it.
	c.slow = make(chan struct{})
	before = c.syncs.Load()
	var group sync.WaitGroup
	lead, err := l.Append(record(12), 0)
	if err != nil {
		t.Fatal(err)
	}
	group.Go(func() { check(t, lead.Wait()) })
	c.slow <- struct{}{} // the leader is there
	next, err := l.Append(record(13), 0)
	if err != nil {
		t.Fatal(err)
	}
	group.Go(func() { check(t, next.Wait()) })
	for c.syncs.Load() != before+2 {
		runtime.Gosched() // until the second leader is in its sync
	}
	for lsn := uint64(14); lsn < 114; lsn++ {
		ticket, err := l.Append(record(lsn), 0)
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() { check(t, ticket.Wait()) })
	}
	close(c.slow)
	group.Wait()
	if n := c.syncs.Load() - before; n != 3 {
		t.Errorf("1, 1 and 100 records took %d syncs, want 3", n)
	}
	holds(t, l, 1, 113)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

func TestManyCallers(t *testing.T) {
	eachStore(t, func(t *testing.T, o Options) {
		var applied []uint64 // by one goroutine at a time
		o.Apply = func(lsn uint64, _ []byte, _ any) error { applied = append(applied, lsn); return nil }
		l := create(t, o)
		var group sync.WaitGroup
		for range 50 {
			group.Go(func() {
				for range 20 {
					ticket, err := l.Append([]byte("x"), 0)
					if err == nil {
						err = ticket.Wait()
					}
					if err != nil || l.Durable() < ticket.LSN() {
						t.Errorf("LSN %d: %v, durable to %d", ticket.LSN(), err, l.Durable())
					}
				}
			})
		}
		group.Wait()
		closeLog(t, l)
		for i, lsn := range applied {
			if lsn != uint64(i+1) {
				t.Fatalf("applied LSN %d as number %d", lsn, i+1)
			}
		}
		if len(applied) != 1001 {
			t.Errorf("applied %d records", len(applied))
		}
	})
}

// TestLater: a record that nobody waits for becomes durable by itself, or with
// Close.
func TestLater(t *testing.T) {
	eachStore(t, func(t *testing.T, o Options) {
		done := make(chan uint64, 10)
		o.Apply = func(lsn uint64, _ []byte, _ any) error { done <- lsn; return nil }
		l := create(t, o)
		<-done
		ticket, err := l.Append(record(2), 0)
		if err != nil {
			t.Fatal(err)
		}
		ticket.Later()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Fatal("a record that nobody waits for does not become durable")
		}
		if _, err := l.Append(record(3), 0); err != nil {
			t.Fatal(err)
		}
		closeLog(t, l)
		l, _ = open(t, o)
		holds(t, l, 1, 3)
		closeLog(t, l)
	})
}

func TestTruncate(t *testing.T) {
	eachStore(t, func(t *testing.T, o Options) {
		l := create(t, o)
		fill(t, l, 300)
		segments := l.Stat().Segments
		if err := l.Truncate(150); err != nil {
			t.Fatal(err)
		}
		first := l.First()
		if first > 150 || first < 100 || l.Stat().Segments >= segments {
			t.Errorf("truncated before 150: begins at %d, %d of %d segments", first, l.Stat().Segments, segments)
		}
		holds(t, l, first, 300)
		if err := l.Truncate(10_000); err != nil {
			t.Fatal(err)
		}
		if l.Stat().Segments == 0 {
			t.Error("the last segment is gone")
		}
		fill(t, l, 600) // reuses what was dropped
		first = l.First()
		holds(t, l, first, 600)
		closeLog(t, l)
		l, _ = open(t, o)
		holds(t, l, first, 600)
		closeLog(t, l)
	})
}

// TestTruncateEverything: whatever is truncated, right behind a rotation too, the
// last record stays, and the log opens and goes on from it.
func TestTruncateEverything(t *testing.T) {
	eachStore(t, func(t *testing.T, o Options) {
		l := create(t, o)
		for last := uint64(1); last < 60; last++ {
			fill(t, l, last)
			if err := l.Truncate(last + 1); err != nil {
				t.Fatal(err)
			}
			first := l.First()
			closeLog(t, l)
			l, _ = open(t, o)
			holds(t, l, first, last)
		}
		closeLog(t, l)
	})
}

// TestUncleanStop: after the death of the process the last segment is written
// anew before anything is decided on it, once.
func TestUncleanStop(t *testing.T) {
	eachStore(t, func(t *testing.T, o Options) {
		l := create(t, o)
		fill(t, l, 20)
		// l is left as a kill leaves it: its files are copied away under it.
		dead := options(t.TempDir(), o.Store)
		copyLog(t, l, o, dead)
		closeLog(t, l)
		l, r := open(t, dead)
		if r.Clean || !r.Rewrote || r.TornBytes != 0 || r.Watermark != 20 {
			t.Errorf("after a kill: %+v", r)
		}
		holds(t, l, 1, 20)
		fill(t, l, 40)
		closeLog(t, l)
		if l, r = open(t, dead); !r.Clean || r.Rewrote {
			t.Errorf("after a close: %+v", r)
		}
		// The mark of a clean close is gone before anything is appended.
		again := options(t.TempDir(), o.Store)
		copyLog(t, l, dead, again)
		closeLog(t, l)
		l, r = open(t, again)
		if r.Clean || !r.Rewrote {
			t.Errorf("killed right after an open: %+v", r)
		}
		closeLog(t, l)
	})
}

// copyLog copies a log, which is closed where l is nil, as a kill would leave it.
func copyLog(t *testing.T, l *Log, from, to Options) {
	t.Helper()
	if l != nil && from.Store == StoreDirect {
		l.store.(*directStore).background.Wait() // else the names change under the copy
	}
	check(t, os.CopyFS(to.Dir, os.DirFS(from.Dir)))
	b, err := os.ReadFile(from.Watermark)
	check(t, err)
	check(t, os.WriteFile(to.Watermark, b, 0o600))
}

// TestTornTail: bytes of a block that was never acknowledged are cut, and kept.
func TestTornTail(t *testing.T) {
	eachStore(t, func(t *testing.T, o Options) {
		l := create(t, o)
		fill(t, l, 5)
		dead := options(t.TempDir(), o.Store)
		copyLog(t, l, o, dead)
		end := l.store.list()[0].end
		fill(t, l, 6)
		last := l.store.list()[0]
		path := filepath.Join(dead.Dir, filepath.Base(last.path))
		whole, err := os.ReadFile(last.path)
		check(t, err)
		closeLog(t, l)
		for keep := end + 1; keep < last.end; keep += 7 {
			torn := bytes.Clone(whole[:keep])
			if o.Store == StoreDirect {
				torn = append(torn, make([]byte, len(whole)-keep)...)
			}
			place := options(t.TempDir(), o.Store)
			copyLog(t, nil, dead, place)
			check(t, os.WriteFile(filepath.Join(place.Dir, filepath.Base(path)), torn, 0o600))
			seen, err := Inspect(place, nil)
			if err != nil || seen.Last != 5 {
				t.Errorf("inspecting a tail torn at %d: %+v, %v", keep, seen, err)
			}
			l, r := open(t, place)
			holds(t, l, 1, 5)
			if begun := keep-end >= framePrefix || o.Store == StoreTidwall; begun {
				kept, err := os.ReadFile(r.Quarantined)
				if err != nil || !bytes.HasPrefix(kept, whole[end:keep]) || r.TornBytes == 0 {
					t.Errorf("torn at %d: quarantine has %d bytes, %v; report %+v", keep, len(kept), err, r)
				}
			}
			fill(t, l, 9)
			closeLog(t, l)
			l, _ = open(t, place)
			holds(t, l, 1, 9)
			closeLog(t, l)
		}
	})
}

// TestCorrupt: what was acknowledged and is damaged is refused, with the place.
func TestCorrupt(t *testing.T) {
	eachStore(t, func(t *testing.T, o Options) {
		l := create(t, o)
		fill(t, l, 60)
		segments := l.store.list()
		closeLog(t, l)
		for _, seg := range []segment{segments[0], segments[1], segments[len(segments)-1]} {
			if seg.blocks == 0 {
				continue
			}
			place := options(t.TempDir(), o.Store)
			copyLog(t, nil, o, place)
			path := filepath.Join(place.Dir, filepath.Base(seg.path))
			b, err := os.ReadFile(path)
			check(t, err)
			b[seg.end-3] ^= 0x10 // in its last record
			check(t, os.WriteFile(path, b, 0o600))
			_, _, err = Open(place, nil)
			var at *CorruptError
			if !errors.Is(err, ErrCorrupt) || !errors.As(err, &at) {
				t.Fatalf("a flipped bit in LSN %d: %v", seg.last, err)
			}
			if at.Path != path || at.LSN != seg.last || at.Offset <= 0 || at.Offset >= int64(seg.end) {
				t.Errorf("a flipped bit in LSN %d of %s before byte %d is reported as %+v", seg.last, path, seg.end, at)
			}
			after, err := os.ReadFile(path)
			if err != nil || !bytes.Equal(after, b) {
				t.Error("a refused log was changed")
			}
		}
	})
}

// TestSegmentMissingBehindATear: whoever loses the watermark as well as a segment must
// not be told that the tail is merely torn.
func TestSegmentMissingBehindATear(t *testing.T) {
	o := options(t.TempDir(), StoreDirect)
	l := create(t, o)
	fill(t, l, 12)
	segments := l.store.list()
	closeLog(t, l)
	n := len(segments)
	if n < 2 {
		t.Fatalf("%d segments", n)
	}
	torn := segments[n-2]
	b, err := os.ReadFile(torn.path)
	check(t, err)
	b[torn.end-3] ^= 0x10
	check(t, os.WriteFile(torn.path, b, 0o600))
	check(t, errors.Join(os.Remove(segments[n-1].path), os.Remove(o.Watermark)))
	if l, _, err := Open(o, nil); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("the segment behind a tear is missing, and the one that was made ready after it is there: %v, %v", l, err)
	}
}

// TestPoisoned: after the first failure nothing is accepted, whatever failed, and
// everybody who waits hears of it.
func TestPoisoned(t *testing.T) {
	for name, event := range map[string]simdisk.Event{"lost": simdisk.FailLost, "short": simdisk.FailShort,
		"persisted": simdisk.FailPersisted, "full": simdisk.FailFull} {
		for op := range 3 { // write, sync, watermark
			t.Run(fmt.Sprintf("%s/%d", name, op), func(t *testing.T) {
				d := simdisk.New(rand.New(rand.NewPCG(1, 1)))
				o := options(t.TempDir(), StoreDirect)
				o.FS, o.Dir, o.Quarantine, o.Watermark, o.Reserve = d.FS(), "/wal", "/quarantine", "/durable", ""
				check(t, durable.MkdirAll(o.FS, o.Dir))
				l := create(t, o)
				l.store.(*directStore).background.Wait() // its operations are not the ones that fail
				d.At(d.Ops()+op, event)
				ticket, err := l.Append(record(2), 0)
				check(t, err)
				behind, err := l.Append(record(3), 0)
				check(t, err)
				for _, ticket := range []Ticket{ticket, behind} {
					if err := ticket.Wait(); !errors.Is(err, ErrFailed) {
						t.Errorf("wait: %v", err)
					}
				}
				if _, err := l.Append(record(4), 0); !errors.Is(err, ErrFailed) {
					t.Errorf("append after a failure: %v", err)
				}
				if err := l.Truncate(2); !errors.Is(err, ErrFailed) {
					t.Errorf("truncate after a failure: %v", err)
				}
				select {
				case <-l.Failed():
				default:
					t.Error("Failed is not closed")
				}
				if err := l.Close(); !errors.Is(err, ErrFailed) {
					t.Errorf("close after a failure: %v", err)
				}
			})
		}
	}
	t.Run("apply", func(t *testing.T) {
		o := options(t.TempDir(), StoreTidwall)
		broken := errors.New("no such transition")
		o.Apply = func(lsn uint64, _ []byte, _ any) error {
			if lsn == 2 {
				return broken
			}
			return nil
		}
		l := create(t, o)
		ticket, err := l.Append(record(2), 0)
		check(t, err)
		if err := ticket.Wait(); !errors.Is(err, ErrFailed) || !errors.Is(err, broken) {
			t.Errorf("wait: %v", err)
		}
		if err := l.Close(); !errors.Is(err, ErrFailed) {
			t.Errorf("close: %v", err)
		}
	})
}

// TestTornPrefix: a power cut may leave the last block and not the prefix of its frame,
// where they are in different sectors. It is torn. In one sector it is corrupt, and
// so it is where a block follows.
func TestTornPrefix(t *testing.T) {
	eachStore(t, func(t *testing.T, o Options) {
		o.SegmentSize = 1 << 20
		lay, err := layoutOf(o.Store)
		if err != nil {
			t.Fatal(err)
		}
		l := create(t, o)
		at := map[int]bool{} // offsets in a sector at which blocks began
		for lsn := uint64(2); lsn < 1200; lsn++ {
			rec := bytes.Repeat([]byte{'x'}, 20+int(lsn%37))
			ticket, err := l.Append(rec, 0)
			if err == nil {
				err = ticket.Wait()
			}
			if err != nil {
				t.Fatal(err)
			}
			seg := l.store.list()[0]
			n := framePrefix
			if o.Store == StoreTidwall {
				n = 1
			}
			block := seg.end - (headerSize + 1 + len(rec))
			if k := block % sector; k > n || at[k] {
				continue
			}
			at[block%sector] = true
			data, err := os.ReadFile(seg.path)
			if err != nil {
				t.Fatal(err)
			}
			scan := func(damage func(data []byte)) error {
				bad := append(bytes.Clone(data), 0)
				damage(bad)
				s := scanner{id: o.ID, lay: lay, found: scanned{segments: []segment{{path: seg.path, number: seg.number}}}}
				return s.segment(0, bad)
			}
			torn := scan(func(data []byte) { clear(data[block-n : max(block/sector*sector, block-n)]) })
			if torn != nil {
				t.Errorf("LSN %d at byte %d: %v", lsn, block, torn)
			}
			rot := scan(func(data []byte) { clear(data[block-n : block]) })
			if apart := block%sector < n; apart == (rot != nil) {
				t.Errorf("LSN %d at byte %d, in another sector than its prefix: %v: %v", lsn, block, apart, rot)
			}
			// Something between: no crash leaves that.
			if err := scan(func(data []byte) {
				copy(data[block+1:], data[block:seg.end])
				clear(data[block-n : block+1])
			}); err == nil {
				t.Errorf("LSN %d at byte %d: a byte more is a tear", lsn, block)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if len(at) != map[StoreKind]int{StoreTidwall: 2, StoreDirect: 9}[o.Store] {
			t.Errorf("blocks began at %v of a sector", at)
		}
	})
}
