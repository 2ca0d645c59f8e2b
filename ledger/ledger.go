package ledger

import (
	"context"
	"iter"

	"github.com/oncelog/oncelog/journal"
)

// A Ledger decides who may run. [Embedded] keeps it in a directory; other
// implementations share it between machines. All of them pass the tests in
// package ledgertest. Methods may be called concurrently.
//
// A method that writes returns nil only once what it wrote is durable and
// visible to Get. Any other return of a writing method, the context's end
// included, says nothing about whether the record was written: the outcome of
// the attempt is then decided by what the ledger holds later.
type Ledger interface {
	// Accept writes the marker that permits the next attempt of a key, if the
	// key is absent or released. Otherwise it writes nothing and the decision
	// says what is known. ErrMismatch where the key is known with another
	// input; ErrFull where there is no room for marker and outcome.
	Accept(ctx context.Context, key journal.Key, in Input) (Decision, error)

	// Execute records the outcome of an attempt. A late outcome of an attempt
	// that is in doubt or released is taken; one that comes after another
	// decision is recorded as an observation, and the returned entry shows
	// whether it is a conflict. Recording the same outcome again changes
	// nothing. It is not cancelled.
	Execute(key journal.Key, attempt uint32, out Outcome) (journal.Entry, error)

	// Release records that an attempt provably did not happen, so that another
	// may run. NotApplied is the owner's word, NotLanded and Idempotent are
	// for attempts in doubt: ErrFenced where an outcome was recorded since the
	// check began. Only an operator takes an outcome back. It is not cancelled.
	Release(key journal.Key, attempt uint32, cause journal.Cause, note string) (journal.Entry, error)

	// Doubt records that nobody can tell what became of an attempt. It is not
	// cancelled.
	Doubt(key journal.Key, attempt uint32, cause journal.Cause, note string) (journal.Entry, error)

	// Confirm records that the backend has the outcome. With wait it returns
	// when that is durable; without, at once: a confirmation that is lost is
	// repeated by the next drain.
	Confirm(key journal.Key, attempt uint32, wait bool) error

	// Get is what is known of a key; the zero entry where that is nothing. It
	// does no I/O. The entry's bytes must not be modified.
	Get(key journal.Key) (journal.Entry, error)

	// Await is Get once the key has no attempt in flight, or the context has
	// ended.
	Await(ctx context.Context, key journal.Key) (journal.Entry, error)

	// State is where the key of the entry stands for this owner: accepted means
	// in flight here and now, in doubt includes attempts of owners that are
	// gone.
	State(e *journal.Entry) journal.State

	// Unsettled lists the journal, oldest last change first. It is a copy of
	// one moment: what changes meanwhile is not seen.
	Unsettled() iter.Seq2[journal.Key, journal.Entry]

	// UnsettledCount is how many keys are in the journal.
	UnsettledCount() int

	// Err is nil while the ledger accepts, and otherwise why it does not.
	Err() error

	// Resolve records an operator's decision on a key that is in doubt, or on
	// an executed one that did not happen after all. The note says who decided
	// and why.
	Resolve(key journal.Key, landed bool, note string) (journal.Entry, error)

	// Forget makes a key fresh again; its history is kept. ErrInFlight while
	// an attempt runs. The reason says who decided and why.
	Forget(key journal.Key, reason string) (journal.Entry, error)

	// Close waits for what is being written, and ends the ledger. Further
	// calls fail with ErrClosed.
	Close() error
}

// Input is what an attempt is to work on.
type Input struct {
	// Fingerprint is journal.Fingerprint of the input, or of the fields of it
	// that matter; 0 compares with everything.
	Fingerprint uint64
	// Attempt, where it is not 0, is the only attempt that is to be granted: who
	// has decided on what Get showed says so, and is not granted a later one.
	Attempt uint32
	// Data, where it is not empty, is kept with the marker until the key is
	// settled, so that a drain can run another attempt. At most MaxInput bytes.
	Data []byte
}

// A Decision answers an Accept.
type Decision struct {
	// Granted says that this call, and no other, may run attempt
	// Entry.Attempt.
	Granted bool
	// Entry is what is known of the key, the marker included if it was granted.
	Entry journal.Entry
	// State is where the key stands for this owner; see Ledger.State.
	State journal.State
}

// An Outcome is what a run produced.
type Outcome struct {
	// Failed marks a permanent failure, which is never run again.
	Failed bool
	// Result of a success, at most MaxResult bytes. It may be let go when the
	// disk is full; the outcome itself is not.
	Result []byte
	// Reason of a failure, cut at MaxNote bytes.
	Reason string
	// NoResult says that the result of a success is not known.
	NoResult bool
	// Settles says that there is nothing to confirm.
	Settles bool
	// Cause is journal.Run, Landed, Operator or Exhausted.
	Cause journal.Cause
	// Note is evidence, cut at MaxNote bytes.
	Note string
}

// Limits of what a ledger takes.
const (
	MaxInput  = 1 << 20 // bytes of kept input
	MaxResult = 1 << 20 // bytes of a result
	MaxNote   = 4 << 10 // bytes of a reason or a note
)
