package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// A Log is an open log. Its methods may be called concurrently.
type Log struct {
	opts    Options
	layout  layout
	store   store
	mark    *watermark
	reserve *reserve
	durable atomic.Uint64 // LSN of the last acknowledged record
	halted  atomic.Bool   // err or closed is set

	kick       chan struct{} // to flushUnwaited
	stop       chan struct{} // closed by Close
	failed     chan struct{} // closed when the log fails
	background sync.WaitGroup

	mu         sync.Mutex // guards the fields below
	queue      []*batch   // records that no leader has taken yet, in LSN order
	next       uint64     // LSN of the next record
	first      uint64     // LSN of the first record when the log was opened
	committing bool       // a leader is at work
	crowded    bool       // the last block had followers
	err        error      // why the log has stopped; nil while it works
	closed     bool
	idle       sync.Cond // signalled when another leader may begin
	appended   int64     // bytes of blocks written since the log was opened
	spare      []byte    // buffers for the next batch
	spareTags  []any

	previous uint64     // checksum of the last block; the leader's
	applying sync.Mutex // held from when a block is durable until it is applied and its callers are told
}

// A batch is a block in the making.
type batch struct {
	frame []byte // framePrefix, header, payload
	tags  []any  // one for each record
	first uint64 // LSN
	count int

	// Guarded by the log's mu, but that err and done do not change any more once
	// wake is closed.
	taken   bool          // by a leader
	waiting int           // callers that wait on wake
	wake    chan struct{} // a value asks one of them to lead; closed when the batch is done; nil while nobody waits
	done    bool
	err     error
}

func (b *batch) last() uint64 { return b.first + uint64(b.count) - 1 }

// A Ticket stands for an appended record.
type Ticket struct {
	log   *Log
	batch *batch
	lsn   uint64
}

// LSN is the record's number.
func (t Ticket) LSN() uint64 { return t.lsn }

// Append queues a record, at most [MaxRecord] bytes, and gives it the next LSN.
// It does no I/O, but for making the reserve larger, and does not wait for other
// callers' syncs. The record is not durable before Wait of the ticket says so.
//
// reserve is the log space in bytes that the record promises to later ones, or,
// where it is not positive, gives back. Only a record that promises something is
// refused with [ErrFull]; the others may use what was promised.
func (l *Log) Append(record []byte, reserve int64) (Ticket, error) {
	return l.AppendTagged(record, reserve, nil)
}

// AppendTagged is Append with a tag that Options.Apply is given with the record.
func (l *Log) AppendTagged(record []byte, reserve int64, tag any) (Ticket, error) {
	if len(record) == 0 || len(record) > MaxRecord {
		return Ticket{}, fmt.Errorf("wal: a record of %d bytes, want 1 to %d: %w", len(record), MaxRecord, ErrTooLarge)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.stopped(); err != nil {
		return Ticket{}, err
	}
	if err := l.reserve.promise(reserve); err != nil {
		return Ticket{}, err
	}
	b := l.filling(len(record))
	b.frame = binary.AppendUvarint(b.frame, uint64(len(record)))
	b.frame = append(b.frame, record...)
	b.tags = append(b.tags, tag)
	b.count++
	t := Ticket{l, b, l.next}
	l.next++
	return t, nil
}

// stopped is why the log accepts nothing; nil while it does.
func (l *Log) stopped() error {
	switch {
	case l.err != nil:
		return l.err
	case l.closed:
		return fmt.Errorf("wal: %s: %w", l.opts.Dir, ErrClosed)
	}
	return nil
}

// filling is the batch that the next record goes into.
func (l *Log) filling(n int) *batch {
	if k := len(l.queue); k > 0 {
		if b := l.queue[k-1]; len(b.frame)+n <= framePrefix+headerSize+blockPayload {
			return b
		}
	}
	b := &batch{frame: l.spare, tags: l.spareTags, first: l.next}
	l.spare, l.spareTags = nil, nil
	if cap(b.frame) < framePrefix+headerSize {
		b.frame = make([]byte, 0, 512)
	}
	b.frame = b.frame[:framePrefix+headerSize]
	l.queue = append(l.queue, b)
	return b
}

// Wait returns nil once the record is durable and applied. Any error means that
// the log has stopped, and says nothing about whether the record will be found
// when it is opened again.
func (t Ticket) Wait() error {
	l, b := t.log, t.batch
	l.mu.Lock()
	for !b.done {
		if !b.taken && !l.committing {
			l.commit()
			continue
		}
		if b.wake == nil {
			b.wake = make(chan struct{}, 1)
		}
		b.waiting++
		l.mu.Unlock()
		if _, lead := <-b.wake; !lead {
			return b.err
		}
		l.mu.Lock()
		b.waiting--
	}
	l.mu.Unlock()
	return b.err
}

// flushDelay is how long a record that nobody waits for may stay in the queue for
// a block that somebody waits for.
const flushDelay = time.Millisecond

// Later makes sure that the record becomes durable within a few milliseconds and
// a sync, or less if others wait for theirs.
func (t Ticket) Later() {
	select {
	case t.log.kick <- struct{}{}:
	default:
	}
}

// flushUnwaited commits what nobody waits for.
func (l *Log) flushUnwaited() {
	for {
		select {
		case <-l.stop:
			return
		case <-l.kick:
		}
		time.Sleep(flushDelay)
		l.mu.Lock()
		for len(l.queue) > 0 && !l.committing {
			l.commit()
		}
		l.mu.Unlock()
	}
}

// commit makes the caller the leader: it takes the oldest batch, writes and syncs it,
// lets the next leader begin, and meanwhile applies the batch and wakes who waited.
// Called and returning with mu held, not committing, and something queued.
func (l *Log) commit() {
	l.committing = true
	if l.crowded {
		// Those that the last block woke are about to append again: let them,
		// so that they do not miss this block by microseconds.
		l.mu.Unlock()
		runtime.Gosched()
		l.mu.Lock()
	}
	b := l.queue[0]
	b.taken = true
	l.queue[0] = nil
	l.queue = l.queue[1:]
	if len(l.queue) == 0 {
		l.queue = nil
	}
	err := l.err
	l.mu.Unlock()
	if err == nil {
		err = l.writeBlock(b)
	}
	// Taken before the next leader may begin: blocks are applied in their order.
	l.applying.Lock()
	l.mu.Lock()
	l.committing = false
	l.crowded = b.waiting > 0
	if err != nil {
		l.fail(err)
	} else {
		l.appended += int64(len(b.frame))
	}
	// Where the log failed while the block before was applied, this one was not
	// to be.
	err = l.err
	l.nominate()
	l.idle.Broadcast()
	l.mu.Unlock()
	if err == nil {
		err = l.apply(b)
	}
	if err == nil {
		l.durable.Store(b.last())
	}
	l.mu.Lock()
	if err != nil {
		l.fail(err)
		err = l.err
	}
	wake := l.finish(b, err)
	l.applying.Unlock()
	if wake != nil {
		l.mu.Unlock() // waking many takes a while
		close(wake)
		l.mu.Lock()
	}
}

// writeBlock makes a batch durable.
func (l *Log) writeBlock(b *batch) error {
	if err := l.reserve.makeRoom(len(b.frame)); err != nil {
		return err
	}
	checksum := finishBlock(l.opts.ID, b.frame[framePrefix:], b.count, b.first, l.previous)
	if err := l.store.append(b.frame, b.first, b.last()); err != nil {
		return err
	}
	if err := l.store.sync(); err != nil {
		return err
	}
	// Commit point.
	l.previous = checksum
	if err := l.mark.set(mark{lsn: b.last()}); err != nil {
		return fmt.Errorf("wal: watermark: %w", err)
	}
	return nil
}

func (l *Log) apply(b *batch) error {
	if l.opts.Apply == nil {
		return nil
	}
	payload := b.frame[framePrefix+headerSize:]
	for lsn := b.first; lsn <= b.last(); lsn++ {
		record, rest, ok := nextRecord(payload)
		if !ok {
			return fmt.Errorf("wal: block at LSN %d does not hold %d records", b.first, b.count)
		}
		if err := l.opts.Apply(lsn, record, b.tags[lsn-b.first]); err != nil {
			return err
		}
		payload = rest
	}
	return nil
}

// fail stops the log for good; the first reason stays.
func (l *Log) fail(cause error) {
	if l.err == nil {
		l.err = fmt.Errorf("wal: %s has stopped, open the ledger again: %w: %w", l.opts.Dir, ErrFailed, cause)
		l.halted.Store(true)
		close(l.failed)
	}
}

// finish notes how a batch ended. Closing the channel tells those who wait; nil where
// nobody does.
func (l *Log) finish(b *batch, err error) (wake chan struct{}) {
	b.done, b.err = true, err
	if cap(b.frame) > cap(l.spare) && cap(b.frame) <= 1<<20 {
		l.spare = b.frame[:0]
	}
	clear(b.tags)
	if cap(b.tags) > cap(l.spareTags) && cap(b.tags) <= 1<<16 {
		l.spareTags = b.tags[:0]
	}
	b.frame, b.tags = nil, nil
	return b.wake
}

// nominate finds the next leader: one of the callers that wait.
func (l *Log) nominate() {
	for _, b := range l.queue {
		if b.waiting == 0 {
			continue
		}
		select {
		case b.wake <- struct{}{}:
		default: // asked already
		}
		return
	}
	if len(l.queue) > 0 {
		Ticket{log: l}.Later()
	}
}

// Truncate removes whole segments all of whose records are before an LSN. The
// one with the last record stays. Callers that append do not wait for it.
func (l *Log) Truncate(before uint64) error {
	l.mu.Lock()
	err := l.stopped()
	l.mu.Unlock()
	if err != nil {
		return err
	}
	return l.store.dropBefore(before)
}

// First is the LSN of the first record.
func (l *Log) First() uint64 {
	for _, seg := range l.store.list() {
		if seg.blocks > 0 {
			return seg.first
		}
	}
	return l.first
}

// Durable is the LSN of the last record that is durable and applied.
func (l *Log) Durable() uint64 { return l.durable.Load() }

// Err is nil while the log works, and otherwise why it does not.
func (l *Log) Err() error {
	if !l.halted.Load() {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stopped()
}

// Failed is closed when the log has failed: nothing will become durable any more.
func (l *Log) Failed() <-chan struct{} { return l.failed }

// Stat is what a log holds.
type Stat struct {
	Segments int
	Bytes    int64  // of blocks in the segments
	First    uint64 // LSN of the first record
	Durable  uint64 // LSN of the last durable record
	Appended int64  // bytes of blocks written since the log was opened
	Promised int64  // bytes of log space that outcomes are still to take
}

// Stat is what the log holds now.
func (l *Log) Stat() Stat {
	segments := l.store.list()
	s := Stat{Segments: len(segments), First: l.First(), Durable: l.Durable()}
	for _, seg := range segments {
		s.Bytes += int64(seg.end)
	}
	l.mu.Lock()
	s.Appended = l.appended
	l.mu.Unlock()
	s.Promised = l.reserve.outstanding()
	return s
}

// Close commits what is queued, marks the log as closed properly, durably so, and
// closes its files. After a failure it closes the files and returns why the log
// had stopped.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return fmt.Errorf("wal: %s: %w", l.opts.Dir, ErrClosed)
	}
	l.closed = true
	l.halted.Store(true)
	l.mu.Unlock()
	close(l.stop)
	l.background.Wait()
	err := l.drain()
	if err == nil {
		err = l.markClean()
	}
	return errors.Join(err, l.store.close(), l.mark.file.Close(), l.reserve.close())
}

// drain commits what is queued and waits for other leaders.
func (l *Log) drain() error {
	l.mu.Lock()
	for l.committing || len(l.queue) > 0 {
		if l.committing {
			l.idle.Wait()
		} else {
			l.commit()
		}
	}
	l.mu.Unlock()
	l.applying.Lock() // the last one may not be through
	defer l.applying.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// markClean says, durably, that everything is synced.
func (l *Log) markClean() error {
	if err := l.mark.set(mark{lsn: l.Durable(), clean: true}); err != nil {
		return fmt.Errorf("wal: watermark: %w", err)
	}
	if err := l.mark.file.Sync(); err != nil {
		return fmt.Errorf("wal: watermark: %w", err)
	}
	return nil
}
