package fuzz

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/oncelog/oncelog/fuzz/crash"
	"github.com/oncelog/oncelog/internal/simdisk"
	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/ledger"
	"github.com/oncelog/oncelog/wal"
)

// rig is a ledger on a simulated disk, what it promised, and the world.
type rig struct {
	disk   *simdisk.Disk
	store  wal.StoreKind
	keep   ledger.Retention
	oracle crash.Oracle
	world  crash.World
	dir    string
	l      *ledger.Embedded
	counts map[string]int
}

var rigs atomic.Int64 // numbers their directories

func newRig(rng *rand.Rand, store wal.StoreKind, o ...simdisk.Option) *rig {
	r := &rig{disk: simdisk.New(rng, o...), store: store, counts: map[string]int{}, dir: fmt.Sprintf("/rig-%d", rigs.Add(1))}
	mount(r.dir, r.disk)
	return r
}

// mount makes a disk known to the dependency's own code, where the tests are
// compiled over it; see tidwall_test.go.
var mount = func(dir string, d *simdisk.Disk) {}

// rigStores are the segment stores that a simulated disk can carry.
var rigStores = []wal.StoreKind{wal.StoreDirect}

func (r *rig) options() ledger.Options {
	return ledger.Options{Create: true, Store: r.store, FS: r.disk.FS(), SegmentSize: 2 << 10, SnapshotEvery: -1, Keep: r.keep}
}

// open opens the ledger; nil where the disk's events kept it from opening.
func (r *rig) open() error {
	l, err := ledger.Open(r.dir, r.options())
	if err != nil {
		return err
	}
	r.l = l
	if l.Report().Log.TornBytes > 0 {
		r.counts["torn tails"]++
	}
	return nil
}

// end ends the process; what its Close says does not matter any more.
func (r *rig) end() {
	if r.l != nil {
		_ = r.l.Close()
		r.l = nil
	}
}

// restart opens the ledger after a death of the process or a power cut, and
// compares it with what was promised. Nothing may keep it from opening.
func (r *rig) restart(power bool) error {
	if power {
		r.counts["power cuts"]++
		r.disk.Crash()
	} else {
		r.counts["kills"]++
		r.disk.Kill()
	}
	r.end()
	if err := r.open(); err != nil {
		return fmt.Errorf("after a restart (power cut: %v): %w", power, err)
	}
	return r.check()
}

// check compares the ledger with what was promised.
func (r *rig) check() error {
	var unsettled []journal.Key
	for key := range r.l.Unsettled() {
		unsettled = append(unsettled, key)
	}
	if wrong := r.oracle.Check(&r.world, r.l, unsettled); len(wrong) > 0 {
		return errors.Join(wrong...)
	}
	if double := r.world.Doubles(); len(double) > 0 && r.counts["releases"]+r.counts["forgettings"] == 0 {
		return fmt.Errorf("effects happened twice: %v", double)
	}
	return nil
}

// accept asks for an attempt and, if it is granted, makes the effect happen, or
// not, as landed says.
func (r *rig) accept(key journal.Key, landed bool) error {
	e, err := r.l.Get(key)
	if err != nil {
		return err
	}
	r.oracle.BeginAccept(key, e.Attempt+1)
	d, err := r.l.Accept(context.Background(), key, ledger.Input{Fingerprint: 7, Data: []byte("input")})
	if err != nil || !d.Granted {
		return err
	}
	r.counts["accepts"]++
	r.oracle.EndAccept(key, d.Entry.Attempt)
	if landed {
		r.world.Happen(key, d.Entry.Attempt)
		r.counts["effects"]++
	}
	return nil
}

// execute records an outcome of the last attempt.
func (r *rig) execute(key journal.Key, cause journal.Cause, settles bool) error {
	e, err := r.l.Get(key)
	if err != nil {
		return err
	}
	result := []byte(fmt.Sprintf("result of %v, attempt %d, %v", key, e.Attempt, cause))
	r.oracle.BeginExecute(key, e.Attempt, result)
	if settles {
		r.oracle.BeginConfirm(key)
	}
	if _, err := r.l.Execute(key, e.Attempt, ledger.Outcome{Result: result, Settles: settles, Cause: cause}); err != nil {
		return err
	}
	r.counts["outcomes"]++
	r.oracle.EndExecute(key, e.Attempt)
	if settles {
		r.oracle.EndConfirm(key)
	}
	return nil
}

// compact takes a base snapshot, which may let go of settled keys.
func (r *rig) compact() error {
	r.counts["compactions"]++
	return r.snapshot(r.l.Compact)
}

// delta takes a snapshot of what has changed, or a base where one is due.
func (r *rig) delta() error {
	return r.snapshot(func() (ledger.SnapshotStat, error) {
		s, err := r.l.Snapshot()
		r.counts["deltas"] += min(s.Deltas, 1)
		return s, err
	})
}

func (r *rig) snapshot(take func() (ledger.SnapshotStat, error)) error {
	if r.keep != (ledger.Retention{}) {
		for i := range rigKeys {
			if e, err := r.l.Get(keyOf(i)); err == nil && e.Known() && e.State.Settled() {
				r.oracle.BeginLetGo(keyOf(i))
				r.counts["forgettings"]++
			}
		}
	}
	before, err := r.known()
	if err != nil {
		return err
	}
	if _, err := take(); err != nil {
		return err
	}
	after, err := r.known()
	r.counts["let go"] += before - after
	return err
}

// rigKeys is how many keys a rig works on.
const rigKeys = 8

// known is how many of them the ledger knows.
func (r *rig) known() (n int, err error) {
	for i := range rigKeys {
		e, err := r.l.Get(keyOf(i))
		if err != nil {
			return 0, err
		}
		if e.Known() {
			n++
		}
	}
	return n, nil
}

func (r *rig) confirm(key journal.Key, attempt uint32) error {
	r.oracle.BeginConfirm(key)
	if err := r.l.Confirm(key, attempt, true); err != nil {
		return err
	}
	r.counts["confirms"]++
	r.oracle.EndConfirm(key)
	return nil
}

func (r *rig) release(key journal.Key, attempt uint32, cause journal.Cause) error {
	r.oracle.BeginRelease(key, attempt)
	if _, err := r.l.Release(key, attempt, cause, "evidence"); err != nil {
		return err
	}
	r.counts["releases"]++
	r.oracle.EndRelease(key, attempt)
	return nil
}

// advance takes a key one step along, as a truthful owner, check or operator
// would. choice says which way where there are several.
func (r *rig) advance(key journal.Key, choice int) error {
	e, err := r.l.Get(key)
	if err != nil {
		return err
	}
	landed := r.world.Landed(key, e.Attempt)
	switch r.l.State(&e) {
	case journal.Absent, journal.Released:
		return r.accept(key, choice%4 != 0)
	case journal.Accepted:
		switch {
		case choice%5 == 0:
			_, err := r.l.Doubt(key, e.Attempt, journal.Failed, "an error")
			return err
		case landed:
			return r.execute(key, journal.Run, choice%2 == 0)
		}
		return r.release(key, e.Attempt, journal.NotApplied)
	case journal.InDoubt:
		switch {
		case choice%3 == 0:
			_, err := r.l.Doubt(key, e.Attempt, journal.Unknown, "no answer")
			return err
		case landed:
			return r.execute(key, journal.Landed, choice%2 == 0)
		}
		return r.release(key, e.Attempt, journal.NotLanded)
	case journal.Executed:
		return r.confirm(key, e.Attempt)
	}
	if choice%8 == 0 {
		r.oracle.BeginForget(key)
		_, err := r.l.Forget(key, "again, please")
		r.counts["forgettings"]++
		return err
	}
	return r.accept(key, true) // a duplicate: it must not be granted
}

func keyOf(i int) journal.Key { return journal.Key{Effect: "e", Item: fmt.Sprintf("item-%d", i)} }

// did fails a test whose rig did not do what it is there for.
func did(t *testing.T, counts map[string]int, names ...string) {
	t.Helper()
	t.Logf("did %v", counts)
	tally.add(counts)
	needs(t, counts, names...)
}

// needs fails a test that did not do something.
func needs(t *testing.T, counts map[string]int, names ...string) {
	t.Helper()
	for _, name := range names {
		if counts[name] == 0 {
			t.Errorf("no %s: the test did not do what it is there for", name)
		}
	}
}
