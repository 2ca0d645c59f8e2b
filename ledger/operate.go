package ledger

import (
	"fmt"

	"github.com/oncelog/oncelog/index"
	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/wal"
)

// Resolve records an operator's decision; see [Ledger]. A landed key is then
// executed, without a result, and the next drain confirms it; one that did not
// land is released. Deciding the same again changes nothing.
func (l *Embedded) Resolve(key journal.Key, landed bool, note string) (journal.Entry, error) {
	w, err := l.write(key, func(d *index.Draft) (*journal.Record, error) {
		e := d.Staged
		rec := &journal.Record{Key: key, Attempt: e.Attempt, Time: now(), Cause: journal.Operator, Note: clip(note)}
		switch state := e.StateIn(l.epoch); {
		case state == journal.Accepted:
			return nil, fmt.Errorf("ledger: attempt %d of %v still runs, wait for it: %w", e.Attempt, key, ErrInFlight)
		case state == journal.InDoubt && landed:
			rec.Kind, rec.NoResult = journal.KindExecuted, true
			return rec, nil
		case state == journal.InDoubt, state == journal.Executed && !landed:
			rec.Kind = journal.KindReleased
			return rec, nil
		case state.Done() && landed && !e.Failed, state == journal.Released && !landed:
			return nil, nil
		default:
			return nil, fmt.Errorf("ledger: %v is %v, there is nothing to resolve; `oncelog forget` makes a settled key fresh: %w",
				key, state, ErrNothingToResolve)
		}
	})
	if err != nil {
		return journal.Entry{}, err
	}
	return l.finish(key, &w)
}

// Forget makes a key fresh again; see [Ledger]. A key that is fresh already is
// left as it is.
func (l *Embedded) Forget(key journal.Key, reason string) (journal.Entry, error) {
	w, err := l.write(key, func(d *index.Draft) (*journal.Record, error) {
		e := d.Staged
		switch e.StateIn(l.epoch) {
		case journal.Accepted:
			return nil, fmt.Errorf("ledger: attempt %d of %v still runs, wait for it: %w", e.Attempt, key, ErrInFlight)
		case journal.Absent:
			return nil, nil
		}
		return &journal.Record{Kind: journal.KindForgotten, Key: key, Time: now(), Note: clip(reason)}, nil
	})
	if err != nil {
		return journal.Entry{}, err
	}
	return l.finish(key, &w)
}

// SetAmnesia records that acknowledged records are known to be lost, so that
// from now on a key that is not known is in doubt instead of fresh, or that they
// no longer matter. The reason says who decided and why.
func (l *Embedded) SetAmnesia(lost bool, reason string) error {
	if err := l.Err(); err != nil {
		return err
	}
	r := journal.Record{Kind: journal.KindAmnesia, Landed: lost, Time: now(), Note: clip(reason)}
	if err := appendAndWait(l.log, &r); err != nil {
		return fmt.Errorf("ledger: %s: %w", l.dir, err)
	}
	return nil
}

// appendAndWait makes a record without a key durable.
func appendAndWait(log *wal.Log, r *journal.Record) error {
	t, err := log.Append(r.AppendTo(nil), 0)
	if err != nil {
		return err
	}
	return t.Wait()
}
