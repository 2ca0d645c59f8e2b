package journal

import (
	"slices"
	"strings"
)

// MaxHistory is how many events an entry keeps. Of a longer history the oldest
// events after the first are dropped; [Entry.Dropped] counts them.
const MaxHistory = 128

// An Entry is all that is known of a key: the fold of its records. The zero
// Entry is a key that was never seen.
type Entry struct {
	State       State
	Attempt     uint32  // the last one permitted; 0 before the first
	FirstOf     uint32  // the first attempt of this generation
	Generation  uint32  // how often the key was forgotten
	Epoch       uint64  // of the ledger when the last attempt was accepted; 0 once settled
	LSN         uint64  // of the last record applied
	AcceptedAt  int64   // ms since 1970 UTC: the generation's first marker
	ExecutedAt  int64   // ms since 1970 UTC: the outcome; 0 before
	Since       int64   // ms since 1970 UTC: the last change of state
	Fingerprint uint64  // of the input; 0 for none
	Input       []byte  // as kept with the marker
	Cause       Cause   // of the last change of state
	Failed      bool    // the outcome is a permanent failure
	NoResult    bool    // the result was let go
	Conflict    bool    // an effect is known to contradict what was decided
	Result      []byte  // of a success
	Reason      string  // of a failure
	History     []Event // see Events; nil for a key that went straight
	Dropped     uint32  // events that History no longer has
}

// An Event is one step in a key's history.
type Event struct {
	LSN     uint64 // 0 where it is no longer known
	Kind    Kind
	Attempt uint32
	Time    int64 // ms since 1970 UTC
	Cause   Cause
	Failed  bool // executed: a permanent failure
	Landed  bool // observed: it happened
	Note    string
}

// StateIn is the entry's state as the owner of the given epoch sees it: an
// attempt accepted in an earlier epoch has lost its owner and is in doubt.
func (e *Entry) StateIn(epoch uint64) State {
	if e.State == Accepted && e.Epoch < epoch {
		return InDoubt
	}
	return e.State
}

// Known reports whether the key was ever seen.
func (e *Entry) Known() bool { return e.Attempt > 0 }

// Clone returns an entry that shares no memory with the buffer it was decoded
// from, nor its history with e.
func (e Entry) Clone() Entry {
	e.Input = slices.Clone(e.Input)
	e.Result = slices.Clone(e.Result)
	e.Reason = strings.Clone(e.Reason)
	e.History = slices.Clone(e.History)
	for i := range e.History {
		e.History[i].Note = strings.Clone(e.History[i].Note)
	}
	return e
}

// remember appends rec to the history. It never writes to the old slice's memory,
// which copies of the entry may share.
func (e *Entry) remember(r *Record, lsn uint64) {
	ev := Event{
		LSN: lsn, Kind: r.Kind, Attempt: r.Attempt, Time: r.Time, Cause: r.Cause,
		Failed: r.Failed, Landed: r.Landed, Note: strings.Clone(r.Note),
	}
	if ev.Attempt == 0 {
		ev.Attempt = e.Attempt
	}
	old := e.History
	if len(old) >= MaxHistory {
		old = slices.Delete(slices.Clone(old), 1, 2)
		e.Dropped++
	}
	e.History = append(slices.Clip(old), ev)
}

// Events is the entry's history, oldest first.
//
// An entry keeps no list for a key that went straight: accepted once, then
// executed with Run's word, then confirmed, none of them with a note. Its events
// are made up from the entry's times. Lost are the LSNs, but for the last event,
// which gets that of the last record applied, and a confirmation in the very
// millisecond of the outcome, which looks like an outcome that settled the key.
func (e *Entry) Events() []Event {
	if len(e.History) > 0 || !e.Known() {
		return e.History
	}
	evs := make([]Event, 0, 3)
	evs = append(evs, Event{Kind: KindAccepted, Attempt: e.Attempt, Time: e.AcceptedAt})
	if e.State.Done() {
		evs = append(evs, Event{Kind: KindExecuted, Attempt: e.Attempt, Time: e.ExecutedAt, Cause: Run, Failed: e.Failed})
	}
	if e.State == Confirmed && e.Since != e.ExecutedAt {
		evs = append(evs, Event{Kind: KindConfirmed, Attempt: e.Attempt, Time: e.Since})
	}
	evs[len(evs)-1].LSN = e.LSN
	return evs
}

// straight reports whether the key went straight so far and still does after the
// record, so that Events can make up the record's event and none is kept.
func (e *Entry) straight(s step, r *Record) bool {
	if len(e.History) > 0 || e.Attempt > 1 || r.Attempt != 1 || r.Note != "" {
		return false
	}
	switch s {
	case accept:
		return !e.Known()
	case execute:
		return e.State == Accepted && r.Cause == Run
	}
	return s == confirm
}

// plain reports whether the entry has its short form: a settled key that went
// straight and has nothing to tell but its times, its fingerprint and its result.
func (e *Entry) plain() bool {
	return e.State == Confirmed && e.Attempt == 1 && e.FirstOf == 1 && e.Generation == 0 && e.Epoch == 0 &&
		e.Cause == Run && !e.Conflict && len(e.Input) == 0 && e.Reason == "" && e.Dropped == 0 && len(e.History) == 0
}
