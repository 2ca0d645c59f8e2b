package fuzz

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncelog/oncelog/executor"
	"github.com/oncelog/oncelog/fuzz/crash"
	"github.com/oncelog/oncelog/internal/durable"
	"github.com/oncelog/oncelog/internal/simdisk"
	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/ledger"
	"github.com/oncelog/oncelog/wal"
)

// shop is where the cases of docs/CASES.md happen: an executor with one effect, on
// a ledger on a simulated disk, and a world that counts.
type shop struct {
	t      *testing.T
	disk   *simdisk.Disk
	fs     durable.FS // nil for the disk's own
	world  crash.World
	effect executor.Effect[string, string]
	opts   executor.Options
	keep   ledger.Retention
	l      *ledger.Embedded
	x      *executor.Executor
	h      *executor.Handle[string, string]
}

// newShop opens a shop. change may alter it before.
func newShop(t *testing.T, change func(s *shop)) *shop {
	t.Helper()
	s := &shop{t: t, disk: simdisk.New(rand.New(rand.NewPCG(1, 1))),
		opts: executor.Options{DrainEvery: -1, Backoff: time.Microsecond}}
	s.effect = executor.Effect[string, string]{Name: "send", Run: s.send}
	if change != nil {
		change(s)
	}
	s.open()
	t.Cleanup(s.end)
	return s
}

// send is an effect that happens.
func (s *shop) send(_ context.Context, c executor.Call, in string) (string, error) {
	s.world.Happen(c.Key, c.Attempt)
	return "sent " + in, nil
}

// truth is a check that tells it.
func (s *shop) truth(_ context.Context, c executor.Call, _ string) (executor.Verdict, string, error) {
	if s.world.Count(c.Key) > 0 {
		return executor.Landed, "in the sent folder", nil
	}
	return executor.NotLanded, "not in the sent folder", nil
}

func (s *shop) options() ledger.Options {
	o := ledger.Options{Create: true, Store: wal.StoreDirect, FS: s.fs, SegmentSize: 8 << 10, SnapshotEvery: -1, Keep: s.keep}
	if s.fs == nil {
		o.FS = s.disk.FS()
	}
	return o
}

func (s *shop) open() {
	s.t.Helper()
	var err error
	if s.l, err = ledger.Open("/state", s.options()); err != nil {
		s.t.Fatal(err)
	}
	s.x = executor.New(s.l, s.opts)
	if s.h, err = executor.Register(s.x, s.effect); err != nil {
		s.t.Fatal(err)
	}
}

// end ends the process; what closing says does not matter any more.
func (s *shop) end() {
	if s.x != nil {
		_ = s.x.Close(context.Background())
		_ = s.l.Close()
		s.x = nil
	}
}

// killed is the next process, after the death of this one.
func (s *shop) killed() {
	s.t.Helper()
	s.disk.Kill()
	s.end()
	s.open()
}

// restarted is the next process, after this one has ended properly.
func (s *shop) restarted() {
	s.t.Helper()
	if err := errors.Join(s.x.Close(context.Background()), s.l.Close()); err != nil {
		s.t.Fatal(err)
	}
	s.x = nil
	s.open()
}

func (s *shop) compact() {
	s.t.Helper()
	if _, err := s.l.Compact(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *shop) drain() executor.DrainReport {
	s.t.Helper()
	r, err := s.x.Drain(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// does calls Do and wants its value, or the error that says why there is none.
func (s *shop) does(item, in, value string, want error) executor.Result[string] {
	s.t.Helper()
	r, err := s.h.Do(s.t.Context(), item, in)
	if want == nil && err != nil || want != nil && !errors.Is(err, want) || r.Value != value {
		s.t.Errorf("Do of %q with %q: %q, %v; want %q, %v", item, in, r.Value, err, value, want)
	}
	return r
}

func (s *shop) entry(item string) (journal.Entry, journal.State) {
	s.t.Helper()
	e, err := s.l.Get(journal.Key{Effect: "send", Item: item})
	if err != nil {
		s.t.Fatal(err)
	}
	return e, s.l.State(&e)
}

func (s *shop) is(item string, want journal.State) {
	s.t.Helper()
	if e, state := s.entry(item); state != want {
		s.t.Errorf("%q is %v, want %v: %+v", item, state, want, e)
	}
}

// happened wants the number of effects of an item.
func (s *shop) happened(item string, want int) {
	s.t.Helper()
	if n := s.world.Count(journal.Key{Effect: "send", Item: item}); n != want {
		s.t.Errorf("the effect of %q happened %d times, want %d", item, n, want)
	}
}

// list is a queue with these ids, each with itself for an input.
type list []string

func (l list) Items(context.Context) iter.Seq2[executor.Item, error] {
	return func(yield func(executor.Item, error) bool) {
		for _, id := range l {
			if !yield(executor.Item{ID: id, Input: []byte(fmt.Sprintf("%q", id))}, nil) {
				return
			}
		}
	}
}

func ids(n int) list {
	all := make(list, n)
	for i := range all {
		all[i] = fmt.Sprintf("item-%d", i)
	}
	return all
}

// polls does what a queue lists, once.
func (s *shop) polls(src executor.Source, c int) executor.WatchReport {
	s.t.Helper()
	r, err := s.h.Watch(s.t.Context(), src, executor.WatchOptions[string]{Once: true, Concurrency: c})
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// gate lets runs begin, and end when it is told.
type gate struct {
	begun chan executor.Call
	end   chan error
}

func newGate() *gate { return &gate{make(chan executor.Call, 100), make(chan error)} }

// pass is a run that waits at the gate and happens when it is let through.
func (g *gate) pass(s *shop) func(context.Context, executor.Call, string) (string, error) {
	return func(ctx context.Context, c executor.Call, in string) (string, error) {
		g.begun <- c
		if err := <-g.end; err != nil {
			return "", err
		}
		return s.send(ctx, c, in)
	}
}

// TestCasesAreListed: every case of docs/CASES.md names tests that exist, or why
// there is none, and every test of a case is listed.
func TestCasesAreListed(t *testing.T) {
	doc, err := os.ReadFile("../docs/CASES.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`TestCase[EW][0-9]+`)
	listed := named.FindAllString(string(doc), -1)
	var written []string
	err = filepath.WalkDir("..", func(path string, d os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		for _, f := range regexp.MustCompile(`(?m)^func TestCase[EW][0-9]+`).FindAll(b, -1) {
			written = append(written, string(bytes.TrimPrefix(f, []byte("func "))))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(listed)
	slices.Sort(written)
	for _, name := range slices.Compact(listed) {
		if !slices.Contains(written, name) {
			t.Errorf("docs/CASES.md lists %s, which is not there", name)
		}
	}
	for _, name := range written {
		if !slices.Contains(listed, name) {
			t.Errorf("%s is not in docs/CASES.md", name)
		}
	}
	if len(written) < 60 {
		t.Errorf("only %d tests of cases", len(written))
	}
}

// together runs f n times at once.
func together(n int, f func(i int)) {
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { f(i) })
	}
	group.Wait()
}
