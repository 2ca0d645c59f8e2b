package ledger

import (
	"fmt"
	"time"

	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/wal"
)

// markEvery is how often the log is told how long the ledger has been open.
const markEvery = 10 * time.Minute

// openFor is how long the ledger has been open, over all its owners, as far as
// that is known.
func (l *Embedded) openFor() time.Duration {
	return time.Duration(l.openBefore)*time.Millisecond + time.Since(l.opened)
}

// letGo decides what retention lets go of, and records it.
func (l *Embedded) letGo() error {
	keep := l.opts.Keep
	w := l.book.Ledgerwide()
	before := func(d time.Duration) uint64 {
		if d <= 0 {
			return 0
		}
		return w.Before((l.openFor() - d).Milliseconds())
	}
	keys, results := before(keep.Keys), before(keep.Results)
	if keep.Count > 0 {
		keys = max(keys, l.book.Newest(keep.Count, l.log.Durable()))
	}
	if keys <= w.Keys && results <= w.Results && keep == (Retention{}) {
		return nil
	}
	return l.age(keys, results)
}

// age records how long the ledger has been open, and what is let go of.
func (l *Embedded) age(keys, results uint64) error {
	w := l.book.Ledgerwide()
	r := journal.Record{Kind: journal.KindAged, Time: now(), Open: l.openFor().Milliseconds(),
		Keys: max(keys, w.Keys), Results: max(results, w.Results)}
	var ticket wal.Ticket
	err := l.book.Age(r.Keys, r.Results, func() (err error) {
		ticket, err = l.log.Append(r.AppendTo(nil), 0)
		return err
	})
	if err == nil {
		err = ticket.Wait()
	}
	if err != nil {
		return fmt.Errorf("ledger: %s: %w", l.dir, err)
	}
	return nil
}

// measure compares what the settled keys take with the limit.
func (l *Embedded) measure() {
	if l.opts.MaxMemory <= 0 {
		return
	}
	s := l.book.Stat()
	l.memory.Store(int64(s.Allocated + s.Tables))
}

// room refuses a new key where the settled ones take too much memory.
func (l *Embedded) room() error {
	if used := l.memory.Load(); l.opts.MaxMemory > 0 && used >= l.opts.MaxMemory {
		return fmt.Errorf("ledger: %s: settled keys take %d bytes of memory, the limit is %d; raise it, or let go of old keys: %w",
			l.dir, used, l.opts.MaxMemory, ErrFull)
	}
	return nil
}
