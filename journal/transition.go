package journal

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrRefused reports a record that the transition table does not permit for the
// entry as it stands. The entry is unchanged.
var ErrRefused = errors.New("transition refused")

// A step is what Apply does to an entry.
type step byte

const (
	refuse  step = iota
	accept       // a new attempt, in the record's epoch
	execute      // an outcome
	confirm      // settled
	release      // another attempt may run
	doubt        // nobody can tell
	observe      // noted; the state stays
	forget       // absent again, in the next generation
	keep         // nothing changes
)

// table names the step for every state and kind of record; see docs/FORMAT.md
// for the diagram. Three entries are worth a word:
//
//   - absent × doubt: only where the ledger knows that it has lost records. The
//     key may be one of them, so it enters the journal in doubt, as attempt 1.
//   - released × executed: the late outcome of the released attempt. Taking it
//     keeps the next attempt from running, which would be a double effect.
//   - accepted × forgotten: for attempts whose owner is gone, which are stored as
//     accepted; the ledger refuses it while the owner lives.
var table = [numStates][numKinds]step{
	Absent:    {KindAccepted: accept, KindDoubt: doubt, KindObserved: observe},
	Accepted:  {KindExecuted: execute, KindReleased: release, KindDoubt: doubt, KindObserved: observe, KindForgotten: forget},
	InDoubt:   {KindExecuted: execute, KindReleased: release, KindDoubt: doubt, KindObserved: observe, KindForgotten: forget},
	Executed:  {KindConfirmed: confirm, KindReleased: release, KindObserved: observe, KindForgotten: forget},
	Confirmed: {KindConfirmed: keep, KindObserved: observe, KindForgotten: forget},
	Released:  {KindAccepted: accept, KindExecuted: execute, KindObserved: observe, KindForgotten: forget},
}

// Apply takes the step that the table names for the entry's state and the
// record, or refuses with an error that wraps [ErrRefused] and leaves the entry
// as it is. It copies what it keeps, so the record may alias a buffer. The
// record's key is taken to be the entry's.
func (e *Entry) Apply(r *Record, lsn uint64) error {
	if err := e.Permits(r); err != nil {
		return err
	}
	switch table[e.State][r.Kind] {
	case accept:
		e.accept(r)
	case execute:
		e.execute(r)
	case confirm:
		e.enter(Confirmed, r)
	case release:
		e.outcome(nil)
		e.enter(Released, r)
	case doubt:
		if e.State == Absent {
			e.begin(r)
		}
		e.enter(InDoubt, r)
	case observe:
		e.Conflict = e.Conflict || e.contradicts(r)
	case forget:
		*e = Entry{Attempt: e.Attempt, Generation: e.Generation + 1, Since: r.Time, History: e.History,
			Dropped: e.Dropped, Conflict: e.Conflict}
	case keep:
		e.LSN = lsn
		return nil
	}
	e.remember(r, lsn)
	e.LSN = lsn
	return nil
}

// Permits reports, wrapped in [ErrRefused], why Apply would refuse the record;
// nil if it would not.
func (e *Entry) Permits(r *Record) error {
	if e.State >= numStates || !r.Kind.HasKey() || table[e.State][r.Kind] == refuse {
		return e.refused(r, "the state does not permit it")
	}
	switch table[e.State][r.Kind] {
	case accept:
		if r.Attempt != e.Attempt+1 {
			return e.refused(r, fmt.Sprintf("want attempt %d", e.Attempt+1))
		}
	case observe:
		if r.Attempt > e.Attempt {
			return e.refused(r, fmt.Sprintf("the last attempt is %d", e.Attempt))
		}
	case execute:
		if r.Attempt != e.Attempt {
			return e.refused(r, fmt.Sprintf("want attempt %d", e.Attempt))
		}
	case doubt:
		if e.State == Absent {
			if r.Cause != Amnesia || r.Attempt != e.Attempt+1 {
				return e.refused(r, "only amnesia puts an absent key in doubt")
			}
			return nil
		}
		if r.Attempt != e.Attempt {
			return e.refused(r, fmt.Sprintf("want attempt %d", e.Attempt))
		}
	case release:
		if !r.Cause.Releases() {
			return e.refused(r, fmt.Sprintf("cause %v does not release", r.Cause))
		}
		if r.Attempt != e.Attempt {
			return e.refused(r, fmt.Sprintf("want attempt %d", e.Attempt))
		}
	case confirm, keep:
		if r.Attempt != e.Attempt {
			return e.refused(r, fmt.Sprintf("want attempt %d", e.Attempt))
		}
	}
	return nil
}

func (e *Entry) refused(r *Record, why string) error {
	return fmt.Errorf("journal: %v record of attempt %d on %v (%v, attempt %d): %s: %w",
		r.Kind, r.Attempt, r.Key, e.State, e.Attempt, why, ErrRefused)
}

func (e *Entry) accept(r *Record) {
	if e.State == Absent {
		e.begin(r)
	}
	e.Attempt = r.Attempt
	e.Epoch = r.Epoch
	e.Fingerprint = r.Fingerprint
	if len(r.Input) > 0 {
		e.Input = slices.Clone(r.Input)
	}
	e.enter(Accepted, r)
}

// begin starts a generation with the record's attempt.
func (e *Entry) begin(r *Record) {
	e.Attempt = r.Attempt
	e.FirstOf = r.Attempt
	e.AcceptedAt = r.Time
}

func (e *Entry) execute(r *Record) {
	e.outcome(r)
	if r.Settles {
		e.enter(Confirmed, r)
		return
	}
	e.enter(Executed, r)
}

// outcome sets what the run produced; nil takes it back.
func (e *Entry) outcome(r *Record) {
	if r == nil {
		r = &Record{}
	}
	e.ExecutedAt = r.Time
	e.Failed = r.Failed
	e.NoResult = r.NoResult
	e.Result = slices.Clone(r.Result)
	e.Reason = strings.Clone(r.Reason)
}

func (e *Entry) enter(s State, r *Record) {
	e.State = s
	e.Since = r.Time
	if r.Kind != KindConfirmed {
		e.Cause = r.Cause
	}
	if s.Settled() {
		e.Input = nil
	}
}

// contradicts reports whether a late word shows that what was decided is wrong:
// the effect of an earlier attempt happened and another attempt was permitted, or
// the current attempt is recorded as done and did not happen.
func (e *Entry) contradicts(r *Record) bool {
	if r.Landed {
		return r.Attempt < e.Attempt
	}
	return r.Attempt == e.Attempt && e.State.Done() && !e.Failed
}
