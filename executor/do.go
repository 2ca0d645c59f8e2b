package executor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/ledger"
)

// A Result is a recorded outcome.
type Result[Out any] struct {
	// Value is what Run returned, now or before.
	Value Out
	// Replayed says that this call ran nothing: the outcome was recorded before,
	// or another call's.
	Replayed bool
	// Attempt is the number of the attempt whose outcome it is.
	Attempt uint32
}

// A DoOption changes one call of Do.
type DoOption func(*doOptions)

type doOptions struct {
	noWait  bool
	noRetry bool
}

// NoWait makes Do return ledger.ErrInFlight instead of waiting for another call
// with the same key.
func NoWait() DoOption { return func(o *doOptions) { o.noWait = true } }

// NoRetry makes Do return the [NotAppliedError] of its first attempt instead of
// making another after a pause. The next Do makes the next attempt.
func NoRetry() DoOption { return func(o *doOptions) { o.noRetry = true } }

// Do makes the effect happen for an item, unless it has happened, and returns the
// outcome. Calls with the same item, at once or years apart, make one effect
// between them.
//
// The context bounds how long Do waits for others and is the parent of Run's. An
// attempt that has begun is waited for, and its outcome recorded, in any case.
//
// Errors, matched with errors.Is and errors.As: ledger.ErrInDoubt, nobody can
// tell and the key is held; [*PermanentError], it failed for good;
// [*NotAppliedError], nothing happened and another Do may try again;
// ledger.ErrMismatch, the item was done with another input;
// ledger.ErrResultExpired, it is done and its result is not known;
// ledger.ErrInFlight, with [NoWait] or when the context ended; [ErrBadInput];
// otherwise the ledger's trouble.
func (h *Handle[In, Out]) Do(ctx context.Context, item string, in In, opts ...DoOption) (Result[Out], error) {
	var o doOptions
	for _, set := range opts {
		set(&o)
	}
	data, err := encode(in)
	if err != nil {
		return Result[Out]{}, fmt.Errorf("%w: %w", ErrBadInput, err)
	}
	return h.do(ctx, item, data, o)
}

func (h *Handle[In, Out]) do(ctx context.Context, item string, data []byte, o doOptions) (Result[Out], error) {
	e, ran, err := h.x.do(ctx, h.e, journal.Key{Effect: h.e.name, Item: item}, data, o)
	if err != nil {
		return Result[Out]{}, err
	}
	v, err := decode[Out](e.Result)
	if err != nil {
		return Result[Out]{}, err
	}
	return Result[Out]{Value: v, Replayed: !ran, Attempt: e.Attempt}, nil
}

// do is Do on bytes: the entry of a success, and whether this call ran it.
func (x *Executor) do(ctx context.Context, e *effect, key journal.Key, in []byte, o doOptions) (journal.Entry, bool, error) {
	if err := x.begin(); err != nil {
		return journal.Entry{}, false, err
	}
	defer x.active.Done()
	if err := key.Validate(); err != nil {
		return journal.Entry{}, false, fmt.Errorf("executor: %w", err)
	}
	fingerprint, err := e.fingerprint(in)
	if err != nil {
		return journal.Entry{}, false, err
	}
	d := deed{x: x, e: e, key: key, in: in, fingerprint: fingerprint, doOptions: o}
	entry, err := x.ledger.Get(key)
	if err == nil && !entry.State.Done() {
		entry, err = d.untilDone(ctx)
	}
	if err != nil {
		return journal.Entry{}, false, err
	}
	return entry, d.ran, d.answer(&entry)
}

// A deed is one call of Do.
type deed struct {
	doOptions
	x           *Executor
	e           *effect
	key         journal.Key
	in          []byte
	fingerprint uint64
	looked      bool // at the key in doubt
	ran         bool // this call made the last attempt
}

// answer is what a recorded outcome means to this call.
func (d *deed) answer(e *journal.Entry) error {
	switch {
	case e.Fingerprint != 0 && d.fingerprint != 0 && e.Fingerprint != d.fingerprint:
		return fmt.Errorf("executor: %v was done with an input of fingerprint %016x, this one has %016x: %w",
			d.key, e.Fingerprint, d.fingerprint, ledger.ErrMismatch)
	case e.Failed:
		return fmt.Errorf("executor: %v: %w", d.key, &PermanentError{Err: errors.New(e.Reason), Replayed: !d.ran})
	case e.NoResult:
		return fmt.Errorf("executor: %v: %w", d.key, ledger.ErrResultExpired)
	}
	return nil
}

// untilDone takes the key from where it stands to an outcome, or says why not.
func (d *deed) untilDone(ctx context.Context) (journal.Entry, error) {
	x := d.x
	x.startBackground()
	if x.opts.Strict {
		if err := x.WaitReady(ctx); err != nil {
			return journal.Entry{}, err
		}
	}
	for {
		entry, err := x.ledger.Get(d.key)
		if err != nil {
			return entry, err
		}
		state := x.ledger.State(&entry)
		switch {
		case state.Done():
			return entry, nil
		case state == journal.Accepted:
			err = d.await(ctx)
		case state == journal.InDoubt:
			err = d.look(ctx, &entry)
		case state == journal.Released && attempts(&entry) >= d.e.maxAttempts:
			err = x.exhaust(d.e, d.key, &entry)
		default:
			err = d.attempt(ctx, &entry)
		}
		if err != nil {
			return entry, err
		}
	}
}

// attempts is how many attempts of this generation were made.
func attempts(e *journal.Entry) uint32 { return e.Attempt - e.FirstOf + 1 }

// await waits for the attempt of another call.
func (d *deed) await(ctx context.Context) error {
	if d.noWait {
		return fmt.Errorf("executor: %v: %w", d.key, ledger.ErrInFlight)
	}
	_, err := d.x.ledger.Await(ctx, d.key)
	return err
}

// look asks once what became of the attempt in doubt.
func (d *deed) look(ctx context.Context, entry *journal.Entry) error {
	if d.looked {
		return d.held(entry)
	}
	d.looked = true
	_, err := d.x.look(ctx, d.e, d.key)
	return err
}

func (d *deed) held(e *journal.Entry) error {
	why := e.Cause.String()
	if e.State == journal.Accepted {
		why = "its owner is gone"
	}
	if n := len(e.History); n > 0 && e.History[n-1].Note != "" {
		why += ": " + e.History[n-1].Note
	}
	return fmt.Errorf("executor: attempt %d of %v (%s); find out whether it happened, then `oncelog resolve`: %w",
		e.Attempt, d.key, why, ledger.ErrInDoubt)
}

// attempt makes one attempt, if the ledger grants it. A nil error says to look
// again where the key stands.
func (d *deed) attempt(ctx context.Context, entry *journal.Entry) error {
	x := d.x
	if d.e.run == nil {
		return fmt.Errorf("executor: effect %q has no Run", d.e.name)
	}
	if entry.State.Settled() {
		if err := x.room(ctx); err != nil {
			return err
		}
	}
	give, err := take(ctx, x.slots)
	if err != nil {
		return err
	}
	defer func() { give() }()
	// Whether another attempt is allowed was decided on this entry.
	input := ledger.Input{Fingerprint: d.fingerprint, Attempt: entry.Attempt + 1}
	if d.e.keepInput {
		input.Data = d.in
	}
	granted, err := x.ledger.Accept(ctx, d.key, input)
	if err != nil {
		return err
	}
	if !granted.Granted {
		if granted.State == journal.Accepted {
			give()
			give = func() {}
			return d.await(ctx)
		}
		return nil
	}
	x.decided(d.key, granted.Entry.Attempt-1)
	d.ran = true
	done, err := x.run(ctx, d.e, callOf(d.key, granted.Entry.Attempt, granted.Entry.Generation), d.in)
	if _, ok := err.(*NotAppliedError); !ok {
		return err
	}
	if attempts(&done) >= d.e.maxAttempts {
		return nil
	}
	if d.noRetry {
		return fmt.Errorf("executor: attempt %d of %v: %w", done.Attempt, d.key, err)
	}
	give()
	give = func() {}
	select {
	case <-time.After(backoff(x.opts.Backoff, int(attempts(&done))-1)):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("executor: attempt %d of %v: %w (%w)", done.Attempt, d.key, err, context.Cause(ctx))
	}
}

// backoff doubles base n times, at most 6, less up to half at random so that many
// callers do not come back at once.
func backoff(base time.Duration, n int) time.Duration {
	d := base << min(n, 6)
	return d - rand.N(d/2+1)
}
