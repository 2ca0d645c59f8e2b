// Package ledgertest is the contract of a ledger as tests. Every implementation
// of [ledger.Ledger] passes them.
//
// # Invariants
//
//   - It uses the contract only, nothing that one implementation has besides.
package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/ledger"
)

// A Place is where a ledger is kept.
type Place interface {
	// Open opens the ledger as a new owner; the earlier one is gone.
	Open(t *testing.T) ledger.Ledger
}

// Run runs all tests, each on a place of its own.
func Run(t *testing.T, place func(t *testing.T) Place) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Place)
	}{
		{"a fresh key is granted once", grantedOnce},
		{"concurrent accepts grant one", grantsOne},
		{"an outcome is given to duplicates", outcomeIsKept},
		{"a permanent failure is an outcome", failureIsAnOutcome},
		{"a release permits the next attempt", releasePermits},
		{"which causes release which state", causesOfRelease},
		{"the death of the owner is doubt", deathIsDoubt},
		{"late outcomes", lateOutcomes},
		{"a conflict shows and stays", conflictShows},
		{"another input is refused", mismatch},
		{"an attempt is granted only as decided", grantedAsDecided},
		{"confirm settles", confirmSettles},
		{"await waits for the outcome", awaitWaits},
		{"the journal lists what is unsettled", journalLists},
		{"an operator decides", operatorDecides},
		{"forget makes a key fresh", forgetMakesFresh},
		{"bad input is refused and changes nothing", badInput},
		{"a closed ledger says so", closedSaysSo},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, place(t)) })
	}
}

var key = journal.Key{Effect: "send-email", Item: "lead-17"}

func open(t *testing.T, p Place) ledger.Ledger {
	t.Helper()
	l := p.Open(t)
	t.Cleanup(func() { _ = l.Close() }) // a test may have closed it
	return l
}

// accept must be granted.
func accept(t *testing.T, l ledger.Ledger, k journal.Key) uint32 {
	t.Helper()
	d, err := l.Accept(context.Background(), k, ledger.Input{Fingerprint: 7, Data: []byte("input")})
	if err != nil || !d.Granted {
		t.Fatalf("accept of %v: %+v, %v", k, d, err)
	}
	return d.Entry.Attempt
}

func refused(t *testing.T, l ledger.Ledger, k journal.Key, want journal.State) ledger.Decision {
	t.Helper()
	d, err := l.Accept(context.Background(), k, ledger.Input{Fingerprint: 7})
	if err != nil || d.Granted || d.State != want {
		t.Fatalf("accept of %v: %+v, %v; want %v and not granted", k, d, err, want)
	}
	return d
}

func execute(t *testing.T, l ledger.Ledger, k journal.Key, attempt uint32, settles bool) journal.Entry {
	t.Helper()
	e, err := l.Execute(k, attempt, ledger.Outcome{Result: []byte("result"), Settles: settles, Cause: journal.Run})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func state(t *testing.T, l ledger.Ledger, k journal.Key, want journal.State) journal.Entry {
	t.Helper()
	e, err := l.Get(k)
	if err != nil || l.State(&e) != want {
		t.Fatalf("%v is %v (%+v), %v; want %v", k, l.State(&e), e, err, want)
	}
	return e
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wants(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
}

func grantedOnce(t *testing.T, p Place) {
	l := open(t, p)
	state(t, l, key, journal.Absent)
	if n := accept(t, l, key); n != 1 {
		t.Errorf("the first attempt is number %d", n)
	}
	e := state(t, l, key, journal.Accepted)
	if string(e.Input) != "input" || e.Fingerprint != 7 {
		t.Errorf("the input is not kept: %+v", e)
	}
	refused(t, l, key, journal.Accepted)
	accept(t, l, journal.Key{Effect: "other", Item: key.Item}) // two effects on an item are two keys
}

func grantsOne(t *testing.T, p Place) {
	l := open(t, p)
	var group sync.WaitGroup
	granted := make(chan uint32, 64)
	for range cap(granted) {
		group.Go(func() {
			d, err := l.Accept(context.Background(), key, ledger.Input{})
			if err != nil {
				t.Error(err)
			}
			if d.Granted {
				granted <- d.Entry.Attempt
			}
		})
	}
	group.Wait()
	if len(granted) != 1 {
		t.Errorf("%d of %d concurrent accepts were granted", len(granted), cap(granted))
	}
}

func outcomeIsKept(t *testing.T, p Place) {
	l := open(t, p)
	execute(t, l, key, accept(t, l, key), true)
	for range 2 {
		d := refused(t, l, key, journal.Confirmed)
		if string(d.Entry.Result) != "result" {
			t.Errorf("a duplicate gets %q", d.Entry.Result)
		}
		must(t, l.Close())
		l = open(t, p)
	}
	before := state(t, l, key, journal.Confirmed).LSN
	if after := execute(t, l, key, 1, true); after.LSN != before || after.Conflict {
		t.Errorf("the same outcome again changed the entry: %+v", after)
	}
}

func failureIsAnOutcome(t *testing.T, p Place) {
	l := open(t, p)
	_, err := l.Execute(key, accept(t, l, key), ledger.Outcome{Failed: true, Reason: "no such address", Cause: journal.Run})
	must(t, err)
	if e := refused(t, l, key, journal.Executed).Entry; !e.Failed || e.Reason != "no such address" {
		t.Errorf("a duplicate gets %+v", e)
	}
}

func releasePermits(t *testing.T, p Place) {
	l := open(t, p)
	for want := uint32(1); want <= 3; want++ {
		n := accept(t, l, key)
		if n != want {
			t.Fatalf("attempt %d, want %d", n, want)
		}
		_, err := l.Release(key, n, journal.NotApplied, "nobody listened")
		must(t, err)
		state(t, l, key, journal.Released)
	}
	if e := execute(t, l, key, accept(t, l, key), true); e.Attempt != 4 {
		t.Errorf("executed by attempt %d", e.Attempt)
	}
}

func causesOfRelease(t *testing.T, p Place) {
	l := open(t, p)
	// While an attempt runs, only its owner's word releases it.
	n := accept(t, l, key)
	for _, cause := range []journal.Cause{journal.NotLanded, journal.Idempotent, journal.Operator} {
		_, err := l.Release(key, n, cause, "")
		wants(t, err, ledger.ErrInFlight)
	}
	if _, err := l.Doubt(key, n, journal.Unknown, ""); !errors.Is(err, ledger.ErrInFlight) {
		t.Errorf("a check put a running attempt in doubt: %v", err)
	}
	_, err := l.Doubt(key, n, journal.Failed, "lost")
	must(t, err)
	state(t, l, key, journal.InDoubt)
	_, err = l.Release(key, n, journal.Idempotent, "")
	must(t, err)
	// What is executed is released by an operator only.
	n = accept(t, l, key)
	execute(t, l, key, n, false)
	for _, cause := range []journal.Cause{journal.Idempotent, journal.NotLanded} {
		_, err = l.Release(key, n, cause, "not in the sent folder")
		wants(t, err, ledger.ErrFenced)
	}
	_, err = l.Release(key, n, journal.Operator, "not in the sent folder")
	must(t, err)
	state(t, l, key, journal.Released)
	// An attempt that a later one has followed is not released any more.
	accept(t, l, key)
	_, err = l.Release(key, n, journal.NotLanded, "")
	wants(t, err, ledger.ErrFenced)
	_, err = l.Release(key, 99, journal.NotApplied, "")
	wants(t, err, ledger.ErrFenced)
}

func deathIsDoubt(t *testing.T, p Place) {
	l := open(t, p)
	n := accept(t, l, key)
	must(t, l.Close())
	l = open(t, p)
	state(t, l, key, journal.InDoubt)
	refused(t, l, key, journal.InDoubt)
	_, err := l.Release(key, n, journal.NotLanded, "not there")
	must(t, err)
	if m := accept(t, l, key); m != n+1 {
		t.Errorf("attempt %d after %d", m, n)
	}
}

func lateOutcomes(t *testing.T, p Place) {
	l := open(t, p)
	// In doubt: taken.
	n := accept(t, l, key)
	_, err := l.Doubt(key, n, journal.TimedOut, "")
	must(t, err)
	execute(t, l, key, n, true)
	state(t, l, key, journal.Confirmed)
	// Released, and no other attempt yet: taken, so that none runs.
	k := journal.Key{Effect: "e", Item: "late"}
	n = accept(t, l, k)
	_, err = l.Release(k, n, journal.NotApplied, "")
	must(t, err)
	execute(t, l, k, n, true)
	refused(t, l, k, journal.Confirmed)
	if e := state(t, l, k, journal.Confirmed); e.Conflict {
		t.Errorf("one effect is no conflict: %+v", e)
	}
}

func conflictShows(t *testing.T, p Place) {
	l := open(t, p)
	first := accept(t, l, key)
	_, err := l.Doubt(key, first, journal.TimedOut, "")
	must(t, err)
	_, err = l.Release(key, first, journal.NotLanded, "not there yet")
	must(t, err)
	second := accept(t, l, key)
	// The first attempt did happen: an effect will have happened twice.
	if e := execute(t, l, key, first, true); !e.Conflict || e.Attempt != second {
		t.Errorf("a late word of attempt %d: %+v", first, e)
	}
	execute(t, l, key, second, true)
	must(t, l.Close())
	l = open(t, p)
	if e := state(t, l, key, journal.Confirmed); !e.Conflict {
		t.Errorf("the conflict is gone: %+v", e)
	}
}

func mismatch(t *testing.T, p Place) {
	l := open(t, p)
	n := accept(t, l, key)
	for range 2 {
		_, err := l.Accept(context.Background(), key, ledger.Input{Fingerprint: 8})
		wants(t, err, ledger.ErrMismatch)
		execute(t, l, key, n, true)
	}
	d, err := l.Accept(context.Background(), key, ledger.Input{})
	if err != nil || d.State != journal.Confirmed {
		t.Errorf("no fingerprint compares with everything: %+v, %v", d, err)
	}
}

func grantedAsDecided(t *testing.T, p Place) {
	l := open(t, p)
	n := accept(t, l, key)
	_, err := l.Release(key, n, journal.NotApplied, "")
	must(t, err)
	d, err := l.Accept(context.Background(), key, ledger.Input{Fingerprint: 7, Attempt: n})
	if err != nil || d.Granted || d.State != journal.Released {
		t.Errorf("attempt %d again: %+v, %v", n, d, err)
	}
	d, err = l.Accept(context.Background(), key, ledger.Input{Fingerprint: 7, Attempt: n + 1})
	if err != nil || !d.Granted {
		t.Errorf("attempt %d: %+v, %v", n+1, d, err)
	}
}

func confirmSettles(t *testing.T, p Place) {
	l := open(t, p)
	n := accept(t, l, key)
	wants(t, l.Confirm(key, n, true), ledger.ErrFenced)
	execute(t, l, key, n, false)
	state(t, l, key, journal.Executed)
	must(t, l.Confirm(key, n, true))
	must(t, l.Confirm(key, n, true))
	state(t, l, key, journal.Confirmed)
	// Not waited for, it is there after a proper close.
	k := journal.Key{Effect: "e", Item: "soon"}
	execute(t, l, k, accept(t, l, k), false)
	must(t, l.Confirm(k, 1, false))
	must(t, l.Close())
	state(t, open(t, p), k, journal.Confirmed)
}

func awaitWaits(t *testing.T, p Place) {
	l := open(t, p)
	n := accept(t, l, key)
	got := make(chan journal.Entry, 1)
	go func() {
		e, err := l.Await(context.Background(), key)
		if err != nil {
			t.Error(err)
		}
		got <- e
	}()
	select {
	case e := <-got:
		t.Errorf("await did not wait: %+v", e)
	case <-time.After(20 * time.Millisecond): // a wrong answer would come at once
	}
	execute(t, l, key, n, true)
	if e := <-got; string(e.Result) != "result" {
		t.Errorf("await gives %+v", e)
	}
	k := journal.Key{Effect: "e", Item: "runs"}
	accept(t, l, k)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := l.Await(ctx, k)
	wants(t, err, ledger.ErrInFlight)
	wants(t, err, context.Canceled)
}

func journalLists(t *testing.T, p Place) {
	l := open(t, p)
	keys := make([]journal.Key, 6)
	for i := range keys {
		keys[i] = journal.Key{Effect: "e", Item: fmt.Sprint(i)}
		accept(t, l, keys[i])
	}
	execute(t, l, keys[0], 1, true)
	execute(t, l, keys[1], 1, false)
	_, err := l.Doubt(keys[2], 1, journal.Failed, "")
	must(t, err)
	_, err = l.Release(keys[3], 1, journal.NotApplied, "")
	must(t, err)
	want := []journal.Key{keys[4], keys[5], keys[1], keys[2], keys[3]} // oldest last change first
	for range 2 {
		var got []journal.Key
		for k := range l.Unsettled() {
			got = append(got, k)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || l.UnsettledCount() != len(want) {
			t.Errorf("the journal lists %v and counts %d, want %v", got, l.UnsettledCount(), want)
		}
		must(t, l.Close())
		l = open(t, p)
	}
}

func operatorDecides(t *testing.T, p Place) {
	l := open(t, p)
	_, err := l.Resolve(key, true, "")
	wants(t, err, ledger.ErrNothingToResolve)
	n := accept(t, l, key)
	_, err = l.Resolve(key, true, "")
	wants(t, err, ledger.ErrInFlight)
	_, err = l.Doubt(key, n, journal.Failed, "")
	must(t, err)
	_, err = l.Resolve(key, false, "ada: not in the sent folder")
	must(t, err)
	e := state(t, l, key, journal.Released)
	if last := e.History[len(e.History)-1]; last.Cause != journal.Operator || last.Note != "ada: not in the sent folder" {
		t.Errorf("the history ends with %+v", last)
	}
	n = accept(t, l, key)
	_, err = l.Doubt(key, n, journal.Failed, "")
	must(t, err)
	for range 2 { // deciding the same again changes nothing
		_, err = l.Resolve(key, true, "ada: it is there")
		must(t, err)
	}
	if e := state(t, l, key, journal.Executed); !e.NoResult || e.Failed {
		t.Errorf("landed by an operator: %+v", e)
	}
	must(t, l.Confirm(key, n, true))
	_, err = l.Resolve(key, false, "")
	wants(t, err, ledger.ErrNothingToResolve)
}

func forgetMakesFresh(t *testing.T, p Place) {
	l := open(t, p)
	n := accept(t, l, key)
	_, err := l.Forget(key, "")
	wants(t, err, ledger.ErrInFlight)
	execute(t, l, key, n, true)
	_, err = l.Forget(key, "ada: a second copy")
	must(t, err)
	for range 2 {
		e := state(t, l, key, journal.Absent)
		if e.Generation != 1 || len(e.Events()) != 3 {
			t.Errorf("after a forgetting: %+v", e)
		}
		must(t, l.Close())
		l = open(t, p)
	}
	d, err := l.Accept(context.Background(), key, ledger.Input{Fingerprint: 99})
	if err != nil || !d.Granted || d.Entry.Attempt != n+1 {
		t.Errorf("a fresh key with another input: %+v, %v", d, err)
	}
}

func badInput(t *testing.T, p Place) {
	l := open(t, p)
	for _, k := range []journal.Key{{}, {Effect: "e"}, {Item: "i"}, {Effect: "a b", Item: "i"},
		{Effect: "e", Item: string(make([]byte, journal.MaxItem+1))}} {
		_, err := l.Accept(context.Background(), k, ledger.Input{})
		wants(t, err, journal.ErrBadKey)
		_, err = l.Get(k)
		wants(t, err, journal.ErrBadKey)
	}
	_, err := l.Accept(context.Background(), key, ledger.Input{Data: make([]byte, ledger.MaxInput+1)})
	wants(t, err, ledger.ErrTooLarge)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = l.Accept(ended, key, ledger.Input{})
	wants(t, err, context.Canceled)
	state(t, l, key, journal.Absent)
	n := accept(t, l, key)
	_, err = l.Execute(key, n, ledger.Outcome{Result: make([]byte, ledger.MaxResult+1)})
	wants(t, err, ledger.ErrTooLarge)
	_, err = l.Execute(key, n+1, ledger.Outcome{})
	wants(t, err, ledger.ErrFenced)
	_, err = l.Execute(key, 0, ledger.Outcome{})
	wants(t, err, ledger.ErrFenced)
	state(t, l, key, journal.Accepted)
	largest := journal.Key{Effect: "e", Item: string(make([]byte, journal.MaxItem))}
	if e, err := l.Execute(largest, accept(t, l, largest), ledger.Outcome{Result: make([]byte, ledger.MaxResult), Settles: true, Cause: journal.Run}); err != nil || len(e.Result) != ledger.MaxResult {
		t.Errorf("the largest result: %d bytes, %v", len(e.Result), err)
	}
}

func closedSaysSo(t *testing.T, p Place) {
	l := open(t, p)
	accept(t, l, key)
	must(t, l.Err())
	must(t, l.Close())
	_, err := l.Accept(context.Background(), key, ledger.Input{})
	wants(t, err, ledger.ErrClosed)
	_, err = l.Get(key)
	wants(t, err, ledger.ErrClosed)
	wants(t, l.Confirm(key, 1, true), ledger.ErrClosed)
	wants(t, l.Err(), ledger.ErrClosed)
	wants(t, l.Close(), ledger.ErrClosed)
}
