package fuzz

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelog/oncelog/executor"
	"github.com/oncelog/oncelog/internal/simdisk"
	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/ledger"
	"github.com/oncelog/oncelog/wal"
)

var (
	errLost = errors.New("the answer was lost")
	errDown = errors.New("500")
)

func sendKey(item string) journal.Key { return journal.Key{Effect: "send", Item: item} }

// An acknowledgement that was lost: recording the same outcome again is no conflict.
func TestCaseE01(t *testing.T) {
	s := newShop(t, nil)
	if _, err := s.l.Accept(t.Context(), sendKey("a"), ledger.Input{}); err != nil {
		t.Fatal(err)
	}
	out := ledger.Outcome{Result: []byte("r"), Settles: true, Cause: journal.Run}
	for range 2 {
		if e, err := s.l.Execute(sendKey("a"), 1, out); err != nil || e.Conflict || e.State != journal.Confirmed {
			t.Errorf("%+v, %v", e, err)
		}
	}
}

// The backend fails after the effect: it is in the journal, and confirmed later.
func TestCaseE03(t *testing.T) {
	var down atomic.Bool
	down.Store(true)
	s := newShop(t, func(s *shop) {
		s.effect.Confirm = func(context.Context, executor.Call, executor.Outcome[string]) error {
			if down.Load() {
				return errDown
			}
			return nil
		}
	})
	s.does("a", "x", "sent x", nil)
	for range 3 {
		s.killed()
		s.drain()
		s.is("a", journal.Executed)
	}
	down.Store(false)
	s.drain()
	s.restarted() // the confirmation is not waited for
	s.is("a", journal.Confirmed)
	s.happened("a", 1)
}

// A drain leaves alone what runs here and now.
func TestCaseE04(t *testing.T) {
	g := newGate()
	s := newShop(t, func(s *shop) { s.effect.Run, s.effect.Check = g.pass(s), s.truth })
	done := make(chan error)
	go func() {
		_, err := s.h.Do(t.Context(), "a", "x")
		done <- err
	}()
	<-g.begun
	s.drain()
	s.is("a", journal.Accepted)
	g.end <- nil
	if err := <-done; err != nil {
		t.Error(err)
	}
	s.happened("a", 1)
}

// A hundred calls at once: one runs, the others get its result.
func TestCaseE05(t *testing.T) {
	s := newShop(t, nil)
	var ran atomic.Int32
	together(100, func(int) {
		if r := s.does("a", "x", "sent x", nil); !r.Replayed {
			ran.Add(1)
		}
	})
	s.happened("a", 1)
	if ran.Load() != 1 {
		t.Errorf("%d calls say that they ran it", ran.Load())
	}
}

// Two effects on one item do not shadow each other, before and after a crash.
func TestCaseE07(t *testing.T) {
	s := newShop(t, nil)
	for _, effect := range []string{"send", "bill"} {
		if d, err := s.l.Accept(t.Context(), journal.Key{Effect: effect, Item: "a"}, ledger.Input{}); err != nil || !d.Granted {
			t.Fatalf("%s: %+v, %v", effect, d, err)
		}
	}
	if _, err := s.l.Execute(journal.Key{Effect: "bill", Item: "a"}, 1, ledger.Outcome{Settles: true, Cause: journal.Run}); err != nil {
		t.Fatal(err)
	}
	s.killed()
	s.is("a", journal.InDoubt)
	if e, err := s.l.Get(journal.Key{Effect: "bill", Item: "a"}); err != nil || e.State != journal.Confirmed {
		t.Errorf("%+v, %v", e, err)
	}
}

// Two processes cannot recover the same ledger.
func TestCaseE08(t *testing.T) {
	s := newShop(t, nil)
	if _, err := ledger.Open("/state", s.options()); !errors.Is(err, ledger.ErrLocked) {
		t.Errorf("a second owner: %v", err)
	}
}

// Who loses the race does not run: it hears so, or gets the result.
func TestCaseE09(t *testing.T) {
	g := newGate()
	s := newShop(t, func(s *shop) { s.effect.Run = g.pass(s) })
	done := make(chan error)
	go func() {
		_, err := s.h.Do(t.Context(), "a", "x")
		done <- err
	}()
	<-g.begun
	if _, err := s.h.Do(t.Context(), "a", "x", executor.NoWait()); !errors.Is(err, ledger.ErrInFlight) {
		t.Errorf("the loser hears %v", err)
	}
	g.end <- nil
	if err := <-done; err != nil {
		t.Error(err)
	}
	s.does("a", "x", "sent x", nil)
	s.happened("a", 1)
}

// After a crash between two items one is in doubt, and the others are done.
func TestCaseE10(t *testing.T) {
	s := newShop(t, nil)
	if _, err := s.l.Accept(t.Context(), sendKey("first"), ledger.Input{}); err != nil {
		t.Fatal(err)
	}
	s.killed()
	s.does("first", "x", "", ledger.ErrInDoubt)
	for i := range 5 {
		s.does(fmt.Sprint("other ", i), "x", "sent x", nil)
	}
	if n := s.l.UnsettledCount(); n != 1 {
		t.Errorf("%d keys in the journal, want 1", n)
	}
}

// The backend is down for ten minutes: the drain goes on by itself afterwards.
func TestCaseE11(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := time.Now().Add(10 * time.Minute)
		s := newShop(t, func(s *shop) {
			s.opts.DrainEvery = time.Second
			s.effect.Confirm = func(context.Context, executor.Call, executor.Outcome[string]) error {
				if time.Now().Before(up) {
					return errDown
				}
				return nil
			}
		})
		for i := range 20 {
			s.does(fmt.Sprint(i), "x", "sent x", nil)
		}
		time.Sleep(9 * time.Minute)
		if n := s.l.UnsettledCount(); n != 20 {
			t.Errorf("%d keys in the journal during the outage, want 20", n)
		}
		time.Sleep(3 * time.Minute)
		if n := s.l.UnsettledCount(); n != 0 {
			t.Errorf("%d keys in the journal after it", n)
		}
		s.end()
	})
}

// A duplicate waits while it runs, gets the result once it is done, and hears
// that it is done where the result is not known: it never runs.
func TestCaseE12(t *testing.T) {
	s := newShop(t, func(s *shop) {
		send := s.effect.Run
		s.effect.Run = func(ctx context.Context, c executor.Call, in string) (string, error) {
			r, _ := send(ctx, c, in)
			if in == "lost" {
				return "", errLost
			}
			return r, nil
		}
	})
	s.does("done", "x", "sent x", nil)
	s.does("done", "x", "sent x", nil)
	s.does("lost", "lost", "", ledger.ErrInDoubt)
	if _, err := s.l.Resolve(sendKey("lost"), true, "ada: it is there"); err != nil {
		t.Fatal(err)
	}
	s.does("lost", "lost", "", ledger.ErrResultExpired)
	s.happened("done", 1)
	s.happened("lost", 1)
}

// A duplicate accept answers with the first one's attempt and LSN.
func TestCaseE13(t *testing.T) {
	s := newShop(t, nil)
	first, err := s.l.Accept(t.Context(), sendKey("a"), ledger.Input{})
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.l.Accept(t.Context(), sendKey("a"), ledger.Input{})
	if err != nil || again.Granted || again.Entry.Attempt != 1 || again.Entry.LSN != first.Entry.LSN {
		t.Errorf("%+v, %v; the first was %+v", again, err, first)
	}
}

// Who comes again while it runs gets the first run's result.
func TestCaseE14(t *testing.T) {
	g := newGate()
	s := newShop(t, func(s *shop) { s.effect.Run = g.pass(s) })
	results := make(chan executor.Result[string], 2)
	for range 2 {
		go func() { results <- s.does("a", "x", "sent x", nil) }()
	}
	<-g.begun
	g.end <- nil
	if a, b := <-results, <-results; a.Replayed == b.Replayed || a.Attempt != b.Attempt {
		t.Errorf("%+v and %+v", a, b)
	}
	s.happened("a", 1)
}

// A definite failure is recorded and answered, and not run again.
func TestCaseE15(t *testing.T) {
	runs := 0
	s := newShop(t, func(s *shop) {
		s.effect.Run = func(context.Context, executor.Call, string) (string, error) {
			runs++
			return "", executor.Permanent(errors.New("no such address"))
		}
	})
	for range 3 {
		var failed *executor.PermanentError
		if _, err := s.h.Do(t.Context(), "a", "x"); !errors.As(err, &failed) || !strings.Contains(err.Error(), "no such address") {
			t.Errorf("%v", err)
		}
		s.restarted()
	}
	if runs != 1 {
		t.Errorf("ran %d times", runs)
	}
}

// Nothing expires by default: a duplicate is one however late it comes.
func TestCaseE16(t *testing.T) {
	s := newShop(t, nil)
	s.does("a", "x", "sent x", nil)
	for range 5 {
		s.compact()
		s.restarted()
	}
	s.does("a", "x", "sent x", nil)
	s.happened("a", 1)
}

// Only forgetting makes a key fresh, in a next generation, with its history.
func TestCaseE17(t *testing.T) {
	s := newShop(t, nil)
	s.does("a", "x", "sent x", nil)
	if _, err := s.l.Forget(sendKey("a"), "ada: again, please"); err != nil {
		t.Fatal(err)
	}
	s.does("a", "y", "sent y", nil)
	s.happened("a", 2)
	e, _ := s.entry("a")
	var kinds []journal.Kind
	for _, ev := range e.Events() {
		kinds = append(kinds, ev.Kind)
	}
	if e.Generation != 1 || len(kinds) < 5 {
		t.Errorf("generation %d, history %v", e.Generation, kinds)
	}
}

// A whole run that is repeated with the same items replays what is finished.
func TestCaseE19(t *testing.T) {
	s := newShop(t, nil)
	if r := s.polls(ids(5), 1); r.Executed != 5 {
		t.Errorf("%+v", r)
	}
	if r := s.polls(ids(6), 1); r.Executed != 1 || r.Replayed != 5 {
		t.Errorf("again: %+v", r)
	}
}

// Killed in the middle of an effect: it happened, so a retry does not run it.
func TestCaseE20(t *testing.T) {
	g := newGate()
	s := newShop(t, func(s *shop) {
		pass := g.pass(s)
		s.effect.Run = func(ctx context.Context, c executor.Call, in string) (string, error) {
			s.world.Happen(c.Key, c.Attempt)
			return pass(ctx, c, in)
		}
	})
	go func() { _, _ = s.h.Do(context.Background(), "a", "x") }()
	<-g.begun
	s.disk.Kill()
	g.end <- errLost
	s.end()
	s.open()
	s.does("a", "x", "", ledger.ErrInDoubt)
	s.happened("a", 1)
}

// What a killed process left is in doubt at once, not after some time.
func TestCaseE22(t *testing.T) {
	s := newShop(t, nil)
	if _, err := s.l.Accept(t.Context(), sendKey("a"), ledger.Input{}); err != nil {
		t.Fatal(err)
	}
	s.killed()
	s.is("a", journal.InDoubt)
	if n := s.l.Report().InDoubt; n != 1 {
		t.Errorf("the report says %d in doubt", n)
	}
}

// An error after the effect does not prove that it did not happen.
func TestCaseE23(t *testing.T) {
	s := newShop(t, func(s *shop) {
		s.effect.Run = func(ctx context.Context, c executor.Call, in string) (string, error) {
			_, _ = s.send(ctx, c, in)
			return "", errLost
		}
	})
	for range 3 {
		s.does("a", "x", "", ledger.ErrInDoubt)
	}
	s.happened("a", 1)
}

// The outcome cannot be written: the caller hears so, and nothing runs again.
func TestCaseE24(t *testing.T) {
	for _, event := range []simdisk.Event{simdisk.FailLost, simdisk.FailPersisted} {
		s := newShop(t, func(s *shop) {
			s.effect.Run = func(ctx context.Context, c executor.Call, in string) (string, error) {
				s.disk.At(s.disk.Ops(), event)
				return s.send(ctx, c, in)
			}
		})
		if _, err := s.h.Do(t.Context(), "a", "x"); !errors.Is(err, ledger.ErrFailed) || !strings.Contains(err.Error(), "could not be recorded") {
			t.Errorf("event %d: %v", event, err)
		}
		s.disk.Crash()
		s.end()
		s.open()
		if _, err := s.h.Do(t.Context(), "a", "x"); err != nil && !errors.Is(err, ledger.ErrInDoubt) {
			t.Errorf("event %d, again: %v", event, err)
		}
		s.happened("a", 1)
	}
}

// What memory answers is what the disk holds.
func TestCaseE25(t *testing.T) {
	s := newShop(t, nil)
	s.polls(ids(200), 8)
	before := map[string]journal.Entry{}
	for _, id := range ids(200) {
		before[id], _ = s.entry(id)
	}
	s.compact()
	s.killed()
	for id, want := range before {
		if e, _ := s.entry(id); e.State != want.State || string(e.Result) != string(want.Result) || e.LSN != want.LSN {
			t.Errorf("%s: %+v, was %+v", id, e, want)
		}
	}
}

// The outcome comes while a check is under way: the check's word comes too late.
func TestCaseE26(t *testing.T) {
	s := newShop(t, nil)
	if _, err := s.l.Accept(t.Context(), sendKey("a"), ledger.Input{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.l.Doubt(sendKey("a"), 1, journal.TimedOut, "30s"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.l.Execute(sendKey("a"), 1, ledger.Outcome{Cause: journal.Run}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.l.Release(sendKey("a"), 1, journal.NotLanded, "not there"); !errors.Is(err, ledger.ErrFenced) {
		t.Errorf("the check takes the outcome back: %v", err)
	}
	s.is("a", journal.Executed)
}

// A key is effect and item, within one ledger.
func TestCaseE28(t *testing.T) {
	a, b := newShop(t, nil), newShop(t, nil)
	a.does("x", "in", "sent in", nil)
	b.does("x", "in", "sent in", nil)
	a.happened("x", 1)
	b.happened("x", 1)
}

// Three calls one after another, a restart between: one run.
func TestCaseE31(t *testing.T) {
	s := newShop(t, nil)
	for range 3 {
		s.does("a", "x", "sent x", nil)
		s.restarted()
	}
	s.happened("a", 1)
}

// An age counts from the last record of a key, the outcome or its confirmation.
func TestCaseE32(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, func(s *shop) { s.keep.Keys = 5 * time.Hour })
		if _, err := s.l.Accept(t.Context(), sendKey("a"), ledger.Input{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Hour) // it runs
		if _, err := s.l.Execute(sendKey("a"), 1, ledger.Outcome{Settles: true, Cause: journal.Run}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5*time.Hour - time.Minute)
		s.compact()
		s.is("a", journal.Confirmed)
		time.Sleep(30 * time.Minute)
		s.compact()
		s.is("a", journal.Absent)
		s.end()
	})
}

// Another input under a key that is done is refused; the same one is answered.
func TestCaseE33(t *testing.T) {
	s := newShop(t, nil)
	s.does("a", "x", "sent x", nil)
	s.does("a", "other", "", ledger.ErrMismatch)
	s.does("a", "x", "sent x", nil)
	s.happened("a", 1)
}

// The tool ran, a later step failed, the whole is retried: it is charged once.
func TestCaseE34(t *testing.T) {
	s := newShop(t, nil)
	for try := range 3 {
		if r := s.does("charge", "10", "sent 10", nil); r.Replayed != (try > 0) {
			t.Errorf("try %d: %+v", try, r)
		}
	}
	s.happened("charge", 1)
}

// The key is the item's, not a hash of arguments that a retry words anew.
func TestCaseE35(t *testing.T) {
	s := newShop(t, nil)
	s.does("turn-7", "send the report", "sent send the report", nil)
	s.does("turn-7", "please send the report", "", ledger.ErrMismatch)
	s.happened("turn-7", 1)
}

// Real processes, killed again and again: no double effect.
func TestCaseE37(t *testing.T) {
	w, dir := newWitness(t), filepath.Join(t.TempDir(), "state")
	kills := 0
	for range 10 {
		_, killed, err := w.life(dir, wal.StoreTidwall, "", time.Duration(1+rand.IntN(40_000))*time.Microsecond)
		if err != nil {
			t.Fatal(err)
		}
		if killed {
			kills++
		}
	}
	if err := w.through(dir, wal.StoreTidwall); err != nil || kills == 0 {
		t.Errorf("%d kills: %v", kills, err)
	}
}

// Killed between the effect and its outcome: in doubt, decided by the check.
func TestCaseE38(t *testing.T) {
	w, dir := newWitness(t), filepath.Join(t.TempDir(), "state")
	if _, killed, err := w.life(dir, wal.StoreDirect, "after run#1", 0); err != nil || !killed {
		t.Fatalf("killed: %v, %v", killed, err)
	}
	v, err := ledger.OpenView(dir, ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	doubts := 0
	for _, e := range v.Unsettled() {
		if v.State(&e) == journal.InDoubt {
			doubts++
		}
	}
	if doubts == 0 {
		t.Error("nothing is in doubt")
	}
	if err := w.through(dir, wal.StoreDirect); err != nil {
		t.Error(err)
	}
}

// A request that was written and not answered is in doubt; another has the same key.
func TestCaseE39(t *testing.T) {
	var keys []string
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		if len(keys) == 1 {
			<-r.Context().Done() // no answer
		}
	}))
	defer far.Close()
	client := &http.Client{Transport: executor.RoundTripper(nil)}
	s := newShop(t, func(s *shop) {
		s.effect.Timeout, s.effect.Idempotent, s.effect.Window, s.effect.KeepInput = 200*time.Millisecond, true, time.Hour, true
		s.effect.Run = func(ctx context.Context, c executor.Call, in string) (string, error) {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, far.URL, strings.NewReader(in))
			if err != nil {
				return "", err
			}
			req.Header.Set("Idempotency-Key", c.IdempotencyKey)
			resp, err := client.Do(req)
			if err != nil {
				return "", err
			}
			return "sent", resp.Body.Close()
		}
	})
	s.does("a", "x", "", ledger.ErrInDoubt)
	s.does("a", "x", "sent", nil)
	if len(keys) != 2 || keys[0] != keys[1] || keys[0] == "" {
		t.Errorf("keys %q", keys)
	}
}

// Every attempt of a key has the same idempotency key.
func TestCaseE40(t *testing.T) {
	seen := map[string]int{}
	s := newShop(t, func(s *shop) {
		s.effect.Run = func(ctx context.Context, c executor.Call, in string) (string, error) {
			if seen[c.IdempotencyKey]++; c.Attempt < 4 {
				return "", executor.NotApplied(errDown)
			}
			return s.send(ctx, c, in)
		}
	})
	s.does("a", "x", "sent x", nil)
	if len(seen) != 1 || seen[sendKey("a").String()] != 4 {
		t.Errorf("%v", seen)
	}
}

// Two producers of the same business id: one effect.
func TestCaseE41(t *testing.T) {
	s := newShop(t, nil)
	together(2, func(int) { s.polls(ids(50), 4) })
	for _, id := range ids(50) {
		s.happened(id, 1)
	}
}

// A redelivery and a copy of it, both processed: one effect.
func TestCaseE42(t *testing.T) {
	s := newShop(t, nil)
	if r := s.polls(list{"a", "a", "a"}, 3); r.Executed != 1 || r.Replayed != 2 {
		t.Errorf("%+v", r)
	}
	s.happened("a", 1)
}

// The story of the README: the queue says pending through an outage, and the
// process is killed in it.
func TestCaseE43(t *testing.T) {
	var down atomic.Bool
	down.Store(true)
	s := newShop(t, func(s *shop) {
		s.effect.Confirm = func(context.Context, executor.Call, executor.Outcome[string]) error {
			if down.Load() {
				return errDown
			}
			return nil
		}
	})
	for range 3 {
		s.polls(ids(20), 4)
		s.killed()
	}
	down.Store(false)
	s.polls(ids(20), 4)
	s.drain()
	for _, id := range ids(20) {
		s.happened(id, 1)
		if e, _ := s.entry(id); !e.State.Done() {
			t.Errorf("%s is %v", id, e.State)
		}
	}
}

// A batch of ten, three of them done before: seven run, each has its own answer.
func TestCaseE44(t *testing.T) {
	s := newShop(t, nil)
	s.polls(ids(3), 1)
	if r := s.polls(ids(10), 4); r.Executed != 7 || r.Replayed != 3 {
		t.Errorf("%+v", r)
	}
}

// An attempt in doubt is run again on the far side's promise to deduplicate, one
// second before that ends, and not one second after.
func TestCaseE45(t *testing.T) {
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			runs := 0
			s := newShop(t, func(s *shop) {
				s.effect.Idempotent, s.effect.Window, s.effect.KeepInput = true, 24*time.Hour, true
				s.effect.Run = func(ctx context.Context, c executor.Call, in string) (string, error) {
					if runs++; runs == 1 {
						return "", errLost
					}
					return s.send(ctx, c, in)
				}
			})
			s.does("a", "x", "", ledger.ErrInDoubt)
			if late {
				time.Sleep(24*time.Hour + time.Second)
				s.does("a", "x", "", ledger.ErrInDoubt)
			} else {
				time.Sleep(24*time.Hour - time.Second)
				s.does("a", "x", "sent x", nil)
			}
			s.end()
		})
	}
}

// Compaction and restart forget no key.
func TestCaseE47(t *testing.T) {
	s := newShop(t, nil)
	s.polls(ids(300), 8)
	for range 3 {
		s.compact()
	}
	s.killed()
	if r := s.polls(ids(300), 8); r.Replayed != 300 {
		t.Errorf("%+v", r)
	}
}

// A marker that was not acknowledged is durable or gone, never half: fresh, or in
// doubt.
func TestCaseE48(t *testing.T) {
	states := map[journal.State]int{}
	for seed := range 40 {
		s := newShop(t, func(s *shop) { s.disk = simdisk.New(rand.New(rand.NewPCG(uint64(seed), 7))) })
		s.disk.At(s.disk.Ops()+seed%3, simdisk.Cut)
		_, err := s.l.Accept(t.Context(), sendKey("a"), ledger.Input{})
		s.disk.Crash()
		s.end()
		s.open()
		_, state := s.entry("a")
		states[state]++
		if state != journal.Absent && state != journal.InDoubt || err == nil && state == journal.Absent {
			t.Errorf("seed %d: %v after %v", seed, state, err)
		}
	}
	if states[journal.Absent] == 0 || states[journal.InDoubt] == 0 {
		t.Errorf("not both were seen: %v", states)
	}
}

// Replaying what a snapshot holds already changes nothing.
func TestCaseE49(t *testing.T) {
	s := newShop(t, nil)
	s.polls(ids(50), 4)
	s.compact()
	e, _ := s.entry("item-0")
	for range 3 {
		s.killed() // the whole log is replayed over the snapshot
		if again, _ := s.entry("item-0"); again.LSN != e.LSN || len(again.History) != len(e.History) {
			t.Errorf("%+v, was %+v", again, e)
		}
	}
}

// A key that is made fresh has another idempotency key: the far side's memory of
// the earlier generation does not swallow it.
func TestCaseE50(t *testing.T) {
	var keys []string
	s := newShop(t, func(s *shop) {
		s.effect.Run = func(ctx context.Context, c executor.Call, in string) (string, error) {
			keys = append(keys, c.IdempotencyKey)
			return s.send(ctx, c, in)
		}
	})
	s.does("a", "x", "sent x", nil)
	if _, err := s.l.Forget(sendKey("a"), "ada: again"); err != nil {
		t.Fatal(err)
	}
	s.does("a", "x", "sent x", nil)
	if len(keys) != 2 || keys[0] == keys[1] {
		t.Errorf("keys %q", keys)
	}
}

// A duplicate of a confirmed item tells the backend nothing.
func TestCaseE51(t *testing.T) {
	var told atomic.Int32
	s := newShop(t, func(s *shop) {
		s.effect.Confirm = func(context.Context, executor.Call, executor.Outcome[string]) error {
			told.Add(1)
			return nil
		}
	})
	s.does("a", "x", "sent x", nil)
	s.drain()
	if _, err := s.l.Await(t.Context(), sendKey("a")); err != nil {
		t.Fatal(err)
	}
	s.restarted() // what was told is recorded
	s.drain()
	before := told.Load()
	for range 5 {
		s.does("a", "x", "sent x", nil)
		s.drain()
	}
	if told.Load() != before {
		t.Errorf("told %d times, then %d", before, told.Load())
	}
}

// Killed between marker and effect: in doubt, and run once the check has said
// that it did not happen.
func TestCaseE52(t *testing.T) {
	s := newShop(t, func(s *shop) { s.effect.Check, s.effect.KeepInput = s.truth, true })
	if _, err := s.l.Accept(t.Context(), sendKey("a"), ledger.Input{Data: []byte(`"x"`)}); err != nil {
		t.Fatal(err)
	}
	s.killed()
	s.is("a", journal.InDoubt)
	s.does("a", "x", "sent x", nil)
	s.happened("a", 1)
}

// A confirm that fails is repeated, and the effect is not.
func TestCaseE53(t *testing.T) {
	var fails atomic.Int32
	fails.Store(5)
	s := newShop(t, func(s *shop) {
		s.effect.Confirm = func(context.Context, executor.Call, executor.Outcome[string]) error {
			if fails.Add(-1) >= 0 {
				return errDown
			}
			return nil
		}
	})
	s.does("a", "x", "sent x", nil)
	for fails.Load() > 0 {
		s.drain()
	}
	s.drain()
	s.restarted()
	s.is("a", journal.Confirmed)
	s.happened("a", 1)
}

// Many items with faults among them: every one happens, exactly once.
func TestCaseE54(t *testing.T) {
	n := 50_000
	if testing.Short() {
		n = 2_000
	}
	s := newShop(t, func(s *shop) {
		s.effect.Check, s.effect.KeepInput = s.truth, true
		s.effect.Run = func(ctx context.Context, c executor.Call, in string) (string, error) {
			switch fate(c) * rand.IntN(20) {
			case 1:
				return "", executor.NotApplied(errDown)
			case 2:
				return "", errLost
			case 3:
				_, _ = s.send(ctx, c, in)
				return "", errLost
			}
			return s.send(ctx, c, in)
		}
	})
	work := ids(n)
	for range 10 {
		if r := s.polls(work, 256); r.Executed+r.Replayed == n {
			break
		}
		s.drain()
	}
	if got := s.world.Total(); got != n || len(s.world.Doubles()) > 0 {
		t.Errorf("%d effects of %d items, doubles %v", got, n, s.world.Doubles())
	}
}

// Ten thousand items redelivered: nothing happens.
func TestCaseE56(t *testing.T) {
	n := 10_000
	if testing.Short() {
		n = 1_000
	}
	s := newShop(t, nil)
	s.polls(ids(n), 64)
	s.restarted()
	if r := s.polls(ids(n), 64); r.Replayed != n || s.world.Total() != n {
		t.Errorf("%+v, %d effects", r, s.world.Total())
	}
}

// The ledger restarts while an effect runs elsewhere: its outcome is still taken.
func TestCaseE57(t *testing.T) {
	s := newShop(t, nil)
	d, err := s.l.Accept(t.Context(), sendKey("a"), ledger.Input{})
	if err != nil {
		t.Fatal(err)
	}
	s.killed()
	e, err := s.l.Execute(sendKey("a"), d.Entry.Attempt, ledger.Outcome{Result: []byte(`"late"`), Settles: true, Cause: journal.Run})
	if err != nil || e.State != journal.Confirmed || e.Conflict {
		t.Errorf("%+v, %v", e, err)
	}
	s.does("a", "x", "late", nil)
}

// An owner that stands still keeps its ledger: nothing expires under it.
func TestCaseE58(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, nil)
		time.Sleep(48 * time.Hour)
		if _, err := ledger.Open("/state", s.options()); !errors.Is(err, ledger.ErrLocked) {
			t.Errorf("another owner after two days: %v", err)
		}
		s.does("a", "x", "sent x", nil)
		s.end()
	})
}

// An item that runs for hours is redelivered every hour: one effect.
func TestCaseE59(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, func(s *shop) {
			s.effect.Run = func(ctx context.Context, c executor.Call, in string) (string, error) {
				time.Sleep(3 * time.Hour)
				return s.send(ctx, c, in)
			}
		})
		go func() { _, _ = s.h.Do(context.Background(), "a", "x") }()
		for range 5 {
			time.Sleep(time.Hour - time.Minute)
			if _, err := s.h.Do(t.Context(), "a", "x", executor.NoWait()); err != nil && !errors.Is(err, ledger.ErrInFlight) {
				t.Error(err)
			}
		}
		s.does("a", "x", "sent x", nil)
		s.happened("a", 1)
		s.end()
	})
}

// Whatever file beside the log is lost, done stays done.
func TestCaseE60(t *testing.T) {
	for _, lost := range []string{"durable", "reserve", "snapshots/base"} {
		s := newShop(t, nil)
		s.polls(ids(40), 4)
		s.compact()
		s.disk.Kill()
		s.end()
		fsys := s.disk.FS()
		dir, prefix := filepath.Split(filepath.Join("/state", lost))
		listed, err := fsys.ReadDir(filepath.Clean(dir))
		if err != nil {
			t.Fatal(err)
		}
		gone := 0
		for _, e := range listed {
			if strings.HasPrefix(e.Name(), prefix) {
				if err := fsys.Remove(filepath.Join(dir, e.Name())); err != nil {
					t.Fatal(err)
				}
				gone++
			}
		}
		s.disk.Kill()
		s.open()
		if r := s.polls(ids(40), 4); gone != 1 || r.Replayed != 40 {
			t.Errorf("%s: %d files lost, then %+v", lost, gone, r)
		}
	}
}

// Keys are any bytes up to a kibibyte, and a batch treats them as Do does.
func TestCaseE61(t *testing.T) {
	s := newShop(t, nil)
	rng := rand.NewChaCha8([32]byte{1})
	for _, n := range []int{1, 2, 100, 1023, 1024} {
		item := make([]byte, n)
		_, _ = rng.Read(item) // never fails
		id := string(item)
		in := fmt.Sprintf("%q", id)
		if !json.Valid([]byte(in)) {
			in = "x"
		}
		s.does(id, "x", "sent x", nil)
		r, err := s.h.Watch(t.Context(), list{}, executor.WatchOptions[string]{Once: true})
		if err != nil || r.Bad > 0 {
			t.Errorf("%+v, %v", r, err)
		}
		s.does(id, "x", "sent x", nil)
		s.happened(id, 1)
	}
	for _, bad := range []string{"", strings.Repeat("x", 1025)} {
		if _, err := s.h.Do(t.Context(), bad, "x"); !errors.Is(err, journal.ErrBadKey) {
			t.Errorf("an item of %d bytes: %v", len(bad), err)
		}
		if r := s.polls(list{bad, "good" + fmt.Sprint(len(bad))}, 1); r.Executed != 1 {
			t.Errorf("beside an item of %d bytes: %+v", len(bad), r)
		}
	}
}

// What does not count in an input is not compared, and two ways to one key are one.
func TestCaseE62(t *testing.T) {
	s := newShop(t, nil)
	h, err := executor.Register(s.x, executor.Effect[json.RawMessage, string]{Name: "pay", Fields: []string{"amount", "to"},
		Run: func(_ context.Context, c executor.Call, _ json.RawMessage) (string, error) {
			s.world.Happen(c.Key, c.Attempt)
			return "paid", nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range []string{`{"to":"ada","amount":10,"trace":"1"}`, `{"amount":10,"to":"ada","trace":"2","token":"t"}`} {
		if r, err := h.Do(t.Context(), "order-1", json.RawMessage(in)); err != nil || r.Value != "paid" {
			t.Errorf("%s: %+v, %v", in, r, err)
		}
	}
	if _, err := h.Do(t.Context(), "order-1", json.RawMessage(`{"to":"ada","amount":11}`)); !errors.Is(err, ledger.ErrMismatch) {
		t.Errorf("another amount: %v", err)
	}
	if n := s.world.Total(); n != 1 {
		t.Errorf("paid %d times", n)
	}
}

// A shutdown with a hundred in flight: what is finished is recorded, the rest is
// in doubt.
func TestCaseE64(t *testing.T) {
	g := newGate()
	s := newShop(t, func(s *shop) { s.effect.Run = g.pass(s) })
	for i := range 100 {
		go func() { _, _ = s.h.Do(context.Background(), fmt.Sprint(i), "x") }()
	}
	for range 100 {
		<-g.begun
	}
	for range 40 {
		g.end <- nil
	}
	for s.l.UnsettledCount() > 60 { // the last of the forty is on its way to the disk
		runtime.Gosched()
	}
	s.disk.Kill()
	close(g.end)
	s.end()
	s.open()
	done, doubt := 0, 0
	for i := range 100 {
		switch _, state := s.entry(fmt.Sprint(i)); state {
		case journal.Confirmed:
			done++
		case journal.InDoubt:
			doubt++
		}
	}
	if done != 40 || doubt != 60 {
		t.Errorf("%d done, %d in doubt, want 40 and 60", done, doubt)
	}
}
