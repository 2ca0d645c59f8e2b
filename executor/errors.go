package executor

import (
	"errors"
	"fmt"
)

// Errors of the executor itself. What the ledger says (ledger.ErrInDoubt,
// ErrInFlight, ErrMismatch, ErrResultExpired, ErrFull, …) is passed on.
var (
	// ErrUnknownEffect: no effect of that name is registered.
	ErrUnknownEffect = errors.New("unknown effect")
	// ErrDuplicateEffect: an effect of that name is registered already.
	ErrDuplicateEffect = errors.New("effect registered twice")
	// ErrBadInput: the input does not have the effect's type.
	ErrBadInput = errors.New("bad input")
	// ErrClosed: the executor is closed.
	ErrClosed = errors.New("executor closed")
)

// A NotAppliedError says that an attempt did nothing, so that another may run.
type NotAppliedError struct{ Err error }

func (e *NotAppliedError) Error() string { return fmt.Sprintf("not applied: %v", e.Err) }

// Unwrap returns why.
func (e *NotAppliedError) Unwrap() error { return e.Err }

// NotApplied is what Run returns when it can prove that nothing happened: no
// request was written, no process was started. It permits another attempt; if it
// is wrong the effect happens twice.
//
// Run's error counts as NotApplied only if that is what it says as a whole: it may
// be wrapped, but one of several joined errors does not speak for the others.
func NotApplied(err error) error { return &NotAppliedError{err} }

// A PermanentError is a permanent failure, as Run reported it now or before.
type PermanentError struct {
	Err error
	// Replayed says that the failure was recorded earlier.
	Replayed bool
}

func (e *PermanentError) Error() string { return fmt.Sprintf("failed permanently: %v", e.Err) }

// Unwrap returns why; of a replayed failure only its text is left.
func (e *PermanentError) Unwrap() error { return e.Err }

// Permanent is what Run returns when the effect will never work: no attempt will
// be made again, and duplicates are answered with the failure.
func Permanent(err error) error { return &PermanentError{Err: err} }

// wordOf finds what an error says as a whole: the outermost NotAppliedError or
// PermanentError of its chain, nil if there is none. Joined errors are not
// followed: one of them proves nothing about the others.
func wordOf(err error) error {
	for err != nil {
		switch err.(type) {
		case *NotAppliedError, *PermanentError:
			return err
		}
		single, ok := err.(interface{ Unwrap() error })
		if !ok {
			return nil
		}
		err = single.Unwrap()
	}
	return nil
}
