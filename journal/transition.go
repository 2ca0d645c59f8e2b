package journal

import (
	"errors"
	"fmt"
	"math"
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
// for the diagram. Four entries are worth a word:
//
//   - absent × doubt: only where the ledger knows that it has lost records. The
//     key may be one of them, so it enters the journal in doubt, as attempt 1.
//   - released × doubt: there too. What permitted the next attempt is known, and
//     whether it ran is not.
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
	Released:  {KindAccepted: accept, KindExecuted: execute, KindDoubt: doubt, KindObserved: observe, KindForgotten: forget},
}

// Apply takes the step that the table names for the entry's state and the
// record, or refuses with an error that wraps [ErrRefused] and leaves the entry
// as it is. It copies what it keeps, so the record may alias a buffer, and never
// writes to memory that a copy of the entry shares. The record's key is taken to
// be the entry's.
func (e *Entry) Apply(r *Record, lsn uint64) error {
	if err := e.Permits(r); err != nil {
		return err
	}
	s := table[e.State][r.Kind]
	if s == keep {
		e.LSN = lsn
		return nil
	}
	straight := e.straight(s, r)
	if !straight {
		e.History = e.Events()
	}
	e.take(s, r)
	if !straight {
		e.remember(r, lsn)
	}
	e.LSN = lsn
	return nil
}

// Unnumbered is the LSN to give Apply for a record that has none yet; Number gives it
// one.
const Unnumbered = math.MaxUint64

// Number is for an entry whose last record was applied as Unnumbered and has an LSN
// now. It writes to the entry's own history only.
func (e *Entry) Number(lsn uint64) {
	e.LSN = lsn
	// Applying the record has made the history's last event anew, if there is one of it.
	if n := len(e.History); n > 0 && e.History[n-1].LSN == Unnumbered {
		e.History[n-1].LSN = lsn
	}
}

// take performs a step that is permitted.
func (e *Entry) take(s step, r *Record) {
	switch s {
	case accept:
		e.accept(r)
	case execute:
		e.execute(r)
	case confirm:
		e.enter(Confirmed, r)
	case release:
		e.outcome(&Record{})
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
	}
}

// Permits reports, wrapped in [ErrRefused], why Apply would refuse the record;
// nil if it would not. A record that is permitted, of a valid key, can be decoded
// once it is encoded.
func (e *Entry) Permits(r *Record) error {
	s := refuse
	if e.State < numStates && r.Kind.HasKey() {
		s = table[e.State][r.Kind]
	}
	switch want := e.attemptFor(s); {
	case s == refuse:
		return e.refused(r, "the state does not permit it")
	case s == forget: // is of no attempt
	case s == observe:
		if r.Attempt == 0 || r.Attempt > e.Attempt {
			return e.refused(r, fmt.Sprintf("want attempt 1 to %d", e.Attempt))
		}
	case r.Attempt == 0 || r.Attempt != want:
		return e.refused(r, fmt.Sprintf("want attempt %d", want))
	}
	if !e.fits(s, r.Cause) {
		return e.refused(r, fmt.Sprintf("cause %q does not permit it", r.Cause))
	}
	return nil
}

// attemptFor is the attempt that a record must be of to take the step; 0 once the
// numbers are used up.
func (e *Entry) attemptFor(s step) uint32 {
	if s == accept || e.State == Absent {
		return e.Attempt + 1
	}
	return e.Attempt
}

// fits reports whether the cause permits the step from the entry's state. An
// outcome that is recorded gives way to evidence or a person only: that the far
// side deduplicates, or that Run took its word back, is no reason to run again.
func (e *Entry) fits(s step, c Cause) bool {
	switch s {
	case execute:
		return c.executes()
	case release:
		return c.Releases() && (e.State != Executed || c == NotLanded || c == Operator)
	case doubt:
		return c == Amnesia || e.State != Absent && e.State != Released && c.doubts()
	}
	return c == NoCause
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
	if r.Fingerprint != 0 { // 0 compares with everything and must not make the next one do so
		e.Fingerprint = r.Fingerprint
	}
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

// outcome sets what the run produced; an empty record takes it back.
func (e *Entry) outcome(r *Record) {
	e.ExecutedAt = r.Time
	e.Failed = r.Failed
	e.NoResult = r.NoResult
	e.Result = slices.Clone(r.Result)
	e.Reason = strings.Clone(r.Reason)
}

// enter changes the state. A doubt that is confirmed again is no change: its age
// counts from the first.
func (e *Entry) enter(s State, r *Record) {
	if s != e.State {
		e.Since = r.Time
	}
	e.State = s
	if r.Kind != KindConfirmed {
		e.Cause = r.Cause
	}
	if s == Confirmed {
		e.Input = nil
		e.Epoch = 0
	}
}

// contradicts reports whether a late word shows that what was decided is wrong.
//
// "It happened" contradicts a failure that was recorded for the attempt, and a
// release, unless that was permitted because the far side deduplicates. It also
// contradicts a forgetting, or a later attempt, if nothing is known to have been
// decided before. "It did not happen" contradicts a recorded success.
func (e *Entry) contradicts(r *Record) bool {
	if !r.Landed {
		return r.Attempt == e.Attempt && e.State.Done() && !e.Failed
	}
	for _, ev := range slices.Backward(e.Events()) {
		if ev.Attempt != r.Attempt {
			continue
		}
		switch ev.Kind {
		case KindExecuted:
			return ev.Failed
		case KindReleased:
			return ev.Cause != Idempotent
		}
	}
	return r.Attempt < e.Attempt || e.State == Absent
}
