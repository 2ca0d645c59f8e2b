package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/ledger"
)

// bench is a ledger in a directory with an executor on it.
type bench struct {
	t   *testing.T
	dir string
	l   *ledger.Embedded
	x   *Executor
}

func newBench(t *testing.T, o Options) *bench {
	t.Helper()
	b := &bench{t: t, dir: filepath.Join(t.TempDir(), "state")}
	b.open(o)
	t.Cleanup(b.close)
	return b
}

func (b *bench) open(o Options) {
	b.t.Helper()
	var err error
	if b.l, err = ledger.Open(b.dir, ledger.Options{Create: true}); err != nil {
		b.t.Fatal(err)
	}
	if o.DrainEvery == 0 {
		o.DrainEvery = -1
	}
	if o.Backoff == 0 {
		o.Backoff = time.Microsecond
	}
	b.x = New(b.l, o)
}

func (b *bench) close() {
	b.t.Helper()
	if b.x == nil {
		return
	}
	if err := errors.Join(b.x.Close(context.Background()), b.l.Close()); err != nil {
		b.t.Error(err)
	}
	b.x = nil
}

// again is the next owner of the directory.
func (b *bench) again(o Options) {
	b.t.Helper()
	b.close()
	b.open(o)
}

func register[In, Out any](b *bench, e Effect[In, Out]) *Handle[In, Out] {
	b.t.Helper()
	if e.Name == "" {
		e.Name = "e"
	}
	h, err := Register(b.x, e)
	if err != nil {
		b.t.Fatal(err)
	}
	return h
}

func (b *bench) entry(item string) (journal.Entry, journal.State) {
	b.t.Helper()
	e, err := b.l.Get(journal.Key{Effect: "e", Item: item})
	if err != nil {
		b.t.Fatal(err)
	}
	return e, b.l.State(&e)
}

func (b *bench) is(item string, want journal.State) journal.Entry {
	b.t.Helper()
	e, s := b.entry(item)
	if s != want {
		b.t.Errorf("%s is %v (%+v), want %v", item, s, e, want)
	}
	return e
}

var errBroken = errors.New("broken")

// TestWhatRunSays: the state that each of Run's answers leads to, what Do returns,
// and what a duplicate gets, which never runs anything.
func TestWhatRunSays(t *testing.T) {
	isDoubt := func(err error) bool { return errors.Is(err, ledger.ErrInDoubt) }
	isNotApplied := func(err error) bool { var e *NotAppliedError; return errors.As(err, &e) }
	isPermanent := func(err error) bool { var e *PermanentError; return errors.As(err, &e) }
	isNil := func(err error) bool { return err == nil }
	isExpired := func(err error) bool { return errors.Is(err, ledger.ErrResultExpired) }
	for _, c := range []struct {
		name     string
		run      func(ctx context.Context) (any, error)
		want     journal.State
		cause    journal.Cause
		err, dup func(error) bool
	}{
		{"nil", func(context.Context) (any, error) { return "done", nil }, journal.Confirmed, journal.Run, isNil, isNil},
		{"not applied", func(context.Context) (any, error) { return nil, NotApplied(errBroken) }, journal.Released, journal.NotApplied, isNotApplied, nil},
		{"not applied, wrapped", func(context.Context) (any, error) { return nil, fmt.Errorf("send: %w", NotApplied(errBroken)) },
			journal.Released, journal.NotApplied, isNotApplied, nil},
		{"not applied, joined with another", func(context.Context) (any, error) { return nil, errors.Join(NotApplied(errBroken), errBroken) },
			journal.InDoubt, journal.Failed, isDoubt, isDoubt},
		{"not applied, one of two wrapped", func(context.Context) (any, error) { return nil, fmt.Errorf("%w, %w", NotApplied(errBroken), errBroken) },
			journal.InDoubt, journal.Failed, isDoubt, isDoubt},
		{"permanent", func(context.Context) (any, error) { return nil, Permanent(errBroken) }, journal.Confirmed, journal.Run, isPermanent, isPermanent},
		{"an error", func(context.Context) (any, error) { return nil, errBroken }, journal.InDoubt, journal.Failed, isDoubt, isDoubt},
		{"an error with a result", func(context.Context) (any, error) { return "done", errBroken }, journal.InDoubt, journal.Failed, isDoubt, isDoubt},
		{"the timeout", func(ctx context.Context) (any, error) { <-ctx.Done(); return nil, ctx.Err() }, journal.InDoubt, journal.TimedOut, isDoubt, isDoubt},
		{"done after the timeout", func(ctx context.Context) (any, error) { <-ctx.Done(); return "late", nil }, journal.Confirmed, journal.Run, isNil, isNil},
		{"a panic", func(context.Context) (any, error) { panic("oh") }, journal.InDoubt, journal.Panicked, isDoubt, isDoubt},
		{"a nil panic", func(context.Context) (any, error) { panic(nil) }, journal.InDoubt, journal.Panicked, isDoubt, isDoubt},
		{"a result that is no JSON", func(context.Context) (any, error) { return func() {}, nil }, journal.Confirmed, journal.Run, isNil, isExpired},
		{"a result that is too large", func(context.Context) (any, error) { return strings.Repeat("x", ledger.MaxResult), nil },
			journal.Confirmed, journal.Run, isExpired, isExpired},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, Options{})
			runs := 0
			h := register(b, Effect[string, any]{Timeout: 20 * time.Millisecond, Run: func(ctx context.Context, _ Call, _ string) (any, error) {
				runs++
				return c.run(ctx)
			}})
			_, err := h.Do(t.Context(), "i", "input", NoRetry())
			if c.name == "a result that is no JSON" {
				c.err = isExpired
			}
			if !c.err(err) {
				t.Errorf("Do: %v", err)
			}
			if e := b.is("i", c.want); e.Cause != c.cause {
				t.Errorf("cause %v, want %v", e.Cause, c.cause)
			}
			if c.dup == nil {
				return
			}
			for range 2 {
				r, err := h.Do(t.Context(), "i", "input")
				if !c.dup(err) || err == nil && !r.Replayed {
					t.Errorf("a duplicate: %+v, %v", r, err)
				}
				if runs != 1 {
					t.Errorf("%d runs", runs)
				}
			}
		})
	}
}

// TestRunEndsItsGoroutine: the attempt is in doubt, not forgotten in flight.
func TestRunEndsItsGoroutine(t *testing.T) {
	b := newBench(t, Options{})
	h := register(b, Effect[string, string]{Run: func(context.Context, Call, string) (string, error) {
		runtime.Goexit()
		return "", nil
	}})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = h.Do(context.Background(), "i", "") // does not return
	}()
	<-done
	b.is("i", journal.InDoubt)
}

func TestAttempts(t *testing.T) {
	b := newBench(t, Options{})
	runs, keys := 0, map[string]bool{}
	h := register(b, Effect[string, string]{MaxAttempts: 3, Run: func(_ context.Context, c Call, _ string) (string, error) {
		runs++
		keys[c.IdempotencyKey] = true
		if int(c.Attempt) != runs {
			t.Errorf("run %d is attempt %d", runs, c.Attempt)
		}
		return "", NotApplied(errBroken)
	}})
	var failed *PermanentError
	if _, err := h.Do(t.Context(), "i", ""); !errors.As(err, &failed) || runs != 3 {
		t.Errorf("%d runs, then %v", runs, err)
	}
	if e := b.is("i", journal.Confirmed); e.Cause != journal.Exhausted || !strings.Contains(e.Reason, "broken") {
		t.Errorf("exhausted as %+v", e)
	}
	if len(keys) != 1 {
		t.Errorf("idempotency keys %v of one key", keys)
	}
	if _, err := b.l.Forget(journal.Key{Effect: "e", Item: "i"}, "again"); err != nil {
		t.Fatal(err)
	}
	runs = 3
	if _, err := h.Do(t.Context(), "i", ""); !errors.As(err, &failed) || runs != 6 || len(keys) != 2 {
		t.Errorf("after a forgetting: runs to %d, keys %v, %v", runs, keys, err)
	}
}

func TestConcurrentDuplicatesRunOnce(t *testing.T) {
	b := newBench(t, Options{})
	var runs atomic.Int64
	begun, end := make(chan struct{}), make(chan struct{})
	h := register(b, Effect[string, string]{Run: func(context.Context, Call, string) (string, error) {
		runs.Add(1)
		close(begun)
		<-end
		return "done", nil
	}})
	var group sync.WaitGroup
	var replayed atomic.Int64
	do := func() {
		r, err := h.Do(t.Context(), "i", "input")
		if err != nil || r.Value != "done" {
			t.Errorf("%+v, %v", r, err)
		}
		if r.Replayed {
			replayed.Add(1)
		}
	}
	group.Go(do)
	<-begun
	for range 50 {
		group.Go(do)
	}
	if _, err := h.Do(t.Context(), "i", "input", NoWait()); !errors.Is(err, ledger.ErrInFlight) {
		t.Errorf("not waiting: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.Do(ctx, "i", "input"); !errors.Is(err, ledger.ErrInFlight) || !errors.Is(err, context.Canceled) {
		t.Errorf("waiting with a context that has ended: %v", err)
	}
	close(end)
	group.Wait()
	if runs.Load() != 1 || replayed.Load() != 50 {
		t.Errorf("%d runs, %d replayed", runs.Load(), replayed.Load())
	}
}

func TestInputs(t *testing.T) {
	type mail struct{ To, Subject string }
	b := newBench(t, Options{})
	run := func(_ context.Context, _ Call, m mail) (mail, error) { return m, nil }
	whole := register(b, Effect[mail, mail]{Name: "whole", Run: run})
	fields := register(b, Effect[mail, mail]{Name: "fields", Run: run, Fields: []string{"To"}})
	raw := register(b, Effect[json.RawMessage, []byte]{Name: "raw", Run: func(_ context.Context, _ Call, in json.RawMessage) ([]byte, error) { return in, nil }})
	for _, c := range []struct {
		what string
		do   func() (any, error)
		want string
		err  error
	}{
		{"first", func() (any, error) { r, err := whole.Do(t.Context(), "i", mail{"a", "s"}); return r.Value, err }, "{a s}", nil},
		{"same", func() (any, error) { r, err := whole.Do(t.Context(), "i", mail{"a", "s"}); return r.Value, err }, "{a s}", nil},
		{"other", func() (any, error) { r, err := whole.Do(t.Context(), "i", mail{"a", "x"}); return r.Value, err }, "{ }", ledger.ErrMismatch},
		{"first by a field", func() (any, error) { r, err := fields.Do(t.Context(), "i", mail{"a", "s"}); return r.Value, err }, "{a s}", nil},
		{"the field is the same", func() (any, error) { r, err := fields.Do(t.Context(), "i", mail{"a", "x"}); return r.Value, err }, "{a s}", nil},
		{"the field is another", func() (any, error) { r, err := fields.Do(t.Context(), "i", mail{"b", "s"}); return r.Value, err }, "{ }", ledger.ErrMismatch},
		{"bytes", func() (any, error) {
			r, err := raw.Do(t.Context(), "i", json.RawMessage(`{"a":1,"b":2}`))
			return string(r.Value), err
		}, `{"a":1,"b":2}`, nil},
		{"members in another order", func() (any, error) {
			r, err := raw.Do(t.Context(), "i", json.RawMessage(`{ "b": 2, "a": 1 }`))
			return string(r.Value), err
		}, `{"a":1,"b":2}`, nil},
		{"no item", func() (any, error) { r, err := raw.Do(t.Context(), "", nil); return string(r.Value), err }, "", journal.ErrBadKey},
	} {
		got, err := c.do()
		if !errors.Is(err, c.err) || fmt.Sprint(got) != c.want {
			t.Errorf("%s: %v, %v; want %s, %v", c.what, got, err, c.want, c.err)
		}
	}
}

func TestRegister(t *testing.T) {
	b := newBench(t, Options{})
	register(b, Effect[int, int]{Name: "e"})
	for _, e := range []Effect[int, int]{{}, {Name: "a b"}, {Name: "e"}, {Name: "f", MaxAttempts: -1}, {Name: "f", Timeout: -1}, {Name: "f", Idempotent: true}} {
		if _, err := Register(b.x, e); err == nil {
			t.Errorf("registered %+v", e)
		}
	}
	if _, err := Register(b.x, Effect[int, int]{Name: "e"}); !errors.Is(err, ErrDuplicateEffect) {
		t.Errorf("registered twice: %v", err)
	}
}

// TestMarkerWaitsForASlot: nothing is accepted ahead of a free slot, so that a
// crash leaves in doubt only what may really have run.
func TestMarkerWaitsForASlot(t *testing.T) {
	b := newBench(t, Options{Concurrency: 2})
	var running, most atomic.Int64
	begun, end := make(chan struct{}, 10), make(chan struct{})
	h := register(b, Effect[string, string]{Run: func(context.Context, Call, string) (string, error) {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		begun <- struct{}{}
		<-end
		return "", nil
	}})
	var group sync.WaitGroup
	for i := range 6 {
		group.Go(func() {
			if _, err := h.Do(t.Context(), fmt.Sprint(i), ""); err != nil {
				t.Error(err)
			}
		})
	}
	<-begun
	<-begun
	if n := b.l.UnsettledCount(); n != 2 {
		t.Errorf("%d markers for 2 slots", n)
	}
	close(end)
	group.Wait()
	if most.Load() > 2 {
		t.Errorf("%d runs at once", most.Load())
	}
}

// TestOutcomeOutlivesTheCaller: it is recorded although the caller has gone.
func TestOutcomeOutlivesTheCaller(t *testing.T) {
	b := newBench(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	h := register(b, Effect[string, string]{Run: func(context.Context, Call, string) (string, error) {
		cancel()
		return "done", nil
	}})
	if r, err := h.Do(ctx, "i", ""); err != nil || r.Value != "done" {
		t.Errorf("%+v, %v", r, err)
	}
	b.is("i", journal.Confirmed)
	if _, err := h.Do(ctx, "j", ""); !errors.Is(err, context.Canceled) {
		t.Errorf("a new key with a context that has ended: %v", err)
	}
	b.is("j", journal.Absent)
	if r, err := h.Do(ctx, "i", ""); err != nil || !r.Replayed {
		t.Errorf("a duplicate needs no time: %+v, %v", r, err)
	}
}

// TestDuplicatesDoNoIO: G5.
func TestDuplicatesDoNoIO(t *testing.T) {
	b := newBench(t, Options{})
	h := register(b, Effect[string, string]{Run: func(context.Context, Call, string) (string, error) { return "done", nil }})
	if _, err := h.Do(t.Context(), "i", ""); err != nil {
		t.Fatal(err)
	}
	before, err := b.l.Stat()
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if r, err := h.Do(t.Context(), "i", ""); err != nil || !r.Replayed {
			t.Fatal(r, err)
		}
	}
	if after, err := b.l.Stat(); err != nil || after.Log != before.Log {
		t.Errorf("the log was %+v and is %+v, %v", before.Log, after.Log, err)
	}
}

func TestClosed(t *testing.T) {
	b := newBench(t, Options{})
	begun, end := make(chan struct{}), make(chan struct{})
	h := register(b, Effect[string, string]{Run: func(context.Context, Call, string) (string, error) {
		close(begun)
		<-end
		return "done", nil
	}})
	done := make(chan error)
	go func() {
		_, err := h.Do(context.Background(), "i", "")
		done <- err
	}()
	<-begun
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.x.Close(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("closed while a run goes on: %v", err)
	}
	if _, err := h.Do(t.Context(), "j", ""); !errors.Is(err, ErrClosed) {
		t.Errorf("Do after Close: %v", err)
	}
	if _, err := b.x.Drain(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("Drain after Close: %v", err)
	}
	close(end)
	if err := <-done; err != nil {
		t.Errorf("the run that went on: %v", err)
	}
	b.is("i", journal.Confirmed)
	b.x = nil
	if err := b.l.Close(); err != nil {
		t.Error(err)
	}
}
