package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/oncelog/oncelog/index"
	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/wal"
)

// Log space promised at accept, so that a full disk cannot keep the truth from
// being recorded: one outcome whose result is up to resultReserve bytes, after
// one doubt. A larger result is let go if the disk is full.
const (
	resultReserve  = 2 << 10
	doubtReserve   = 2 << 10
	attemptReserve = resultReserve + doubtReserve
)

// buffers hold records while they are encoded.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// A decided is what a decision on a key came to.
type decided struct {
	ticket wal.Ticket
	wrote  bool          // a record is on its way
	entry  journal.Entry // once it is durable
}

// write decides on a key and queues what was decided. decide may return no record.
func (l *Embedded) write(key journal.Key, decide func(*index.Draft) (*journal.Record, error)) (w decided, err error) {
	if err := checkKey(key); err != nil {
		return w, err
	}
	if err := l.Err(); err != nil {
		return w, err
	}
	w.entry, err = l.book.Stage(key, decide, func(r *journal.Record, d *index.Draft) (uint64, error) {
		t, err := l.queue(r, d)
		w.ticket, w.wrote = t, err == nil
		return t.LSN(), err
	})
	return w, err
}

// queue appends a record with the reserve that its kind takes or gives back.
func (l *Embedded) queue(r *journal.Record, d *index.Draft) (wal.Ticket, error) {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	*buf = r.AppendTo((*buf)[:0])
	change, left := reservation(r.Kind, d.Reserve)
	t, err := l.log.AppendTagged(*buf, change, d.Tag())
	if errors.Is(err, wal.ErrFull) && r.Kind == journal.KindExecuted && len(r.Result) > 0 {
		r.Result, r.NoResult = nil, true
		*buf = r.AppendTo((*buf)[:0])
		t, err = l.log.AppendTagged(*buf, change, d.Tag())
	}
	if err == nil {
		d.Reserve = left
	}
	return t, err
}

// reservation is how a record of a kind changes the log space that is promised,
// and what of the promise is left for the key.
func reservation(kind journal.Kind, held int64) (change, left int64) {
	switch {
	case kind == journal.KindAccepted:
		return attemptReserve - held, attemptReserve
	case kind == journal.KindDoubt && held >= attemptReserve:
		return -doubtReserve, held - doubtReserve
	case kind == journal.KindDoubt || kind == journal.KindObserved || kind == journal.KindConfirmed:
		return 0, held
	}
	return -held, 0
}

// finish waits until what was decided is durable, and answers with the entry then; as
// Get shows it where nothing was written.
func (l *Embedded) finish(key journal.Key, w *decided) (journal.Entry, error) {
	if !w.wrote {
		return l.book.Get(key)
	}
	if err := w.ticket.Wait(); err != nil {
		return journal.Entry{}, fmt.Errorf("ledger: %v: %w", key, err)
	}
	return w.entry, nil
}

// Accept writes the marker; see [Ledger].
func (l *Embedded) Accept(ctx context.Context, key journal.Key, in Input) (Decision, error) {
	if len(in.Data) > MaxInput {
		return Decision{}, fmt.Errorf("ledger: %v: the input has %d bytes, at most %d are kept: %w", key, len(in.Data), MaxInput, ErrTooLarge)
	}
	if err := ctx.Err(); err != nil {
		return Decision{}, fmt.Errorf("ledger: %v is not accepted: %w", key, context.Cause(ctx))
	}
	var d Decision
	w, err := l.write(key, func(draft *index.Draft) (*journal.Record, error) {
		return l.decideAccept(&d, draft, key, in)
	})
	if err != nil {
		return Decision{}, err
	}
	if !w.wrote {
		return d, nil
	}
	if d.Entry, err = l.finish(key, &w); err != nil {
		return Decision{}, err
	}
	d.State = l.State(&d.Entry)
	return d, nil
}

// decideAccept grants an attempt to an absent or a released key.
func (l *Embedded) decideAccept(d *Decision, draft *index.Draft, key journal.Key, in Input) (*journal.Record, error) {
	e := draft.Staged
	if e.Fingerprint != 0 && in.Fingerprint != 0 && e.Fingerprint != in.Fingerprint && e.State != journal.Absent {
		return nil, fmt.Errorf("ledger: %v is known with an input of fingerprint %016x, this one has %016x: %w",
			key, e.Fingerprint, in.Fingerprint, ErrMismatch)
	}
	d.State = e.StateIn(l.epoch)
	var full error
	if d.State == journal.Absent {
		full = l.room()
	}
	switch {
	case (d.State == journal.Absent || d.State == journal.Released) && l.lostSince(e):
		attempt := e.Attempt
		if d.State == journal.Absent {
			attempt++
		}
		d.State = journal.InDoubt
		draft.Record = journal.Record{Kind: journal.KindDoubt, Key: key, Attempt: attempt, Time: now(), Cause: journal.Amnesia,
			Note: l.book.Amnesia().Reason}
		return &draft.Record, nil
	case full != nil:
		return nil, full
	case (d.State == journal.Absent || d.State == journal.Released) && (in.Attempt == 0 || in.Attempt == e.Attempt+1):
		d.Granted = true
		draft.Record = journal.Record{Kind: journal.KindAccepted, Key: key, Attempt: e.Attempt + 1, Epoch: l.epoch, Time: now(),
			Fingerprint: in.Fingerprint, Input: in.Data}
		return &draft.Record, nil
	}
	// What is on its way is not answered as known: only what is durable is.
	d.Entry = *draft.Durable
	d.Entry.History = append([]journal.Event(nil), d.Entry.History...)
	if draft.Pending {
		d.State = journal.Accepted
	}
	return nil, nil
}

// lostSince reports whether later records of a key may be among those that the
// ledger has lost.
func (l *Embedded) lostSince(e *journal.Entry) bool {
	w := l.book.Amnesia()
	return w.Amnesia && e.LSN < w.Since
}

func now() int64 { return time.Now().UnixMilli() }

// fenced reports an attempt that was never granted.
func fenced(key journal.Key, attempt uint32, e *journal.Entry) error {
	return fmt.Errorf("ledger: attempt %d of %v is not known, the last one is %d: %w", attempt, key, e.Attempt, ErrFenced)
}

// Execute records an outcome; see [Ledger].
func (l *Embedded) Execute(key journal.Key, attempt uint32, out Outcome) (journal.Entry, error) {
	if len(out.Result) > MaxResult {
		return journal.Entry{}, fmt.Errorf("ledger: %v: the result has %d bytes, at most %d are kept: %w",
			key, len(out.Result), MaxResult, ErrTooLarge)
	}
	w, err := l.write(key, func(d *index.Draft) (*journal.Record, error) {
		e := d.Staged
		if attempt == 0 || attempt > e.Attempt {
			return nil, fenced(key, attempt, e)
		}
		if attempt < e.Attempt || e.State == journal.Absent {
			if out.Cause == journal.Exhausted {
				return nil, nil // a decision that came too late saw nothing
			}
			return observed(key, attempt, !out.Failed, out.Note), nil
		}
		if e.State.Done() {
			if sameOutcome(e, &out) {
				return nil, nil
			}
			return observed(key, attempt, !out.Failed, out.Note), nil
		}
		d.Record = journal.Record{Kind: journal.KindExecuted, Key: key, Attempt: attempt, Time: now(), Cause: out.Cause,
			Failed: out.Failed, NoResult: out.NoResult, Settles: out.Settles, Result: out.Result, Reason: clip(out.Reason), Note: clip(out.Note)}
		return &d.Record, nil
	})
	if err != nil {
		return journal.Entry{}, err
	}
	return l.finish(key, &w)
}

func observed(key journal.Key, attempt uint32, landed bool, note string) *journal.Record {
	return &journal.Record{Kind: journal.KindObserved, Key: key, Attempt: attempt, Time: now(), Landed: landed, Note: clip(note)}
}

func sameOutcome(e *journal.Entry, out *Outcome) bool {
	return e.Failed == out.Failed && e.Cause != journal.Operator &&
		(e.NoResult || bytes.Equal(e.Result, out.Result)) && e.Reason == clip(out.Reason)
}

// clip cuts a text at MaxNote bytes.
func clip(s string) string {
	if len(s) <= MaxNote {
		return s
	}
	return strings.ToValidUTF8(s[:MaxNote], "")
}

// Release records that an attempt did not happen; see [Ledger].
func (l *Embedded) Release(key journal.Key, attempt uint32, cause journal.Cause, note string) (journal.Entry, error) {
	w, err := l.write(key, func(d *index.Draft) (*journal.Record, error) {
		e := d.Staged
		switch state := e.StateIn(l.epoch); {
		case attempt == 0 || attempt > e.Attempt:
			return nil, fenced(key, attempt, e)
		case cause == journal.NotApplied && (attempt < e.Attempt || state.Done() || state == journal.Absent):
			return observed(key, attempt, false, note), nil
		case attempt < e.Attempt:
			return nil, fmt.Errorf("ledger: attempt %d of %v cannot be released, attempt %d followed: %w", attempt, key, e.Attempt, ErrFenced)
		case state == journal.Released:
			return nil, nil
		case state == journal.Accepted && cause != journal.NotApplied:
			return nil, fmt.Errorf("ledger: attempt %d of %v still runs, %v cannot release it: %w", attempt, key, cause, ErrInFlight)
		case cause != journal.Operator && cause != journal.NotApplied && state != journal.InDoubt:
			return nil, fmt.Errorf("ledger: attempt %d of %v is %v, %v releases only what is in doubt: %w", attempt, key, state, cause, ErrFenced)
		}
		return &journal.Record{Kind: journal.KindReleased, Key: key, Attempt: attempt, Time: now(), Cause: cause, Note: clip(note)}, nil
	})
	if err != nil {
		return journal.Entry{}, err
	}
	return l.finish(key, &w)
}

// Doubt records that nobody can tell; see [Ledger]. Where the attempt has been
// decided meanwhile it changes nothing.
func (l *Embedded) Doubt(key journal.Key, attempt uint32, cause journal.Cause, note string) (journal.Entry, error) {
	w, err := l.write(key, func(d *index.Draft) (*journal.Record, error) {
		e := d.Staged
		if attempt == 0 || attempt > e.Attempt {
			return nil, fenced(key, attempt, e)
		}
		if attempt < e.Attempt || (e.State != journal.Accepted && e.State != journal.InDoubt) {
			return nil, nil
		}
		if cause == journal.Unknown && e.StateIn(l.epoch) == journal.Accepted {
			return nil, fmt.Errorf("ledger: attempt %d of %v still runs, a check cannot put it in doubt: %w", attempt, key, ErrInFlight)
		}
		return &journal.Record{Kind: journal.KindDoubt, Key: key, Attempt: attempt, Time: now(), Cause: cause, Note: clip(note)}, nil
	})
	if err != nil {
		return journal.Entry{}, err
	}
	return l.finish(key, &w)
}

// Confirm settles an executed key; see [Ledger].
func (l *Embedded) Confirm(key journal.Key, attempt uint32, wait bool) error {
	w, err := l.write(key, func(d *index.Draft) (*journal.Record, error) {
		e := d.Staged
		if attempt != e.Attempt || !e.State.Done() {
			return nil, fmt.Errorf("ledger: attempt %d of %v cannot be confirmed, the key is %v with attempt %d: %w",
				attempt, key, e.StateIn(l.epoch), e.Attempt, ErrFenced)
		}
		if e.State == journal.Confirmed {
			return nil, nil
		}
		d.Record = journal.Record{Kind: journal.KindConfirmed, Key: key, Attempt: attempt, Time: now()}
		return &d.Record, nil
	})
	if err != nil {
		return err
	}
	if w.wrote && !wait {
		w.ticket.Later()
		return nil
	}
	_, err = l.finish(key, &w)
	return err
}
