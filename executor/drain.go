package executor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/oncelog/oncelog/journal"
)

// A DrainReport counts what one pass over the journal came to.
type DrainReport struct {
	Confirmed   int // executed before, and the backend has it now
	Landed      int // in doubt before; the check says that it happened
	Released    int // in doubt or released before; another attempt may run
	Reran       int // of those released: run again, and executed
	Held        int // in doubt still
	Unconfirmed int // executed; the backend did not take it
	InFlight    int // an attempt runs here
	Unknown     int // of effects that are not registered here
	Skipped     int // not looked at: confirms of the effect kept failing
}

func (r DrainReport) troubled() bool { return r.Held+r.Unconfirmed+r.Skipped > 0 }

// Drain makes one pass over the journal: it checks what is in doubt, confirms
// what is executed, releases what did not happen, and runs that again where the
// effect keeps its input. It is done before new work, and again and again in the
// background; calling it is never wrong. The error is the ledger's, or the
// context's.
func (x *Executor) Drain(ctx context.Context) (DrainReport, error) {
	if err := x.begin(); err != nil {
		return DrainReport{}, err
	}
	defer x.active.Done()
	return x.drain(ctx, false)
}

// breaker is how many confirms of one effect may fail in a row before a pass in
// the background leaves the rest of them to the next.
const breaker = 8

// pass is one pass over the journal.
type pass struct {
	x          *Executor
	background bool

	mu     sync.Mutex // guards the fields below
	report DrainReport
	fails  map[string]int // confirms in a row, by effect
	err    error
}

func (x *Executor) drain(ctx context.Context, background bool) (DrainReport, error) {
	var keys []journal.Key
	for key := range x.ledger.Unsettled() {
		keys = append(keys, key)
	}
	if background {
		// In another order each time: keys that cannot be confirmed must not
		// keep a pass from the others.
		rand.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	}
	p := &pass{x: x, background: background, fails: map[string]int{}}
	p.all(ctx, keys)
	if p.err == nil {
		x.passed()
	}
	return p.report, p.err
}

// all looks at the keys, a few at a time, until the ledger or the context ends.
func (p *pass) all(ctx context.Context, keys []journal.Key) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	slots := make(chan struct{}, p.x.opts.Confirmers)
	var group sync.WaitGroup
	defer group.Wait()
	for _, key := range keys {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			p.fail(context.Cause(ctx))
			return
		}
		group.Go(func() {
			defer func() { <-slots }()
			if err := p.one(ctx, key); err != nil {
				p.fail(err)
				cancel(err)
			}
		})
	}
}

func (p *pass) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = fmt.Errorf("executor: drain: %w", err)
	}
}

// one looks at one key, and runs it again if that is allowed and possible.
func (p *pass) one(ctx context.Context, key journal.Key) error {
	e := p.x.effect(key.Effect)
	if e == nil || p.broken(e) {
		p.count(e, -1)
		return nil
	}
	f, err := p.x.look(ctx, e, key)
	if err != nil {
		return err
	}
	p.count(e, f)
	if f != released {
		return nil
	}
	entry, err := p.x.ledger.Get(key)
	if err != nil || !rerunnable(e, &entry) {
		return err
	}
	_, _, err = p.x.do(ctx, e, key, entry.Input, doOptions{noWait: true, noRetry: true})
	if err == nil {
		p.mu.Lock()
		p.report.Reran++
		p.mu.Unlock()
		return nil
	}
	p.x.opts.Logger.Warn("run again", "key", key.String(), "error", err)
	if led := p.x.ledger.Err(); led != nil {
		return led
	}
	return nil
}

// rerunnable reports whether the drain knows all that another attempt needs.
func rerunnable(e *effect, entry *journal.Entry) bool {
	return e.run != nil && e.keepInput && entry.State == journal.Released && (len(entry.Input) > 0 || entry.Fingerprint == 0)
}

func (p *pass) broken(e *effect) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.background && p.fails[e.name] >= breaker
}

func (p *pass) count(e *effect, f finding) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := &p.report
	switch {
	case e == nil:
		r.Unknown++
		return
	case f < 0:
		r.Skipped++
		return
	}
	switch f {
	case confirmed:
		r.Confirmed++
		p.fails[e.name] = 0
	case unconfirmed:
		r.Unconfirmed++
		p.fails[e.name]++
	case landed:
		r.Landed++
	case released:
		r.Released++
	case held:
		r.Held++
	case inFlight:
		r.InFlight++
	}
}

// passed notes that a whole pass was made: what earlier owners left was looked at.
func (x *Executor) passed() {
	x.mu.Lock()
	defer x.mu.Unlock()
	select {
	case <-x.ready:
	default:
		close(x.ready)
	}
}

// WaitReady waits until a drain has looked at every key that an earlier owner left
// in the journal.
func (x *Executor) WaitReady(ctx context.Context) error {
	x.startBackground()
	select {
	case <-x.ready:
		return nil
	case <-x.stop:
		return fmt.Errorf("executor: %w", ErrClosed)
	case <-ctx.Done():
		return fmt.Errorf("executor: waiting for the first drain: %w", context.Cause(ctx))
	}
}

// startBackground begins to drain in the background, once.
func (x *Executor) startBackground() {
	if x.opts.DrainEvery < 0 {
		return
	}
	x.once.Do(func() {
		if x.begin() == nil {
			go x.drainInBackground()
		}
	})
}

func (x *Executor) drainInBackground() {
	defer x.active.Done()
	ctx, cancel := context.WithCancelCause(x.ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-x.stop:
			cancel(errStopped)
		case <-ctx.Done():
		}
	}()
	for fails := 0; ; {
		report, err := x.drain(ctx, true)
		switch {
		case errors.Is(err, errStopped) || x.ledger.Err() != nil:
			return
		case err != nil:
			x.opts.Logger.Warn("drain", "error", err)
			fails++
		case report.troubled():
			fails++
		default:
			fails = 0
		}
		select {
		case <-time.After(backoff(x.opts.DrainEvery, fails)):
		case <-x.stop:
			return
		}
	}
}

var errStopped = errors.New("executor stopped")
