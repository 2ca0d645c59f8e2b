package executor

import (
	"context"
	"fmt"
	"time"

	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/ledger"
)

// A finding is what a look at a key came to.
type finding int

const (
	settled     finding = iota // nothing is left to do
	confirmed                  // the backend has it now
	landed                     // in doubt before; it did happen
	released                   // another attempt may run
	held                       // in doubt still
	unconfirmed                // executed; the backend did not take it
	inFlight                   // an attempt runs here
)

// look does for one key what its state asks for: check, confirm, release. It runs
// nothing. The error is the ledger's, or the context's.
func (x *Executor) look(ctx context.Context, e *effect, key journal.Key) (finding, error) {
	if err := x.claim(ctx, key); err != nil {
		return held, err
	}
	defer x.unclaim(key)
	entry, err := x.ledger.Get(key)
	if err != nil {
		return held, err
	}
	defer x.ungate(key)
	switch x.ledger.State(&entry) {
	case journal.Accepted:
		return inFlight, nil
	case journal.InDoubt:
		f, err := x.decide(ctx, e, key, &entry)
		if f != held && err == nil {
			x.decided(key, entry.Attempt)
		}
		return f, err
	}
	x.decided(key, entry.Attempt)
	switch entry.State {
	case journal.Executed:
		return x.confirm(ctx, e, key, &entry)
	case journal.Released:
		return released, nil
	}
	return settled, nil
}

// decide finds out about an attempt in doubt, by a check or by the effect's
// promise to be idempotent.
func (x *Executor) decide(ctx context.Context, e *effect, key journal.Key, entry *journal.Entry) (finding, error) {
	if e.check != nil {
		f, err := x.check(ctx, e, key, entry)
		if f != held || err != nil {
			return f, err
		}
	}
	if !e.idempotent || !x.remembered(e, entry) {
		return held, nil
	}
	_, err := x.ledger.Release(key, entry.Attempt, journal.Idempotent, fmt.Sprintf("within %v of the first attempt", e.window))
	return released, err
}

// remembered reports whether the far side still knows the key's first attempt. A
// key that the ledger itself has forgotten may have been tried at any time.
func (x *Executor) remembered(e *effect, entry *journal.Entry) bool {
	for _, ev := range entry.Events() {
		if ev.Cause == journal.Amnesia {
			return false
		}
	}
	age := time.Since(time.UnixMilli(entry.AcceptedAt).Round(0))
	return age >= 0 && age < e.window
}

// check asks the outside world and records what it saw.
func (x *Executor) check(ctx context.Context, e *effect, key journal.Key, entry *journal.Entry) (finding, error) {
	give, err := take(ctx, x.helpers)
	if err != nil {
		return held, err
	}
	since, begun := x.goneSince(key, entry.Attempt), time.Now()
	verdict, evidence := x.ask(ctx, e, callOf(key, entry.Attempt, entry.Generation), entry.Input)
	give()
	if err := ctx.Err(); err != nil && verdict == Unknown {
		return held, fmt.Errorf("executor: check of %v: %w", key, context.Cause(ctx))
	}
	if early := e.settle - begun.Sub(since); verdict == NotLanded && early > 0 {
		verdict = Unknown
		evidence = fmt.Sprintf("not landed, which counts only %v after its owner was gone: %s", e.settle, evidence)
	}
	switch verdict {
	case Landed:
		o := ledger.Outcome{Cause: journal.Landed, NoResult: true, Note: evidence, Settles: e.confirm == nil}
		if entry, err := x.ledger.Execute(key, entry.Attempt, o); err != nil || o.Settles {
			return landed, err
		} else if _, err := x.confirm(ctx, e, key, &entry); err != nil {
			return landed, err
		}
		return landed, nil
	case NotLanded:
		_, err := x.ledger.Release(key, entry.Attempt, journal.NotLanded, evidence)
		return released, err
	}
	if n := len(entry.History); n > 0 && entry.State == journal.InDoubt && entry.History[n-1].Note == evidence {
		return held, nil // the same again is no news
	}
	_, err = x.ledger.Doubt(key, entry.Attempt, journal.Unknown, evidence)
	return held, err
}

// ask calls Check. A panic in it is no answer.
func (x *Executor) ask(ctx context.Context, e *effect, call Call, in []byte) (v Verdict, evidence string) {
	ctx, cancel := context.WithTimeout(ctx, e.callTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			v, evidence = Unknown, fmt.Sprintf("check: panic: %v", p)
		}
	}()
	v, evidence, err := e.check(ctx, call, in)
	if err != nil {
		return Unknown, fmt.Sprintf("check: %v", err)
	}
	if v != Landed && v != NotLanded {
		v = Unknown
	}
	return v, evidence
}

// confirm tells the backend, and settles the key once it has taken it.
func (x *Executor) confirm(ctx context.Context, e *effect, key journal.Key, entry *journal.Entry) (finding, error) {
	if e.confirm == nil && entry.Cause != journal.Operator {
		// An outcome that has nobody to confirm it settles when it is recorded:
		// this one was recorded under a Confirm, and the backend waits for it.
		x.opts.Logger.Warn("executed under a Confirm that is not registered here", "key", key.String())
		return unconfirmed, nil
	}
	if e.confirm != nil {
		give, err := take(ctx, x.helpers)
		if err != nil {
			return unconfirmed, err
		}
		err = x.tell(ctx, e, callOf(key, entry.Attempt, entry.Generation), entry)
		give()
		if err != nil {
			x.opts.Logger.Warn("confirm failed", "key", key.String(), "error", err)
			return unconfirmed, nil
		}
	}
	return confirmed, x.ledger.Confirm(key, entry.Attempt, false)
}

func (x *Executor) tell(ctx context.Context, e *effect, call Call, entry *journal.Entry) (err error) {
	ctx, cancel := context.WithTimeout(ctx, e.callTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return e.confirm(ctx, call, entry)
}

// confirmSoon confirms in the background. Where many are under way already it
// leaves the key to the next drain: a backend that is down must not hold up work.
func (x *Executor) confirmSoon(e *effect, key journal.Key) {
	if x.toConfirm.Add(1) > int64(4*x.opts.Confirmers) || x.begin() != nil {
		x.toConfirm.Add(-1)
		return
	}
	go func() {
		defer x.active.Done()
		defer x.toConfirm.Add(-1)
		if _, err := x.look(x.ctx, e, key); err != nil {
			x.opts.Logger.Warn("confirm", "key", key.String(), "error", err)
		}
	}()
}

// departure is when an attempt of this process was over without an outcome.
type departure struct {
	attempt uint32
	at      time.Time
}

// ownerGone notes that an attempt of this process is over without an outcome.
func (x *Executor) ownerGone(key journal.Key, attempt uint32) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.gone[key] = departure{attempt, time.Now()}
}

// goneSince is since when the owner of an attempt is known to be gone, by this
// process's monotonic clock.
func (x *Executor) goneSince(key journal.Key, attempt uint32) time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	if d, ok := x.gone[key]; ok && d.attempt == attempt {
		return d.at
	}
	return x.born
}

// decided notes that an attempt is no longer in doubt. A later one of the key may be
// already.
func (x *Executor) decided(key journal.Key, attempt uint32) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if d, ok := x.gone[key]; ok && d.attempt <= attempt {
		delete(x.gone, key)
	}
}

// ungate lets new attempts of a key in that an earlier owner left.
func (x *Executor) ungate(key journal.Key) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.gate, key)
}
