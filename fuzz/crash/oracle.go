package crash

import (
	"bytes"
	"fmt"
	"slices"
	"sync"

	"github.com/oncelog/oncelog/journal"
)

// A Truth is what the Oracle knows of a promise.
type Truth byte

// The three values of a promise.
const (
	Unset Truth = iota // never asked for
	Maybe              // asked for, and cut off before an answer: may be so or not
	Set                // promised
)

// promise is what is known of one key.
type promise struct {
	accepted  map[uint32]Truth // by attempt: the marker
	released  map[uint32]Truth // by attempt
	executed  map[uint32]Truth // by attempt: the outcome
	result    map[uint32][]byte
	confirmed Truth
	forgets   int  // asked for: each permits another effect
	letGo     bool // retention may have made it absent since it was last accepted
}

// An Oracle knows what a ledger has promised and compares it with what the
// ledger says after a crash. Call a method's Begin form before the ledger's call
// and its End form when that returned nil; a call that returned an error stays
// Maybe. Methods may be called concurrently.
type Oracle struct {
	mu     sync.Mutex
	keys   map[journal.Key]*promise
	checks int
}

func (o *Oracle) of(key journal.Key) *promise {
	if o.keys == nil {
		o.keys = map[journal.Key]*promise{}
	}
	p := o.keys[key]
	if p == nil {
		p = &promise{accepted: map[uint32]Truth{}, released: map[uint32]Truth{}, executed: map[uint32]Truth{}, result: map[uint32][]byte{}}
		o.keys[key] = p
	}
	return p
}

// raise never lowers what is known.
func raise(m map[uint32]Truth, attempt uint32, t Truth) { m[attempt] = max(m[attempt], t) }

// BeginAccept: an attempt may be granted, with this number.
func (o *Oracle) BeginAccept(key journal.Key, attempt uint32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	raise(o.of(key).accepted, attempt, Maybe)
}

// EndAccept: the attempt was granted.
func (o *Oracle) EndAccept(key journal.Key, attempt uint32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	raise(o.of(key).accepted, attempt, Set)
	o.of(key).letGo = false
}

// BeginExecute: the outcome of an attempt is being recorded.
func (o *Oracle) BeginExecute(key journal.Key, attempt uint32, result []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	raise(o.of(key).executed, attempt, Maybe)
	o.of(key).result[attempt] = slices.Clone(result)
}

// EndExecute: it was recorded.
func (o *Oracle) EndExecute(key journal.Key, attempt uint32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	raise(o.of(key).executed, attempt, Set)
}

// BeginRelease: an attempt is being released.
func (o *Oracle) BeginRelease(key journal.Key, attempt uint32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	raise(o.of(key).released, attempt, Maybe)
}

// EndRelease: it was released.
func (o *Oracle) EndRelease(key journal.Key, attempt uint32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	raise(o.of(key).released, attempt, Set)
}

// BeginConfirm: the key is being settled.
func (o *Oracle) BeginConfirm(key journal.Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.of(key).confirmed = max(o.of(key).confirmed, Maybe)
}

// EndConfirm: it was settled.
func (o *Oracle) EndConfirm(key journal.Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.of(key).confirmed = Set
}

// BeginForget: the key may be made fresh again. What was settled no longer needs
// to be.
func (o *Oracle) BeginForget(key journal.Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.of(key)
	p.forgets++
	p.confirmed = min(p.confirmed, Maybe)
	for attempt := range p.executed {
		p.executed[attempt] = Maybe
	}
}

// BeginLetGo: retention may let go of the key, which is settled. It may be absent
// from now on, and then begins again with its first attempt.
func (o *Oracle) BeginLetGo(key journal.Key) {
	o.BeginForget(key)
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.of(key)
	p.letGo = true
	for _, m := range []map[uint32]Truth{p.accepted, p.released} {
		for attempt := range m {
			m[attempt] = Maybe
		}
	}
}

// Checks is how many keys were compared, over all calls of Check.
func (o *Oracle) Checks() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.checks
}

// A Viewer is what the Oracle looks at: a ledger, or anything that answers for
// one.
type Viewer interface {
	Get(key journal.Key) (journal.Entry, error)
}

// Check compares what was promised of every key, and what happened in the world,
// with what the ledger says and what its journal lists. It returns what does not
// fit, nothing if all does.
func (o *Oracle) Check(w *World, v Viewer, unsettled []journal.Key) []error {
	o.mu.Lock()
	defer o.mu.Unlock()
	listed := map[journal.Key]bool{}
	var wrong []error
	for _, key := range unsettled {
		listed[key] = true
		if o.keys[key] == nil {
			wrong = append(wrong, fmt.Errorf("%v is in the journal and was never accepted", key))
		}
	}
	for key, p := range o.keys {
		o.checks++
		e, err := v.Get(key)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%v: %w", key, err))
			continue
		}
		for _, why := range p.compare(w, key, &e, listed[key]) {
			wrong = append(wrong, fmt.Errorf("%v (%v, attempt %d): %s", key, e.State, e.Attempt, why))
		}
	}
	return wrong
}

// compare lists what does not fit of one key.
func (p *promise) compare(w *World, key journal.Key, e *journal.Entry, listed bool) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	happened, releases := w.Count(key), p.possible(p.released)+p.forgets
	if happened > 1+releases {
		say("G1: the effect happened %d times with %d releases and forgettings", happened, releases)
	}
	if happened > 0 && !e.Known() && !p.letGo {
		say("G3: the effect happened and the key is absent")
	}
	if last := p.last(p.accepted, Set); e.Attempt < last {
		say("G2: attempt %d was granted and is not known", last)
	}
	if e.Attempt > p.last(p.accepted, Maybe) {
		say("attempt %d was never granted", e.Attempt)
	}
	if e.Known() && !e.State.Settled() && !listed {
		say("G2: not settled and not in the journal")
	}
	last := e.Attempt
	if p.executed[last] == Set && p.released[last] == Unset && (!e.State.Done() || !bytes.Equal(e.Result, p.result[last])) {
		say("its outcome %q was recorded and is not known (result %q)", p.result[last], e.Result)
	}
	if e.State.Done() && p.executed[last] == Unset {
		say("an outcome is known that was never recorded")
	}
	if e.State == journal.Released && p.released[last] == Unset {
		say("released and nobody released it")
	}
	if p.confirmed == Set && e.State != journal.Confirmed {
		say("it was settled and is not")
	}
	return wrong
}

func (p *promise) possible(m map[uint32]Truth) int {
	n := 0
	for _, t := range m {
		if t != Unset {
			n++
		}
	}
	return n
}

func (p *promise) last(m map[uint32]Truth, at Truth) uint32 {
	var last uint32
	for attempt, t := range m {
		if t >= at {
			last = max(last, attempt)
		}
	}
	return last
}
