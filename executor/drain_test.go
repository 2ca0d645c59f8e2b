package executor

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/ledger"
)

// orphan leaves a key accepted by an owner that is gone.
func (b *bench) orphan(o Options, items ...string) {
	b.t.Helper()
	for _, item := range items {
		in := []byte(`"input"`)
		d, err := b.l.Accept(b.t.Context(), journal.Key{Effect: "e", Item: item}, ledger.Input{Fingerprint: journal.Fingerprint(in), Data: in})
		if err != nil || !d.Granted {
			b.t.Fatal(d, err)
		}
	}
	b.again(o)
}

func (b *bench) drain() DrainReport {
	b.t.Helper()
	r, err := b.x.Drain(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

func answer(v Verdict, evidence string, err error) func(context.Context, Call, string) (Verdict, string, error) {
	return func(context.Context, Call, string) (Verdict, string, error) { return v, evidence, err }
}

func TestInDoubt(t *testing.T) {
	for _, c := range []struct {
		name   string
		effect Effect[string, string]
		want   journal.State
		report DrainReport
		note   string
	}{
		{"held", Effect[string, string]{}, journal.InDoubt, DrainReport{Held: 1}, ""},
		{"landed", Effect[string, string]{Check: answer(Landed, "in the sent folder", nil)}, journal.Confirmed, DrainReport{Landed: 1}, "in the sent folder"},
		{"not landed", Effect[string, string]{Check: answer(NotLanded, "not there", nil)}, journal.Released, DrainReport{Released: 1}, "not there"},
		{"unknown", Effect[string, string]{Check: answer(Unknown, "who knows", nil)}, journal.InDoubt, DrainReport{Held: 1}, "who knows"},
		{"an error is no verdict", Effect[string, string]{Check: answer(NotLanded, "", errBroken)}, journal.InDoubt, DrainReport{Held: 1}, "check: broken"},
		{"nonsense is no verdict", Effect[string, string]{Check: answer(7, "?", nil)}, journal.InDoubt, DrainReport{Held: 1}, "?"},
		{"a panic is no verdict", Effect[string, string]{Check: func(context.Context, Call, string) (Verdict, string, error) { panic("oh") }},
			journal.InDoubt, DrainReport{Held: 1}, "check: panic: oh"},
		{"before Settle not landed does not count", Effect[string, string]{Settle: time.Hour, Check: answer(NotLanded, "not yet", nil)},
			journal.InDoubt, DrainReport{Held: 1}, "not landed, which counts only 1h0m0s after its owner was gone: not yet"},
		{"before Settle landed counts", Effect[string, string]{Settle: time.Hour, Check: answer(Landed, "there", nil)}, journal.Confirmed, DrainReport{Landed: 1}, "there"},
		{"idempotent within its Window", Effect[string, string]{Idempotent: true, Window: time.Hour}, journal.Released, DrainReport{Released: 1}, "within 1h0m0s of the first attempt"},
		{"idempotent after its Window", Effect[string, string]{Idempotent: true, Window: time.Nanosecond}, journal.InDoubt, DrainReport{Held: 1}, ""},
		{"a check comes before idempotence", Effect[string, string]{Idempotent: true, Window: time.Hour, Check: answer(Landed, "there", nil)},
			journal.Confirmed, DrainReport{Landed: 1}, "there"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, Options{})
			b.orphan(Options{}, "i")
			c.effect.Run = func(context.Context, Call, string) (string, error) { t.Error("it ran"); return "", nil }
			register(b, c.effect)
			if got := b.drain(); got != c.report {
				t.Errorf("report %+v, want %+v", got, c.report)
			}
			e := b.is("i", c.want)
			if last := e.Events()[len(e.Events())-1]; last.Note != c.note {
				t.Errorf("the history ends with %q, want %q", last.Note, c.note)
			}
			n := len(e.Events())
			b.drain()
			if e := b.is("i", c.want); len(e.Events()) != n {
				t.Error("the same evidence again was recorded again")
			}
		})
	}
}

// TestWindowAndTheClock: a clock that was set back since the first attempt counts
// as too late.
func TestWindowAndTheClock(t *testing.T) {
	x := &Executor{}
	e := &effect{window: time.Hour}
	now := time.Now().UnixMilli()
	for at, want := range map[int64]bool{now - 1000: true, now - 3_599_000: true, now - 3_601_000: false, now + 60_000: false} {
		if got := x.remembered(e, &journal.Entry{AcceptedAt: at}); got != want {
			t.Errorf("first attempt %d ms ago: %v", now-at, got)
		}
	}
	lost := &journal.Entry{AcceptedAt: now, History: []journal.Event{{Kind: journal.KindDoubt, Cause: journal.Amnesia}}}
	if x.remembered(e, lost) {
		t.Error("the first attempt of a key that the ledger has lost is not known")
	}
}

// TestSettleIsCountedFromTheEndOfTheAttempt, by this process's own clock.
func TestSettleIsCountedFromTheEndOfTheAttempt(t *testing.T) {
	b := newBench(t, Options{})
	const settle = 300 * time.Millisecond
	h := register(b, Effect[string, string]{Settle: settle, Check: answer(NotLanded, "not there", nil),
		Run: func(context.Context, Call, string) (string, error) { return "", errBroken }})
	time.Sleep(settle) // the executor is older than that
	ended := time.Now()
	if _, err := h.Do(t.Context(), "i", ""); !errors.Is(err, ledger.ErrInDoubt) {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; {
		b.drain()
		_, s := b.entry("i")
		if s == journal.Released {
			break
		}
		if s != journal.InDoubt || time.Now().After(deadline) {
			t.Fatalf("it is %v", s)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if d := time.Since(ended); d < settle {
		t.Errorf("not landed counted after %v, Settle is %v", d, settle)
	}
}

func TestDrainRunsAgainWhatDidNotHappen(t *testing.T) {
	b := newBench(t, Options{})
	b.orphan(Options{}, "i", "j")
	runs := atomic.Int64{}
	register(b, Effect[string, string]{KeepInput: true, Check: answer(NotLanded, "not there", nil), Run: func(_ context.Context, c Call, in string) (string, error) {
		if runs.Add(1); in != "input" || c.Attempt != 2 {
			t.Errorf("attempt %d with input %q", c.Attempt, in)
		}
		return "done", nil
	}})
	if r := b.drain(); r.Released != 2 || r.Reran != 2 || runs.Load() != 2 {
		t.Errorf("%+v, %d runs", r, runs.Load())
	}
	b.is("i", journal.Confirmed)
	b.drain()
	if runs.Load() != 2 {
		t.Errorf("%d runs", runs.Load())
	}
}

// TestOutage: confirms that fail stop no effect and cause none.
func TestOutage(t *testing.T) {
	b := newBench(t, Options{MaxJournal: 20})
	var down atomic.Bool
	var runs, told atomic.Int64
	effect := Effect[string, string]{
		Run: func(context.Context, Call, string) (string, error) { runs.Add(1); return "done", nil },
		Confirm: func(_ context.Context, _ Call, o Outcome[string]) error {
			if down.Load() {
				return errors.New("500")
			}
			if o.Value != "done" {
				t.Errorf("confirmed with %+v", o)
			}
			told.Add(1)
			return nil
		},
	}
	h := register(b, effect)
	down.Store(true)
	for i := range 20 {
		for range 3 {
			if _, err := h.Do(t.Context(), fmt.Sprint(i), ""); err != nil {
				t.Fatal(err)
			}
		}
	}
	if r := b.drain(); r.Unconfirmed != 20 {
		t.Errorf("%+v", r)
	}
	// The journal is full: new work waits, duplicates do not.
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := h.Do(ctx, "new", ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("new work on a full journal: %v", err)
	}
	b.is("new", journal.Absent)
	b.again(Options{})
	h = register(b, effect)
	down.Store(false)
	if r := b.drain(); r.Confirmed != 20 || told.Load() != 20 {
		t.Errorf("%+v, told %d", r, told.Load())
	}
	if _, err := h.Do(t.Context(), "new", ""); err != nil {
		t.Error(err)
	}
	if runs.Load() != 21 {
		t.Errorf("%d runs of 21 items", runs.Load())
	}
}

func TestOtherEffectsAreLeftAlone(t *testing.T) {
	b := newBench(t, Options{})
	b.orphan(Options{}, "i")
	if r := b.drain(); r != (DrainReport{Unknown: 1}) {
		t.Errorf("%+v", r)
	}
	b.is("i", journal.InDoubt)
}

// TestConfirmIsNotSkipped: what was executed under a Confirm stays in the journal
// of an executor that has none.
func TestConfirmIsNotSkipped(t *testing.T) {
	b := newBench(t, Options{})
	run := func(context.Context, Call, string) (string, error) { return "done", nil }
	h := register(b, Effect[string, string]{Run: run, Confirm: func(context.Context, Call, Outcome[string]) error { return errBroken }})
	if _, err := h.Do(t.Context(), "i", ""); err != nil {
		t.Fatal(err)
	}
	b.again(Options{})
	register(b, Effect[string, string]{Run: run})
	if r := b.drain(); r.Unconfirmed != 1 {
		t.Errorf("%+v", r)
	}
	b.is("i", journal.Executed)
}

// TestBackground: the journal is drained by itself, again and again, and WaitReady
// waits for the first pass.
func TestBackground(t *testing.T) {
	b := newBench(t, Options{})
	b.orphan(Options{DrainEvery: time.Millisecond}, "i")
	var asked atomic.Int64
	h := register(b, Effect[string, string]{
		Run: func(context.Context, Call, string) (string, error) { return "done", nil },
		Check: func(context.Context, Call, string) (Verdict, string, error) {
			if asked.Add(1) < 4 {
				return Unknown, "", errBroken
			}
			return Landed, "there", nil
		}})
	if err := b.x.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	if asked.Load() == 0 {
		t.Error("ready before anything was asked")
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, s := b.entry("i"); s == journal.Confirmed {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("not drained in the background")
		}
	}
	if _, err := h.Do(t.Context(), "i", "input"); !errors.Is(err, ledger.ErrResultExpired) {
		t.Errorf("a duplicate of what a check found: %v", err)
	}
}

// TestStrict: no new work before a drain has looked at what earlier owners left.
func TestStrict(t *testing.T) {
	b := newBench(t, Options{})
	b.orphan(Options{Strict: true}, "i")
	h := register(b, Effect[string, string]{Run: func(context.Context, Call, string) (string, error) { return "done", nil }})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := h.Do(ctx, "new", ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("new work before the drain: %v", err)
	}
	b.is("new", journal.Absent)
	b.drain()
	if _, err := h.Do(t.Context(), "new", ""); err != nil {
		t.Errorf("new work after the drain: %v", err)
	}
}

// TestDecidedIsForgotten: what is known of an attempt in doubt costs nothing any more
// once it is decided, in whichever way.
func TestDecidedIsForgotten(t *testing.T) {
	for _, c := range []struct {
		name    string
		verdict Verdict
		resolve bool // by an operator
		again   bool // and tried again
	}{
		{"landed", Landed, false, false},
		{"not landed", NotLanded, false, false},
		{"not landed, again", NotLanded, false, true},
		{"an operator", Unknown, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, Options{DrainEvery: -1})
			runs := 0
			h := register(b, Effect[string, string]{Check: answer(c.verdict, "", nil), Run: func(context.Context, Call, string) (string, error) {
				if runs++; runs > 1 {
					return "done", nil
				}
				return "", errBroken
			}})
			if _, err := h.Do(t.Context(), "item", "input", NoRetry()); !errors.Is(err, ledger.ErrInDoubt) {
				t.Fatal(err)
			}
			if len(b.x.gone) != 1 {
				t.Fatalf("in doubt: %v", b.x.gone)
			}
			if c.resolve {
				if _, err := b.l.Resolve(journal.Key{Effect: "e", Item: "item"}, true, "seen"); err != nil {
					t.Fatal(err)
				}
			}
			b.drain()
			if c.again {
				if _, err := h.Do(t.Context(), "item", "input"); err != nil {
					t.Fatal(err)
				}
			}
			if len(b.x.gone) != 0 {
				t.Errorf("decided: %v", b.x.gone)
			}
		})
	}
}
