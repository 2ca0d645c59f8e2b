package fuzz

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/oncelog/oncelog/internal/durable"
	"github.com/oncelog/oncelog/internal/simdisk"
	"github.com/oncelog/oncelog/ledger"
)

// script is a fixed piece of work on a few keys, with compactions, rotations and
// a clean restart in it. It ends at the first error.
func (r *rig) script() error {
	for round := range 4 {
		for i := range 12 {
			for step := range 3 {
				if err := r.advance(keyOf(i%8), round*7+i*3+step); err != nil {
					return err
				}
			}
			if i%3 == 2 {
				if err := r.delta(); err != nil {
					return err
				}
			}
		}
		if err := r.compact(); err != nil {
			return err
		}
	}
	if err := r.l.Close(); err != nil {
		return err
	}
	r.l = nil
	return r.open()
}

// TestEveryOperation plans each event at each operation of the script, one after
// another, until the script has no such operation; then the process is restarted,
// goes on working, and the power is cut.
func TestEveryOperation(t *testing.T) {
	events := map[string]simdisk.Event{
		"cut before": simdisk.Cut, "cut after": simdisk.CutAfter, "lost": simdisk.FailLost,
		"persisted": simdisk.FailPersisted, "short": simdisk.FailShort, "full": simdisk.FailFull,
	}
	for _, store := range rigStores {
		for name, event := range events {
			for _, journaled := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/journaled=%v", store, name, journaled), func(t *testing.T) {
					t.Parallel()
					total := map[string]int{}
					stride := 1
					if testing.Short() {
						stride = 7
					}
					for k := 0; ; k += stride {
						r := newRig(rand.New(rand.NewPCG(uint64(k), 1)), store, mode(journaled)...)
						hit, err := r.runWithEvent(k, event)
						r.end()
						if err != nil {
							t.Fatalf("%s at operation %d: %v", name, k, err)
						}
						for what, n := range r.counts {
							total[what] += n
						}
						if !hit {
							break
						}
						total["events"]++
					}
					did(t, total, "events", "effects", "outcomes", "releases", "compactions", "deltas", "power cuts")
					if event == simdisk.FailShort {
						did(t, total, "torn tails")
					}
				})
			}
		}
	}
}

func mode(on bool) []simdisk.Option {
	if on {
		return []simdisk.Option{simdisk.Journal}
	}
	return nil
}

// runWithEvent runs the script with an event at operation k, and what comes after
// it. It reports whether the script had such an operation.
func (r *rig) runWithEvent(k int, event simdisk.Event) (hit bool, err error) {
	r.disk.At(k, event)
	err = r.open()
	if err == nil {
		err = r.script()
	}
	hit = r.disk.Ops() > k
	if err != nil && !isEvent(err) {
		return hit, fmt.Errorf("the script failed by itself: %w", err)
	}
	// Where nobody has heard of a failure, everything was promised, and must be
	// there after a power cut.
	if err := r.restart(r.disk.Off() || err == nil); err != nil {
		return hit, err
	}
	for i := range 8 {
		if err := r.advance(keyOf(i), k+i); err != nil {
			return hit, fmt.Errorf("work after the restart: %w", err)
		}
	}
	if err := r.restart(true); err != nil {
		return hit, err
	}
	return hit, r.restart(false)
}

// isEvent reports whether an error comes from a planned event.
func isEvent(err error) bool {
	return durable.IsFull(err) || errors.Is(err, simdisk.ErrPowerCut) || errors.Is(err, simdisk.ErrIO) ||
		errors.Is(err, ledger.ErrFull) || errors.Is(err, ledger.ErrFailed)
}

// TestLedgerStateMachine is random work on random keys with restarts, power cuts
// and failures at random operations.
func TestLedgerStateMachine(t *testing.T) {
	total := map[string]int{}
	for _, store := range rigStores {
		rapid.Check(t, func(t *rapid.T) {
			seed := rapid.Uint64().Draw(t, "disk")
			r := newRig(rand.New(rand.NewPCG(seed, 2)), store, mode(rapid.Bool().Draw(t, "journaled"))...)
			defer r.end()
			if rapid.Bool().Draw(t, "retention") {
				r.keep.Count = 1
			}
			if err := r.open(); err != nil {
				t.Fatal(err)
			}
			// step runs one action; an error of a planned event ends this life of
			// the process.
			step := func(err error) {
				if err == nil {
					return
				}
				if !isEvent(err) {
					t.Fatal(err)
				}
				if err := r.restart(r.disk.Off() || rapid.Bool().Draw(t, "power")); err != nil {
					t.Fatal(err)
				}
			}
			t.Repeat(map[string]func(*rapid.T){
				"work": func(t *rapid.T) {
					step(r.advance(keyOf(rapid.IntRange(0, 7).Draw(t, "key")), rapid.IntRange(0, 1000).Draw(t, "choice")))
				},
				"more work": func(t *rapid.T) {
					step(r.advance(keyOf(rapid.IntRange(0, 3).Draw(t, "key")), rapid.IntRange(0, 1000).Draw(t, "choice")))
				},
				"compact": func(t *rapid.T) { step(r.compact()) },
				"delta":   func(t *rapid.T) { step(r.delta()) },
				"plan": func(t *rapid.T) {
					event := rapid.SampledFrom([]simdisk.Event{simdisk.Cut, simdisk.CutAfter, simdisk.FailLost,
						simdisk.FailPersisted, simdisk.FailShort, simdisk.FailFull}).Draw(t, "event")
					r.disk.At(r.disk.Ops()+rapid.IntRange(0, 12).Draw(t, "in"), event)
				},
				"kill":      func(t *rapid.T) { fatal(t, r.restart(false)) },
				"cut power": func(t *rapid.T) { fatal(t, r.restart(true)) },
				"reopen": func(t *rapid.T) {
					before, err := stateOf(r.l)
					fatal(t, err)
					if err := r.l.Close(); err != nil {
						step(err)
						return
					}
					for range 2 {
						r.end()
						r.disk.Kill()
						fatal(t, r.open())
						after, err := stateOf(r.l)
						fatal(t, err)
						if !reflect.DeepEqual(after, before) {
							t.Fatalf("opened, it is %v, was %v", after, before)
						}
					}
				},
				"": func(t *rapid.T) {
					if r.l.Err() == nil {
						fatal(t, r.check())
					}
				},
			})
			for what, n := range r.counts {
				total[what] += n
			}
		})
	}
	did(t, total, "effects", "outcomes", "releases", "compactions", "deltas", "power cuts", "kills")
	if !testing.Short() { // which tries too few lives for what is rare
		needs(t, total, "let go", "torn tails")
	}
}

func fatal(t *rapid.T, err error) {
	if err != nil {
		t.Fatal(err)
	}
}
