package executor

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/ledger"
)

// errTimeout is the cause of a run's context that ended by the effect's Timeout.
var errTimeout = errors.New("the effect's Timeout is over")

// run runs a granted attempt and records what became of it. The error is nil for
// an outcome, permanent failures included; a bare *NotAppliedError once the
// attempt is released; ErrInDoubt, or what kept the ledger from recording.
func (x *Executor) run(ctx context.Context, e *effect, call Call, in []byte) (entry journal.Entry, err error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		// Run panicked, or ended its goroutine.
		why := fmt.Errorf("panic: %v", recover())
		x.opts.Logger.Error("run panicked", "key", call.Key.String(), "attempt", call.Attempt, "error", why, "stack", string(debug.Stack()))
		entry, err = x.doubt(call, journal.Panicked, why)
	}()
	runCtx := withProof(ctx)
	if e.timeout > 0 {
		var cancel context.CancelFunc
		runCtx, cancel = context.WithTimeoutCause(runCtx, e.timeout, errTimeout)
		defer cancel()
	}
	out, runErr := e.run(runCtx, call, in)
	returned = true
	return x.record(runCtx, e, call, out, runErr)
}

// record writes what Run's answer means. It does not depend on the context, which
// only tells why Run gave up.
func (x *Executor) record(ctx context.Context, e *effect, call Call, out []byte, runErr error) (journal.Entry, error) {
	var unrecordable *noResult
	if runErr == nil || errors.As(runErr, &unrecordable) {
		o := ledger.Outcome{Result: out, Cause: journal.Run}
		switch {
		case unrecordable != nil:
			o.Result, o.NoResult, o.Note = nil, true, unrecordable.Error()
		case len(out) > ledger.MaxResult:
			// The effect happened: that its result is too large changes nothing.
			o.Result, o.NoResult = nil, true
			o.Note = fmt.Sprintf("the result has %d bytes, at most %d are kept", len(out), ledger.MaxResult)
		}
		return x.executed(e, call, o)
	}
	switch word := wordOf(runErr).(type) {
	case *PermanentError:
		return x.executed(e, call, ledger.Outcome{Failed: true, Reason: word.Err.Error(), Cause: journal.Run})
	case *NotAppliedError:
		entry, err := x.ledger.Release(call.Key, call.Attempt, journal.NotApplied, word.Err.Error())
		if err != nil {
			return entry, unrecorded(call, runErr, err)
		}
		return entry, word
	}
	cause := journal.Failed
	switch {
	case errors.Is(context.Cause(ctx), errTimeout):
		cause = journal.TimedOut
	case ctx.Err() != nil:
		cause = journal.Cancelled
	}
	return x.doubt(call, cause, runErr)
}

func unrecorded(call Call, runErr, err error) error {
	return fmt.Errorf("executor: attempt %d of %v ran (%v) and that could not be recorded: %w", call.Attempt, call.Key, runErr, err)
}

// executed records an outcome and hands its confirmation to the background.
func (x *Executor) executed(e *effect, call Call, o ledger.Outcome) (journal.Entry, error) {
	o.Settles = e.confirm == nil
	entry, err := x.ledger.Execute(call.Key, call.Attempt, o)
	if err != nil {
		return entry, unrecorded(call, nil, err)
	}
	x.decided(call.Key, call.Attempt)
	if !o.Settles {
		x.confirmSoon(e, call.Key)
	}
	return entry, nil
}

// exhaust makes a released attempt, the last one allowed, a permanent failure.
func (x *Executor) exhaust(e *effect, key journal.Key, entry *journal.Entry) error {
	why := entry.Cause.String()
	if n := len(entry.History); n > 0 {
		why += ": " + entry.History[n-1].Note
	}
	_, err := x.executed(e, callOf(key, entry.Attempt, entry.Generation), ledger.Outcome{
		Failed: true, Cause: journal.Exhausted,
		Reason: fmt.Sprintf("not done after %d of %d attempts; the last was released: %s", attempts(entry), e.maxAttempts, why),
	})
	return err
}

// doubt records that nobody can tell.
func (x *Executor) doubt(call Call, cause journal.Cause, why error) (journal.Entry, error) {
	// First: a check may begin as soon as the doubt is known.
	x.ownerGone(call.Key, call.Attempt)
	entry, err := x.ledger.Doubt(call.Key, call.Attempt, cause, why.Error())
	if err != nil {
		return entry, unrecorded(call, why, err)
	}
	return entry, fmt.Errorf("executor: attempt %d of %v: %w: %w", call.Attempt, call.Key, ledger.ErrInDoubt, why)
}
