package executor

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/ledger"
)

// Options of an executor. The zero value is the default of each.
type Options struct {
	// Concurrency is how many runs may be under way at once; more wait, before
	// their marker. Defaults to no limit.
	Concurrency int
	// Confirmers is how many checks and confirms may be under way at once.
	// Defaults to 16.
	Confirmers int
	// MaxJournal is how many keys may be unsettled before new work waits: a
	// backend that is down must not fill the memory. Defaults to 100,000.
	MaxJournal int
	// Strict makes all new work, not only that on keys of the journal, wait
	// until a drain has looked at everything that an earlier owner left.
	Strict bool
	// DrainEvery is how often the journal is drained in the background while
	// that succeeds. After a pass in which something failed the pause doubles,
	// up to 64 times, less a random part. Defaults to 1s; negative means only
	// when Drain is called.
	DrainEvery time.Duration
	// Backoff is the pause after a first attempt that was not applied. It
	// doubles with every attempt, up to 64 times, less a random part. Defaults
	// to 100ms.
	Backoff time.Duration
	// Logger hears what happens in the background. Defaults to none.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Confirmers <= 0 {
		o.Confirmers = 16
	}
	if o.MaxJournal <= 0 {
		o.MaxJournal = 100_000
	}
	if o.DrainEvery == 0 {
		o.DrainEvery = time.Second
	}
	if o.Backoff <= 0 {
		o.Backoff = 100 * time.Millisecond
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// An Executor runs effects on one ledger. Its methods may be called concurrently.
// The ledger stays the caller's: close it after the executor.
type Executor struct {
	ledger  ledger.Ledger
	opts    Options
	born    time.Time     // owners of earlier epochs are gone since then
	slots   chan struct{} // of runs; nil for no limit
	helpers chan struct{} // slots of checks and confirms

	ctx    context.Context // ends with Close; of what runs in the background
	cancel context.CancelFunc
	stop   chan struct{}  // closed by Close
	once   sync.Once      // starts the background drain
	active sync.WaitGroup // calls and what runs in the background

	mu      sync.Mutex // guards the fields below
	effects map[string]*effect
	gate    map[journal.Key]struct{}  // left by earlier owners and not looked at yet
	ready   chan struct{}             // closed when the first pass over the gate is done
	gone    map[journal.Key]departure // of attempts in doubt whose owner was this process
	busy    map[journal.Key]struct{}  // keys that somebody looks at
	freed   chan struct{}             // closed when a key leaves busy; nil while nobody waits
	closed  bool

	toConfirm atomic.Int64 // confirms that were handed to the background
}

// New returns an executor on a ledger that has just been opened. Register its
// effects before anything else.
func New(l ledger.Ledger, o Options) *Executor {
	x := &Executor{
		ledger: l, opts: o.withDefaults(), born: time.Now(),
		effects: map[string]*effect{}, gate: map[journal.Key]struct{}{}, ready: make(chan struct{}),
		gone: map[journal.Key]departure{}, busy: map[journal.Key]struct{}{}, stop: make(chan struct{}),
	}
	x.ctx, x.cancel = context.WithCancel(context.Background())
	x.helpers = make(chan struct{}, x.opts.Confirmers)
	if o.Concurrency > 0 {
		x.slots = make(chan struct{}, o.Concurrency)
	}
	for key, e := range l.Unsettled() {
		if l.State(&e) != journal.Accepted {
			x.gate[key] = struct{}{}
		}
	}
	if len(x.gate) == 0 {
		close(x.ready)
	}
	return x
}

// A Handle is a registered effect.
type Handle[In, Out any] struct {
	x *Executor
	e *effect
}

// Register makes an effect known. ErrDuplicateEffect where its name is taken.
func Register[In, Out any](x *Executor, e Effect[In, Out]) (*Handle[In, Out], error) {
	c, err := compile(e)
	if err != nil {
		return nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.effects[c.name] != nil {
		return nil, fmt.Errorf("executor: effect %q: %w", c.name, ErrDuplicateEffect)
	}
	x.effects[c.name] = c
	return &Handle[In, Out]{x, c}, nil
}

func (x *Executor) effect(name string) *effect {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.effects[name]
}

// begin counts a call in, unless the executor is closed.
func (x *Executor) begin() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return fmt.Errorf("executor: %w", ErrClosed)
	}
	x.active.Add(1)
	return nil
}

// Close lets no new call in and waits for those that run, with the recording of
// their outcomes, and for confirms that were begun, until the context ends. A
// drain in the background ends after the keys at which it is.
func (x *Executor) Close(ctx context.Context) error {
	x.mu.Lock()
	was := x.closed
	x.closed = true
	x.mu.Unlock()
	if was {
		return fmt.Errorf("executor: %w", ErrClosed)
	}
	close(x.stop)
	done := make(chan struct{})
	go func() {
		x.active.Wait()
		close(done)
	}()
	defer x.cancel()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("executor: closed with calls under way: %w", context.Cause(ctx))
	}
}

// claim makes the caller the only one to look at a key.
func (x *Executor) claim(ctx context.Context, key journal.Key) error {
	for {
		x.mu.Lock()
		if _, taken := x.busy[key]; !taken {
			x.busy[key] = struct{}{}
			x.mu.Unlock()
			return nil
		}
		if x.freed == nil {
			x.freed = make(chan struct{})
		}
		freed := x.freed
		x.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return fmt.Errorf("executor: waiting for another look at %v: %w", key, context.Cause(ctx))
		}
	}
}

func (x *Executor) unclaim(key journal.Key) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.busy, key)
	if x.freed != nil {
		close(x.freed)
		x.freed = nil
	}
}

// roomPoll is how often a call that waits for the journal to shrink looks.
const roomPoll = 10 * time.Millisecond

// room waits until the journal has room for a new key.
func (x *Executor) room(ctx context.Context) error {
	for x.ledger.UnsettledCount() >= x.opts.MaxJournal {
		select {
		case <-time.After(roomPoll):
		case <-ctx.Done():
			return fmt.Errorf("executor: %d keys are unsettled, new work waits until there are less than %d; is the backend down? %w",
				x.ledger.UnsettledCount(), x.opts.MaxJournal, context.Cause(ctx))
		}
	}
	return nil
}

// take takes a slot, and gives it back by the function it returns.
func take(ctx context.Context, slots chan struct{}) (give func(), err error) {
	if slots == nil {
		return func() {}, nil
	}
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("executor: waiting for a slot: %w", context.Cause(ctx))
	}
}
