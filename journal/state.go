package journal

import "fmt"

// A State is where a key stands. The numbers are part of the disk format.
type State byte

// The states of a key.
const (
	Absent    State = iota // never accepted, or forgotten
	Accepted               // a marker is durable, no outcome is
	InDoubt                // accepted, and nobody can tell whether the effect happened
	Executed               // an outcome is recorded, the backend has not confirmed it
	Confirmed              // settled
	Released               // the attempt provably did not happen; another may run
	numStates
)

var stateNames = [numStates]string{"absent", "accepted", "in_doubt", "executed", "confirmed", "released"}

// String is the state's name as the command and the metrics print it.
func (s State) String() string {
	if s < numStates {
		return stateNames[s]
	}
	return fmt.Sprintf("state(%d)", byte(s))
}

// Settled reports whether nothing more is to be done for a key in this state: a
// settled key has left the journal.
func (s State) Settled() bool { return s == Confirmed || s == Absent }

// Done reports whether an outcome is recorded.
func (s State) Done() bool { return s == Executed || s == Confirmed }

// A Cause says why a record was written. The numbers are part of the disk
// format.
type Cause byte

// Causes of records. The four that release an attempt are NotApplied, NotLanded,
// Operator and Idempotent; no other cause permits a second run.
const (
	NoCause    Cause = iota
	Run              // executed: Run returned
	NotApplied       // released: Run said that nothing happened
	NotLanded        // released: Check said that nothing happened
	Operator         // released, executed: a person decided
	Idempotent       // released: the far side deduplicates
	Landed           // executed: Check said that it happened
	Exhausted        // executed as a failure: the attempt limit is reached
	Failed           // doubt: Run returned an error that proves nothing
	TimedOut         // doubt: Run's time was up
	Cancelled        // doubt: the caller's context ended
	Panicked         // doubt: Run panicked
	OwnerGone        // doubt: the client vanished between marker and outcome
	Unknown          // doubt: Check could not tell
	Amnesia          // doubt: the ledger has lost records, the key may be one of them
	numCauses
)

var causeNames = [numCauses]string{
	"", "run", "not-applied", "not-landed", "operator", "idempotent", "landed", "exhausted",
	"error", "timeout", "cancelled", "panic", "owner-gone", "unknown", "amnesia",
}

// String is the cause's name as the command prints it; empty for NoCause.
func (c Cause) String() string {
	if c < numCauses {
		return causeNames[c]
	}
	return fmt.Sprintf("cause(%d)", byte(c))
}

// Releases reports whether the cause permits another attempt.
func (c Cause) Releases() bool {
	return c == NotApplied || c == NotLanded || c == Operator || c == Idempotent
}

func (c Cause) executes() bool {
	return c == Run || c == Operator || c == Landed || c == Exhausted
}

func (c Cause) doubts() bool { return c >= Failed && c < numCauses }
