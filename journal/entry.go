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
	Attempt     uint32 // the last one permitted; 0 before the first
	FirstOf     uint32 // the first attempt of this generation
	Generation  uint32 // how often the key was forgotten
	Epoch       uint64 // of the ledger when the last attempt was accepted
	LSN         uint64 // of the last record applied
	AcceptedAt  int64  // ms since 1970 UTC: the generation's first marker
	ExecutedAt  int64  // ms since 1970 UTC: the outcome; 0 before
	Since       int64  // ms since 1970 UTC: the last change of state
	Fingerprint uint64 // of the input; 0 for none
	Input       []byte // as kept with the marker
	Cause       Cause  // of the last change of state
	Failed      bool   // the outcome is a permanent failure
	NoResult    bool   // the result was let go
	Conflict    bool   // an effect is known to contradict what was decided
	Result      []byte // of a success
	Reason      string // of a failure
	History     []Event
	Dropped     uint32 // events that History no longer has
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

// remember appends rec to the history.
func (e *Entry) remember(r *Record, lsn uint64) {
	ev := Event{
		LSN: lsn, Kind: r.Kind, Attempt: r.Attempt, Time: r.Time, Cause: r.Cause,
		Failed: r.Failed, Landed: r.Landed, Note: strings.Clone(r.Note),
	}
	if ev.Attempt == 0 {
		ev.Attempt = e.Attempt
	}
	if len(e.History) >= MaxHistory {
		e.History = append(e.History[:1], e.History[2:]...)
		e.Dropped++
	}
	e.History = append(e.History, ev)
}

// Events is the entry's history, oldest first. Of a key that went the plain way
// — accepted, executed, confirmed, each once — the entry keeps no list, and the
// events are made up from its times; their LSNs are then unknown but for the
// last.
func (e *Entry) Events() []Event {
	if len(e.History) > 0 || !e.Known() {
		return e.History
	}
	evs := []Event{{Kind: KindAccepted, Attempt: e.Attempt, Time: e.AcceptedAt}}
	if e.State.Done() {
		evs = append(evs, Event{Kind: KindExecuted, Attempt: e.Attempt, Time: e.ExecutedAt, Cause: Run, Failed: e.Failed})
	}
	if e.State == Confirmed && e.Since != e.ExecutedAt {
		evs = append(evs, Event{Kind: KindConfirmed, Attempt: e.Attempt, Time: e.Since})
	}
	evs[len(evs)-1].LSN = e.LSN
	return evs
}

// plain reports whether Events can be made up from the other fields, so that the
// list need not be kept for a settled key.
func (e *Entry) plain() bool {
	if e.State != Confirmed || e.Attempt != 1 || e.Generation != 0 || e.Conflict || e.Dropped > 0 ||
		e.Cause != Run || e.Reason != "" || len(e.Input) > 0 {
		return false
	}
	for _, ev := range e.History {
		if ev.Note != "" || ev.Kind == KindDoubt || ev.Kind == KindObserved || ev.Kind == KindReleased {
			return false
		}
	}
	return true
}
