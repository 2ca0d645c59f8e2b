package index

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/oncelog/oncelog/journal"
)

// TestBook stages and applies records of a few keys, several of them on their way at a
// time, and compares the book with entries that had the same records applied in
// order. With the mask all keys have one hash.
func TestBook(t *testing.T) {
	for _, mask := range []uint64{^uint64(0), 0} {
		t.Run(fmt.Sprintf("mask=%x", mask), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				b := NewBook(1)
				b.settled = newIndex(hasher{1, mask})
				type queued struct {
					key  journal.Key
					data []byte
					tag  any
					want journal.Entry
				}
				var log []queued // what is not applied yet is behind applied
				applied := 0
				durable, staged := map[journal.Key]journal.Entry{}, map[journal.Key]journal.Entry{}
				key := func(t *rapid.T) journal.Key {
					return journal.Key{Effect: "e", Item: fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "key"))}
				}
				t.Repeat(map[string]func(*rapid.T){
					"stage": func(t *rapid.T) {
						k := key(t)
						was := staged[k]
						kind := rapid.SampledFrom([]journal.Kind{journal.KindAccepted, journal.KindExecuted, journal.KindConfirmed,
							journal.KindReleased, journal.KindDoubt, journal.KindForgotten}).Draw(t, "kind")
						r := journal.Record{Kind: kind, Key: k, Attempt: was.Attempt, Time: int64(len(log)), Epoch: 1}
						switch kind {
						case journal.KindAccepted:
							r.Attempt++
							r.Epoch = 1
						case journal.KindExecuted:
							r.Cause, r.Result = journal.Run, fmt.Append(nil, len(log))
							r.Settles = rapid.Bool().Draw(t, "settles")
						case journal.KindReleased:
							r.Cause = journal.NotApplied
						case journal.KindDoubt:
							r.Cause = journal.Failed
						case journal.KindForgotten:
							r.Attempt = 0
						}
						next := was
						permitted := next.Apply(&r, uint64(len(log)+1))
						got, err := b.Stage(k, func(d *Draft) (*journal.Record, error) {
							if d.Staged.State != was.State || d.Durable.State != durable[k].State {
								t.Fatalf("%v: the draft shows %v and %v, want %v and %v", k, d.Durable.State, d.Staged.State, durable[k].State, was.State)
							}
							return &r, nil
						}, func(r *journal.Record, d *Draft) (uint64, error) {
							log = append(log, queued{k, r.AppendTo(nil), d.Tag(), next})
							return uint64(len(log)), nil
						})
						if permitted != nil {
							if !errors.Is(err, journal.ErrRefused) {
								t.Fatalf("%v: %v, want %v", k, err, permitted)
							}
							return
						}
						if err != nil {
							t.Fatal(err)
						}
						same(t, k, &got, &next)
						staged[k] = next
					},
					"apply": func(t *rapid.T) {
						if applied == len(log) {
							return
						}
						q := log[applied]
						applied++
						if err := b.Applied(uint64(applied), q.data, q.tag); err != nil {
							t.Fatal(err)
						}
						durable[q.key] = q.want
					},
					"": func(t *rapid.T) {
						unsettled := 0
						for i := range 6 {
							k := journal.Key{Effect: "e", Item: fmt.Sprint(i)}
							got, err := b.Get(k)
							if err != nil {
								t.Fatal(err)
							}
							want := durable[k]
							same(t, k, &got, &want)
							if want.Known() && !want.State.Settled() {
								unsettled++
							}
						}
						if got := len(b.Journal()); got != unsettled || b.Unsettled() != unsettled {
							t.Fatalf("%d keys in the journal, counted %d, want %d", got, b.Unsettled(), unsettled)
						}
					},
				})
			})
		})
	}
}

// same compares entries by what they are encoded as.
func same(t *rapid.T, k journal.Key, got, want *journal.Entry) {
	if g, w := string(got.AppendTo(nil)), string(want.AppendTo(nil)); g != w {
		t.Fatalf("%v is %+v, want %+v", k, got, want)
	}
}
