package index

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/oncelog/oncelog/journal"
)

// A Book is the fold of the log: what every key's records add up to. Settled
// keys live in an [Index] in their encoded form, the others, few, in maps beside
// it. It shows only what is durable; what is decided but still on its way to the
// disk is staged, and visible to the next decision on the same key alone.
//
// Apply is called for the records of one key, and for those without a key, by one
// goroutine at a time, in LSN order. Everything else may be called concurrently.
type Book struct {
	settled *Index
	stripes [bookStripes]stripe

	unsettled atomic.Int64
	horizon   horizon

	mu        sync.Mutex          // guards the fields below
	conflicts map[string]struct{} // wire keys of settled entries with a conflict
	ledger    Ledgerwide
}

// Ledgerwide is what the records without a key add up to.
type Ledgerwide struct {
	Epoch   uint64 // of the last epoch record
	Open    int64  // ms that the ledger is known to have been open
	Marks   []Mark // how long it had been open at some LSNs, oldest first
	Keys    uint64 // settled keys without a record from this LSN on are gone
	Results uint64 // their results are gone
	Amnesia bool   // acknowledged records are known to be lost
	Since   uint64 // LSN of the record that said so: what was lost came before it
	Reason  string // of the amnesia: who said so and why
}

// A Mark says how long the ledger was known to have been open at a record.
type Mark struct {
	LSN  uint64
	Open int64 // ms
}

const (
	bookStripeBits = 8
	bookStripes    = 1 << bookStripeBits
)

// A stripe has a cache line of its own: readers of one do not slow another's.
type stripe struct {
	mu     sync.RWMutex
	live   map[hash]*live // the first of each hash; guarded by mu
	count  atomic.Int64   // of live; a reader that sees 0 looks only into the index
	spare  *live          // some that are used again, linked by next; guarded by mu
	spares int            // how many
	_      [64 - 56]byte
}

// maxSpare bounds the spare ones of a stripe: as many as are settled at once.
const maxSpare = 16

// live is a key that is not settled, or that has records on their way.
type live struct {
	hash    hash          // does not change: read without the lock
	wire    string        // the key; room holds it, if it is short enough
	next    *live         // another key with the same hash
	entry   journal.Entry // what is durable
	staged  journal.Entry // what will be once all that was appended is durable; valid while pending > 0
	pending int           // records appended and not yet applied
	reserve int64         // bytes of log space that are promised to the attempt's outcome
	changed chan struct{} // closed at the next change; nil while nobody waits
	room    [72]byte      // so that most keys need no allocation of their own
}

// NewBook returns an empty book. The seed is the hash seed of the ledger.
func NewBook(seed uint64) *Book {
	b := &Book{settled: New(seed), conflicts: map[string]struct{}{}}
	for i := range b.stripes {
		b.stripes[i].live = map[hash]*live{}
	}
	return b
}

func (b *Book) hash(wire []byte) hash { return b.settled.hash.sum(wire) }

func (b *Book) stripe(h hash) *stripe { return &b.stripes[h>>(64-bookStripeBits)] }

// keyBuffer holds the wire form of most keys without an allocation.
type keyBuffer [120]byte

// Get is the durable entry of a key; the zero entry where nothing is known. The
// entry's bytes alias memory that does not change and must not be modified.
func (b *Book) Get(key journal.Key) (e journal.Entry, err error) {
	buf := seeded(b.settled.hash.seed)
	bytes := key.AppendTo(buf[:seedSize])
	h, wire := b.settled.hash.of(bytes), bytes[seedSize:]
	if s := b.stripe(h); s.count.Load() > 0 && s.get(h, wire, &e) {
		return e, nil
	}
	if v, ok := b.settled.find(h, wire); ok {
		if err = e.Decode(v); err == nil {
			b.horizon.age(&e)
		}
	}
	return e, err
}

// find is the live entry of a key; nil for none. Called with mu held.
func (s *stripe) find(h hash, wire []byte) *live {
	l := s.live[h]
	for l != nil && l.wire != string(wire) {
		l = l.next
	}
	return l
}

// get is the durable entry of a key that is live.
func (s *stripe) get(h hash, wire []byte, e *journal.Entry) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	l := s.find(h, wire)
	if l == nil {
		return false
	}
	*e = l.entry
	e.History = slices.Clone(e.History)
	return true
}

// set puts a key into live, where it is not there. Called with mu held.
func (s *stripe) set(wire []byte, l *live) {
	if l.wire != "" {
		return
	}
	key := append(l.room[:0], wire...) // never written again
	l.wire = unsafe.String(unsafe.SliceData(key), len(key))
	l.next = s.live[l.hash]
	s.live[l.hash] = l
	s.count.Add(1)
}

// drop takes one out of live, if it is there, and keeps it for reuse. Called with mu
// held, and after the index has the key's entry: a reader that misses it here finds it
// there.
func (s *stripe) drop(l *live) {
	if l.wire != "" {
		s.remove(l)
		s.count.Add(-1)
	}
	// Nobody has its key any more, nor a pointer to it.
	if s.spares < maxSpare {
		*l = live{next: s.spare}
		s.spare = l
		s.spares++
	}
}

func (s *stripe) remove(l *live) {
	first := s.live[l.hash]
	switch {
	case first != l:
		for first.next != l {
			first = first.next
		}
		first.next = l.next
	case l.next != nil:
		s.live[l.hash] = l.next
	default:
		delete(s.live, l.hash)
	}
}

func (b *Book) fromIndex(h hash, wire []byte) (journal.Entry, error) {
	v, ok := b.settled.find(h, wire)
	if !ok {
		return journal.Entry{}, nil
	}
	e, err := journal.DecodeEntry(v)
	if err == nil {
		b.horizon.age(&e)
	}
	return e, err
}

// A Change is a record of the log on its way into a book.
type Change struct {
	lsn  uint64
	data []byte
	wire []byte // key; nil for a record without one
	hash hash   // of the key
}

// Change prepares one record of the log, encoded, with its LSN, for Apply. The
// change aliases data, which must not change before it is applied.
func (b *Book) Change(lsn uint64, data []byte) Change {
	c := Change{lsn: lsn, data: data}
	var ok bool
	if c.wire, ok = journal.KeyOf(data); ok {
		c.hash = b.hash(c.wire)
	}
	return c
}

// Lane deals changes out to n goroutines, at most 64, so that no two of them meet in
// a part of the book; those without a key all go to the first.
func (c *Change) Lane(n int) int {
	if c.wire == nil {
		return 0
	}
	return c.hash.shard() * n / shards
}

// fetchAhead is how many look-ups into memory are begun together: one alone is mostly
// waiting for it.
const fetchAhead = 16

// ApplyAll applies changes in their order; see Apply.
func (b *Book) ApplyAll(changes []Change) error {
	for len(changes) > 0 {
		part := changes[:min(len(changes), fetchAhead)]
		changes = changes[len(part):]
		for i := range part {
			b.settled.fetch(part[i].hash)
		}
		for i := range part {
			if err := b.apply(&part[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// Apply takes one record of the log, encoded, with its LSN. A record that the
// key's entry already contains, because a snapshot was taken after it, changes
// nothing. An error means that the log is not one that a ledger wrote.
func (b *Book) Apply(lsn uint64, data []byte) error {
	c := b.Change(lsn, data)
	return b.apply(&c)
}

func (b *Book) apply(c *Change) error {
	r, err := journal.DecodeRecord(c.data)
	if err != nil {
		return fmt.Errorf("index: record at LSN %d: %w", c.lsn, err)
	}
	switch {
	case !r.Kind.Known():
		return nil
	case !r.Kind.HasKey():
		b.applyLedgerwide(&r, c.lsn)
		return nil
	}
	if err := b.applyKey(&r, c); err != nil {
		return fmt.Errorf("index: record at LSN %d: %w", c.lsn, err)
	}
	return nil
}

func (b *Book) applyLedgerwide(r *journal.Record, lsn uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch r.Kind {
	case journal.KindEpoch:
		if r.Epoch > b.ledger.Epoch {
			b.ledger.Epoch, b.ledger.Open = r.Epoch, r.Open
		}
	case journal.KindAged:
		b.ledger.aged(r, lsn)
		b.horizon.raise(r.Keys, r.Results)
	case journal.KindAmnesia:
		b.ledger.Amnesia, b.ledger.Since = r.Landed, lsn
		b.ledger.Reason = string([]byte(r.Note))
	}
}

func (b *Book) applyKey(r *journal.Record, c *Change) error {
	s := b.stripe(c.hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	l, err := b.take(s, c.hash, c.wire)
	if err != nil {
		return err
	}
	if c.lsn > l.entry.LSN {
		was := l.entry.State
		if err := l.entry.Apply(r, c.lsn); err != nil {
			return err
		}
		b.count(was, l.entry.State)
	}
	b.put(s, c.wire, l)
	return nil
}

// changed notes that a record of a live key is no longer on its way. Called with the
// stripe locked.
func (b *Book) changed(s *stripe, l *live) {
	l.pending--
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
	b.put(s, unsafe.Slice(unsafe.StringData(l.wire), len(l.wire)), l)
}

// take finds a key's live entry, or makes one of what the index holds; put gives
// it back. Both want s locked.
func (b *Book) take(s *stripe, h hash, wire []byte) (*live, error) {
	if l := s.find(h, wire); l != nil {
		return l, nil
	}
	e, err := b.fromIndex(h, wire)
	if err != nil {
		return nil, err
	}
	l := s.spare
	if l == nil {
		return &live{hash: h, entry: e}, nil
	}
	s.spare = l.next
	s.spares--
	l.next, l.hash, l.entry = nil, h, e
	return l, nil
}

func (b *Book) put(s *stripe, wire []byte, l *live) {
	if l.pending > 0 || !l.entry.State.Settled() {
		s.set(wire, l)
		return
	}
	if l.entry.Known() {
		var buf [512]byte
		b.settled.put(l.hash, wire, l.entry.AppendTo(buf[:0]))
		b.noteConflict(wire, l.entry.Conflict)
	}
	s.drop(l)
}

func (b *Book) count(was, is journal.State) {
	if was.Settled() && !is.Settled() {
		b.unsettled.Add(1)
	} else if !was.Settled() && is.Settled() {
		b.unsettled.Add(-1)
	}
}

func (b *Book) noteConflict(wire []byte, conflict bool) {
	if !conflict {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.conflicts[string(wire)] = struct{}{}
}

// Expect makes room in an empty book for about n settled keys.
func (b *Book) Expect(n uint64) { b.settled.reserve(int(min(n, maxExpected))) }

// ExpectShare says how much of a replay, from 0 to 1, has led from a number of settled
// keys to those that there are now; 1 that it is over.
func (b *Book) ExpectShare(before int, share float64) {
	now := b.settled.Len()
	if share >= 1 || now <= before {
		b.settled.expect(0)
		return
	}
	b.settled.expect(before + min(int(float64(now-before)/share), maxExpected))
}

// Settled is how many settled keys are known.
func (b *Book) Settled() int { return b.settled.Len() }

// maxExpected bounds what a number in a file can make Expect allocate.
const maxExpected = 1 << 26

// Load takes one entry of a snapshot. Each key comes once.
func (b *Book) Load(wire, value []byte) error {
	if _, err := journal.DecodeKey(wire); err != nil {
		return fmt.Errorf("index: snapshot entry: %w", err)
	}
	var e journal.Entry
	if err := e.Decode(value); err != nil {
		return fmt.Errorf("index: snapshot entry of key %q: %w", wire, err)
	}
	h := b.hash(wire)
	if e.State.Settled() {
		b.settled.add(h, wire, value)
		b.noteConflict(wire, e.Conflict)
		return nil
	}
	s := b.stripe(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(wire, &live{hash: h, entry: e.Clone()})
	b.unsettled.Add(1)
	return nil
}

// Restore sets what the records without a key added up to when a snapshot was
// taken.
func (b *Book) Restore(w Ledgerwide) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ledger = w
	b.horizon.raise(w.Keys, w.Results)
}

// Ledgerwide is what the records without a key add up to now.
func (b *Book) Ledgerwide() Ledgerwide {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.ledger
	w.Marks = slices.Clone(w.Marks)
	return w
}

// Amnesia is Ledgerwide without the marks, for who asks at every accept: it
// allocates nothing.
func (b *Book) Amnesia() Ledgerwide {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.ledger
	w.Marks = nil
	return w
}

// Unsettled is how many keys are in the journal.
func (b *Book) Unsettled() int { return int(b.unsettled.Load()) }

// Len is how many keys are known, settled or not.
func (b *Book) Len() int {
	n := b.settled.Len()
	for i := range b.stripes {
		s := &b.stripes[i]
		s.each(func(l *live) {
			if _, also := b.settled.find(l.hash, []byte(l.wire)); !also && l.entry.Known() {
				n++
			}
		})
	}
	return n
}

// Stat is what the settled keys cost in memory.
func (b *Book) Stat() Stat { return b.settled.Stat() }
