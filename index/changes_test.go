package index

import (
	"bytes"
	"fmt"
	"iter"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/oncelog/oncelog/journal"
)

// history draws the encoded records of a log: LSN 1 is the first.
func history(t *rapid.T) [][]byte {
	var log [][]byte
	b := NewBook(0)
	for lsn := uint64(1); lsn <= 80; lsn++ {
		key := journal.Key{Effect: "email", Item: fmt.Sprintf("lead-%d", rapid.IntRange(0, 3).Draw(t, "item"))}
		e, err := b.Get(key)
		if err != nil {
			t.Fatal(err)
		}
		r := journal.Record{Key: key, Attempt: e.Attempt}
		switch e.State {
		case journal.Accepted:
			r.Kind, r.Cause, r.Settles = journal.KindExecuted, journal.Run, rapid.Bool().Draw(t, "settles")
			r.Result = []byte("sent")
			if rapid.Bool().Draw(t, "released") {
				r.Kind, r.Cause = journal.KindReleased, journal.NotApplied
			}
		case journal.Executed:
			r.Kind = journal.KindConfirmed
		case journal.Confirmed:
			r.Kind, r.Landed = journal.KindObserved, true
		default:
			r.Kind, r.Epoch, r.Attempt = journal.KindAccepted, 1, e.Attempt+1
		}
		if rapid.IntRange(0, 9).Draw(t, "aged") == 0 {
			keys := lsn - rapid.Uint64Range(0, min(lsn, 20)).Draw(t, "keys kept")
			r = journal.Record{Kind: journal.KindAged, Results: rapid.Uint64Range(keys, lsn).Draw(t, "results before"), Keys: keys}
		}
		log = append(log, r.AppendTo(nil))
		if err := b.Apply(lsn, log[lsn-1]); err != nil {
			t.Fatal(err)
		}
	}
	return log
}

// unaged is the highest LSN from one up to which nothing is let go: nothing is while a
// snapshot is read.
func unaged(log [][]byte, from int) int {
	for from < len(log) && log[from][0] != byte(journal.KindAged) {
		from++
	}
	return from
}

func apply(t *rapid.T, b *Book, log [][]byte, from, to int) {
	for lsn := from + 1; lsn <= to; lsn++ {
		if err := b.Apply(uint64(lsn), log[lsn-1]); err != nil {
			t.Fatal(err)
		}
	}
}

// keysOf yields LSN and key of the records after from and up to to.
func keysOf(log [][]byte, from, to int) iter.Seq2[uint64, []byte] {
	return func(yield func(uint64, []byte) bool) {
		for lsn := from + 1; lsn <= to; lsn++ {
			if wire, ok := journal.KeyOf(log[lsn-1]); ok && !yield(uint64(lsn), wire) {
				return
			}
		}
	}
}

// contents is every key's entry, with its encoding.
func contents(t *rapid.T, b *Book) map[string]string {
	all := map[string]string{}
	for key, value := range b.All() {
		all[string(key)] = string(value)
	}
	unsettled := 0
	for _, k := range b.Journal() {
		if k.Entry.Known() && !k.Entry.State.Settled() {
			unsettled++
		}
	}
	if b.Unsettled() != unsettled {
		t.Fatalf("%d keys unsettled, the journal has %d", b.Unsettled(), unsettled)
	}
	return all
}

// TestChanges: a base, the changes after it, and the records after those make the
// state that all records make, although base and changes are read while the log
// goes on, and what was let go is swept.
func TestChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := history(t)
		// Each snapshot reaches an LSN, and is read when the log is somewhat further.
		base := rapid.IntRange(0, len(log)).Draw(t, "base")
		baseRead := rapid.IntRange(base, unaged(log, base)).Draw(t, "base read at")
		swept := rapid.IntRange(baseRead, len(log)).Draw(t, "swept at")
		delta := rapid.IntRange(swept, len(log)).Draw(t, "delta")
		deltaRead := rapid.IntRange(delta, unaged(log, delta)).Draw(t, "delta read at")

		source, loaded := NewBook(1), NewBook(2)
		apply(t, source, log, 0, baseRead)
		for key, value := range source.All() {
			if err := loaded.Load(key, value); err != nil {
				t.Fatal(err)
			}
		}
		apply(t, source, log, baseRead, swept)
		source.Sweep()
		apply(t, source, log, swept, delta)
		w := source.Ledgerwide()
		apply(t, source, log, delta, deltaRead)
		type change struct{ key, value []byte }
		var changes []change
		last := map[string]int{}
		for key, value := range source.Changes(uint64(delta), keysOf(log, base, delta)) {
			e, err := journal.DecodeEntry(value)
			if _, twice := last[string(key)]; err != nil || twice && e.Known() {
				t.Fatalf("%q comes again, as %+v, %v", key, e, err)
			}
			last[string(key)]++
			changes = append(changes, change{bytes.Clone(key), bytes.Clone(value)})
		}
		for _, key := range keysOf(log, base, delta) {
			if last[string(key)] == 0 {
				t.Fatalf("%q is missing", key)
			}
		}
		for _, c := range rapid.Permutation(changes).Draw(t, "order") {
			if err := loaded.Merge(c.key, c.value); err != nil {
				t.Fatal(err)
			}
		}
		loaded.Restore(w)
		apply(t, source, log, deltaRead, len(log))
		apply(t, loaded, log, delta, len(log))
		if got, want := contents(t, loaded), contents(t, source); !reflect.DeepEqual(got, want) {
			t.Fatalf("loaded:\n%q\nwant:\n%q", got, want)
		}
	})
}

// TestMerge: the newer entry stays, and one that knows nothing takes the key out.
func TestMerge(t *testing.T) {
	wire := journal.Key{Effect: "email", Item: "lead"}.AppendTo(nil)
	sent := func(lsn uint64) journal.Entry {
		return journal.Entry{State: journal.Confirmed, LSN: lsn, Attempt: 1, FirstOf: 1, Cause: journal.Run, Fingerprint: 7}
	}
	moving := journal.Entry{State: journal.Accepted, LSN: 10, Attempt: 1, FirstOf: 1, Epoch: 1, Fingerprint: 7}
	for name, c := range map[string]struct{ base, delta, want journal.Entry }{
		"newer":             {moving, sent(11), sent(11)},
		"older":             {sent(11), moving, sent(11)},
		"gone":              {moving, journal.Entry{LSN: 11}, journal.Entry{}},
		"gone when settled": {sent(10), journal.Entry{LSN: 11}, journal.Entry{}},
		"gone, then again":  {moving, journal.Entry{LSN: 9}, moving},
	} {
		b := NewBook(1)
		err := b.Load(wire, c.base.AppendTo(nil))
		if err == nil {
			err = b.Merge(wire, c.delta.AppendTo(nil))
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := b.Get(journal.Key{Effect: "email", Item: "lead"})
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, c.want)
		}
		unsettled := 0
		if c.want.State == journal.Accepted {
			unsettled = 1
		}
		if b.Unsettled() != unsettled || b.Len() == 0 && c.want.Known() || b.Len() > 0 && !c.want.Known() {
			t.Errorf("%s: %d keys, %d unsettled", name, b.Len(), b.Unsettled())
		}
	}
}
