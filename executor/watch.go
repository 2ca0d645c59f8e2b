package executor

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/oncelog/oncelog/ledger"
)

// An Item is what a queue lists as pending.
type Item struct {
	ID    string
	Input []byte // encoded as the effect's In
}

// A Source is a queue that can be asked what is pending. It may list what was
// done already: that costs a look-up each.
type Source interface {
	// Items yields the pending items. A *BadItemError stands for one that
	// cannot be used, and the others follow; any other error ends the poll.
	Items(ctx context.Context) iter.Seq2[Item, error]
}

// A BadItemError is an item of a source that cannot be used.
type BadItemError struct {
	Where string // such as "queue.jsonl:17"
	Err   error
}

func (e *BadItemError) Error() string { return fmt.Sprintf("%s: %v", e.Where, e.Err) }

// Unwrap returns why.
func (e *BadItemError) Unwrap() error { return e.Err }

// WatchOptions of a watcher. The zero value is the default of each.
type WatchOptions[Out any] struct {
	// Every is the time from the end of one poll's work to the next poll.
	// Defaults to 5 minutes.
	Every time.Duration
	// Once ends after one poll.
	Once bool
	// Concurrency is how many items are worked on at once. Defaults to 1.
	Concurrency int
	// Each is told what became of every item, and of every one that could not be
	// used, from several goroutines at once. It may be nil.
	Each func(item Item, r Result[Out], err error)
	// Polled is told when a poll's work is done, with its counts so far and the
	// error of a poll that failed. It may be nil.
	Polled func(r WatchReport, err error)
}

// A WatchReport counts what a watcher did.
type WatchReport struct {
	Polls      int
	Executed   int // run now
	Replayed   int // done before
	Failed     int // permanently, now or before
	InDoubt    int
	NotApplied int // nothing happened; the next poll tries again
	Bad        int // could not be used, or have another input than before
	Refused    int // by the ledger or the context, before anything ran
}

// Watch drains the journal, then polls the source and does every pending item,
// over and over until the context ends; then it returns nil. A poll that fails is
// tried again at the next, or returned with Once. Watch ends with an error when
// the ledger has stopped.
func (h *Handle[In, Out]) Watch(ctx context.Context, src Source, o WatchOptions[Out]) (WatchReport, error) {
	if o.Every <= 0 {
		o.Every = 5 * time.Minute
	}
	if o.Concurrency <= 0 {
		o.Concurrency = 1
	}
	w := &watcher[In, Out]{h: h, o: o}
	for {
		err := w.poll(ctx, src)
		if o.Polled != nil {
			o.Polled(w.counts(), err)
		}
		switch {
		case h.x.ledger.Err() != nil:
			return w.counts(), fmt.Errorf("executor: watch: %w", h.x.ledger.Err())
		case errors.Is(err, ErrClosed) || o.Once && ctx.Err() == nil:
			return w.counts(), err
		}
		select {
		case <-ctx.Done():
			return w.counts(), nil
		case <-time.After(o.Every):
		}
	}
}

type watcher[In, Out any] struct {
	h *Handle[In, Out]
	o WatchOptions[Out]

	mu     sync.Mutex // guards report
	report WatchReport
}

func (w *watcher[In, Out]) counts() WatchReport {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.report
}

// poll drains, then does what the source lists.
func (w *watcher[In, Out]) poll(ctx context.Context, src Source) error {
	if _, err := w.h.x.Drain(ctx); err != nil {
		return err
	}
	items := make(chan Item)
	var group sync.WaitGroup
	for range w.o.Concurrency {
		group.Go(func() {
			for item := range items {
				w.do(ctx, item)
			}
		})
	}
	err := w.list(ctx, src, items)
	close(items)
	group.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.report.Polls++
	return err
}

func (w *watcher[In, Out]) list(ctx context.Context, src Source, items chan<- Item) error {
	for item, err := range src.Items(ctx) {
		var bad *BadItemError
		if errors.As(err, &bad) {
			w.told(item, Result[Out]{}, err)
			continue
		}
		if err != nil {
			return fmt.Errorf("executor: poll: %w", err)
		}
		select {
		case items <- item:
		case <-ctx.Done():
			return nil
		}
		if w.h.x.ledger.Err() != nil {
			return nil // Watch tells
		}
	}
	return nil
}

func (w *watcher[In, Out]) do(ctx context.Context, item Item) {
	// Before the marker: an input of another type is the queue's mistake.
	if _, err := decode[In](item.Input); err != nil {
		w.told(item, Result[Out]{}, &BadItemError{Where: item.ID, Err: err})
		return
	}
	r, err := w.h.do(ctx, item.ID, item.Input, doOptions{})
	w.told(item, r, err)
}

func (w *watcher[In, Out]) told(item Item, r Result[Out], err error) {
	w.mu.Lock()
	var failed *PermanentError
	var notApplied *NotAppliedError
	var bad *BadItemError
	c := &w.report
	switch {
	case err == nil && r.Replayed, errors.Is(err, ledger.ErrResultExpired):
		c.Replayed++
	case err == nil:
		c.Executed++
	case errors.As(err, &bad), errors.Is(err, ledger.ErrMismatch):
		c.Bad++
	case errors.As(err, &failed):
		c.Failed++
	case errors.As(err, &notApplied):
		c.NotApplied++
	case errors.Is(err, ledger.ErrInDoubt):
		c.InDoubt++
	default:
		c.Refused++
	}
	w.mu.Unlock()
	if w.o.Each != nil {
		w.o.Each(item, r, err)
	}
}
