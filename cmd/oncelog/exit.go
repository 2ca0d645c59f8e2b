package main

import (
	"errors"
	"fmt"

	"github.com/oncelog/oncelog/executor"
	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/ledger"
)

// Exit codes. They are part of the interface: scripts branch on them.
const (
	exitDone       = 0  // done now or before
	exitUsage      = 2  // the call's words are wrong
	exitInDoubt    = 10 // in doubt, held
	exitInFlight   = 11 // an attempt runs elsewhere
	exitMismatch   = 12 // same key, other input
	exitPermanent  = 13 // a permanent failure, now or before
	exitNotApplied = 14 // nothing happened, it may be tried again
	exitConflict   = 15 // verify: an effect contradicts what was decided
	exitLedger     = 20 // missing, locked, corrupt, full or failed
)

// usageError is an error in the words of a call.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// silentExit ends the command with a code after everything was said.
type silentExit int

func (e silentExit) Error() string { return fmt.Sprintf("exit %d", int(e)) }

// exitCode is the code that tells a script what the error means.
func exitCode(err error) int {
	var usage usageError
	var failed *executor.PermanentError
	var bad *executor.BadItemError
	var unpolled notPolled
	var silent silentExit
	var notApplied *executor.NotAppliedError
	switch {
	case errors.As(err, &silent):
		return int(silent)
	case errors.As(err, &unpolled):
		return exitNotApplied
	case errors.As(err, &usage), errors.As(err, &bad), errors.Is(err, executor.ErrBadInput), errors.Is(err, journal.ErrBadKey), errors.Is(err, ledger.ErrTooLarge):
		return exitUsage
	case errors.As(err, &failed):
		return exitPermanent
	case errors.As(err, &notApplied):
		return exitNotApplied
	case errors.Is(err, ledger.ErrMismatch):
		return exitMismatch
	case errors.Is(err, ledger.ErrResultExpired):
		return exitDone
	case errors.Is(err, ledger.ErrFailed), errors.Is(err, ledger.ErrCorrupt), errors.Is(err, ledger.ErrFull):
		return exitLedger
	case errors.Is(err, ledger.ErrInDoubt):
		return exitInDoubt
	case errors.Is(err, ledger.ErrInFlight):
		return exitInFlight
	}
	return exitLedger
}
