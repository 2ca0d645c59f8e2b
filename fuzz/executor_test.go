package fuzz

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/oncelog/oncelog/executor"
	"github.com/oncelog/oncelog/internal/simdisk"
	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/ledger"
)

// house is an executor on a rig, with a backend and a far side that tells the
// truth when it answers.
type house struct {
	*rig
	x *executor.Executor
	h *executor.Handle[string, string]

	mu     sync.Mutex // guards the fields below
	rng    *rand.Rand
	outage bool // confirms fail
	silent bool // checks do not answer
	told   map[string]int
}

// open opens ledger and executor.
func (h *house) open() error {
	if err := h.rig.open(); err != nil {
		return err
	}
	h.x = executor.New(h.l, executor.Options{DrainEvery: -1, Backoff: time.Microsecond, Confirmers: 4})
	var err error
	h.h, err = executor.Register(h.x, executor.Effect[string, string]{
		Name: "e", Run: h.run, Check: h.check, Confirm: h.confirmed, MaxAttempts: 3, KeepInput: true,
	})
	return err
}

func (h *house) roll(n int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rng.IntN(n)
}

// run makes the effect happen, or not, and says so, or something else that an
// honest effect may say.
func (h *house) run(_ context.Context, c executor.Call, in string) (string, error) {
	how := h.roll(10)
	if how < 6 {
		h.world.Happen(c.Key, c.Attempt)
	}
	switch how {
	case 0:
		return "", errors.New("the answer was lost")
	case 1:
		panic("after the effect")
	case 2, 3, 4, 5:
		return "result of " + in, nil
	case 6:
		return "", executor.NotApplied(errors.New("nobody listened"))
	case 7:
		return "", errors.New("the request was lost")
	case 8:
		panic("before the effect")
	}
	return "", executor.Permanent(errors.New("no such address"))
}

func (h *house) check(_ context.Context, c executor.Call, _ string) (executor.Verdict, string, error) {
	h.mu.Lock()
	silent := h.silent
	h.mu.Unlock()
	switch {
	case silent:
		return executor.Unknown, "", errors.New("no answer")
	case h.world.Count(c.Key) > 0:
		return executor.Landed, "it is there", nil
	}
	return executor.NotLanded, "it is not there", nil
}

func (h *house) confirmed(_ context.Context, c executor.Call, _ executor.Outcome[string]) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.outage {
		return errors.New("500")
	}
	h.told[c.Key.Item]++
	return nil
}

// shut ends the process.
func (h *house) shut() error {
	if h.x == nil {
		return nil
	}
	err := h.x.Close(context.Background())
	h.x = nil
	return err
}

// doMany calls Do for random items from several goroutines at once.
func (h *house) doMany(n, items int) error {
	var group sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		item := fmt.Sprintf("item-%d", h.roll(items))
		group.Go(func() { errs[i] = h.doOne(item) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// doOne fails for what Do must not answer.
func (h *house) doOne(item string) error {
	key := journal.Key{Effect: "e", Item: item}
	r, err := h.h.Do(context.Background(), item, "input of "+item)
	var failed *executor.PermanentError
	var notApplied *executor.NotAppliedError
	switch n := h.world.Count(key); {
	case err == nil && n != 1:
		e, _ := h.l.Get(key)
		return fmt.Errorf("Do of %v says done (%q, replayed: %v), and the effect happened %d times: %+v", key, r.Value, r.Replayed, n, e)
	case err == nil && r.Value != "result of input of "+item:
		return fmt.Errorf("Do of %v gives %q", key, r.Value)
	case errors.As(err, &failed) && n != 0:
		return fmt.Errorf("Do of %v says %w, and the effect happened", key, err)
	case err == nil, errors.As(err, &failed), errors.As(err, &notApplied), errors.Is(err, ledger.ErrInDoubt), isEvent(err):
		return nil
	case errors.Is(err, ledger.ErrResultExpired) && n == 1:
		return nil // a check found it: done, and the result is not known
	}
	return err
}

// doubles fails if any effect happened twice: this far side gives no cause for it.
func (h *house) doubles() error {
	if d := h.world.Doubles(); len(d) > 0 {
		return fmt.Errorf("G1: %v", d)
	}
	return nil
}

// again ends the process, or cuts the power, and opens what is left.
func (h *house) again(power bool) error {
	// What runs when the process dies is over: here it ends first.
	if err := h.shut(); err != nil {
		return err
	}
	if power {
		h.disk.Crash()
		h.counts["power cuts"]++
	} else {
		h.disk.Kill()
		h.counts["kills"]++
	}
	h.end()
	if err := h.open(); err != nil {
		return err
	}
	return h.sound()
}

// sound compares the ledger with the world after an open.
func (h *house) sound() error {
	for i := range houseItems {
		key := keyOf(i)
		e, err := h.l.Get(key)
		if err != nil {
			return err
		}
		if h.world.Count(key) > 0 && !e.Known() {
			return fmt.Errorf("G3: the effect of %v happened and the key is absent", key)
		}
		if s := h.l.State(&e); s == journal.Accepted {
			return fmt.Errorf("%v is in flight after an open", key)
		}
		h.mu.Lock()
		told := h.told[key.Item]
		h.mu.Unlock()
		if told > 0 && !e.State.Done() {
			return fmt.Errorf("the backend was told that %v is done, and the ledger says %v", key, e.State)
		}
	}
	return h.doubles()
}

// settle ends outage and silence; then every key that was accepted must become
// settled: nothing is forgotten.
func (h *house) settle() error {
	h.mu.Lock()
	h.outage, h.silent = false, false
	h.mu.Unlock()
	for range 12 {
		if _, err := h.x.Drain(context.Background()); err != nil {
			return err
		}
	}
	// Confirms are not waited for; a proper close makes them durable.
	if err := h.shut(); err != nil {
		return err
	}
	if err := h.l.Close(); err != nil {
		return err
	}
	h.l = nil
	h.disk.Kill()
	if err := h.open(); err != nil {
		return err
	}
	for key, e := range h.l.Unsettled() {
		return fmt.Errorf("G2: %v is %v after everything was answered: %+v", key, h.l.State(&e), e)
	}
	return h.sound()
}

const houseItems = 6

// TestExecutorStateMachine is the whole executor with concurrent duplicates,
// outages, checks that do not answer, operators, compactions, kills, power cuts
// and failures at random operations. No effect may happen twice, and once
// everything answers again every accepted key becomes settled.
func TestExecutorStateMachine(t *testing.T) {
	total := map[string]int{}
	for _, store := range rigStores {
		rapid.Check(t, func(t *rapid.T) {
			seed := rapid.Uint64().Draw(t, "seed")
			h := &house{rig: newRig(rand.New(rand.NewPCG(seed, 3)), store, mode(rapid.Bool().Draw(t, "journaled"))...),
				rng: rand.New(rand.NewPCG(seed, 4)), told: map[string]int{}}
			if rapid.Bool().Draw(t, "retention") {
				h.keep.Results = 1
			}
			fatal(t, h.open())
			defer func() {
				_ = h.shut() // the test is over
				h.end()
			}()
			// step runs one action; where an event has stopped the ledger, this
			// life of the process ends.
			step := func(err error) {
				if err != nil && !isEvent(err) {
					t.Fatal(err)
				}
				fatal(t, h.doubles())
				if err != nil || h.l.Err() != nil {
					h.counts["events"]++
					fatal(t, h.again(h.disk.Off() || rapid.Bool().Draw(t, "power")))
				}
			}
			drain := func(t *rapid.T) {
				_, err := h.x.Drain(context.Background())
				step(err)
			}
			t.Repeat(map[string]func(*rapid.T){
				"do":      func(t *rapid.T) { step(h.doMany(rapid.IntRange(1, 6).Draw(t, "calls"), houseItems)) },
				"do more": func(t *rapid.T) { step(h.doMany(rapid.IntRange(1, 6).Draw(t, "calls"), 2)) },
				"drain":   drain,
				"outage": func(t *rapid.T) {
					h.mu.Lock()
					defer h.mu.Unlock()
					h.outage, h.silent = rapid.Bool().Draw(t, "outage"), rapid.Bool().Draw(t, "silent")
				},
				"operator": func(t *rapid.T) { step(h.operate(rapid.IntRange(0, houseItems-1).Draw(t, "key"))) },
				"compact": func(t *rapid.T) {
					_, err := h.l.Compact()
					h.counts["compactions"]++
					step(err)
				},
				"delta": func(t *rapid.T) {
					s, err := h.l.Snapshot()
					h.counts["deltas"] += min(s.Deltas, 1)
					step(err)
				},
				"plan": func(t *rapid.T) {
					event := rapid.SampledFrom([]simdisk.Event{simdisk.Cut, simdisk.CutAfter, simdisk.FailLost,
						simdisk.FailPersisted, simdisk.FailShort, simdisk.FailFull}).Draw(t, "event")
					h.disk.At(h.disk.Ops()+rapid.IntRange(0, 20).Draw(t, "in"), event)
				},
				"kill":      func(t *rapid.T) { fatal(t, h.again(false)) },
				"cut power": func(t *rapid.T) { fatal(t, h.again(true)) },
			})
			fatal(t, h.again(rapid.Bool().Draw(t, "power")))
			fatal(t, h.settle())
			h.counts["effects"] += h.world.Total()
			for what, n := range h.counts {
				total[what] += n
			}
		})
	}
	did(t, total, "effects", "events", "compactions", "power cuts", "kills")
	if !testing.Short() { // which tries too few lives for what is rare
		needs(t, total, "operators")
	}
}

// operate is an operator who knows the truth.
func (h *house) operate(i int) error {
	key := keyOf(i)
	e, err := h.l.Get(key)
	if err != nil || h.l.State(&e) != journal.InDoubt {
		return err
	}
	h.counts["operators"]++
	_, err = h.l.Resolve(key, h.world.Count(key) > 0, "a person looked")
	return err
}
