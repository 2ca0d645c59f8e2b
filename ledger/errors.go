package ledger

import (
	"errors"
	"fmt"

	"github.com/oncelog/oncelog/internal/durable"
	"github.com/oncelog/oncelog/journal"
)

// The ways a ledger fails. Match them with errors.Is; the messages around them
// name what, where and what to do.
var (
	// ErrNoLedger: the directory holds no ledger, and creating one was not asked
	// for.
	ErrNoLedger = errors.New("no ledger")
	// ErrExists: a ledger is to be created where one is.
	ErrExists = errors.New("ledger exists")
	// ErrLocked: another process owns the directory.
	ErrLocked = durable.ErrLocked
	// ErrInFlight: an attempt of the key is running.
	ErrInFlight = errors.New("in flight")
	// ErrInDoubt: nobody can tell whether the effect happened; the key is held.
	ErrInDoubt = errors.New("in doubt")
	// ErrMismatch: the key is known with another input.
	ErrMismatch = errors.New("same key, other input")
	// ErrResultExpired: the effect is done; its result is no longer kept.
	ErrResultExpired = errors.New("done, result no longer kept")
	// ErrFenced: the attempt is no longer this owner's.
	ErrFenced = errors.New("fenced")
	// ErrTooLarge: an input, a result or a record is over its limit.
	ErrTooLarge = errors.New("too large")
	// ErrClosed: the ledger is closed.
	ErrClosed = errors.New("ledger closed")
)

func checkKey(key journal.Key) error {
	if err := key.Validate(); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return nil
}

// ErrNothingToResolve: the key is in a state that leaves an operator nothing to
// decide.
var ErrNothingToResolve = errors.New("nothing to resolve")
