package bench

import (
	"context"
	"fmt"
	"iter"
	"testing"

	"github.com/oncelog/oncelog/executor"
	"github.com/oncelog/oncelog/ledger"
	"github.com/oncelog/oncelog/wal"
)

// newEffect is an effect that costs nothing, on a ledger of its own, so that what is
// measured is what an executor adds to it.
func newEffect(b *testing.B, confirm bool) *executor.Handle[string, string] {
	b.Helper()
	x := executor.New(newLedger(b, ledger.Options{Store: wal.StoreDirect}), executor.Options{Confirmers: 256})
	b.Cleanup(func() {
		if err := x.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	e := executor.Effect[string, string]{Name: "bench", Run: func(context.Context, executor.Call, string) (string, error) { return string(payload), nil }}
	if confirm {
		e.Confirm = func(context.Context, executor.Call, executor.Outcome[string]) error { return nil }
	}
	h, err := executor.Register(x, e)
	if err != nil {
		b.Fatal(err)
	}
	return h
}

// BenchmarkExecutor is a whole Do: marker, run, outcome, and, with confirm, the word to
// the backend and its record, which the caller does not wait for.
func BenchmarkExecutor(b *testing.B) {
	for _, confirm := range []bool{false, true} {
		for _, n := range callerCounts {
			b.Run(fmt.Sprintf("confirm=%v/callers=%d", confirm, n), func(b *testing.B) {
				h := newEffect(b, confirm)
				callers(b, n, func(i int) error {
					_, err := h.Do(context.Background(), key(i).Item, "input")
					return err
				})
			})
		}
	}
}

// pending is a queue of n items.
type pending int

// Items yields all of them.
func (p pending) Items(context.Context) iter.Seq2[executor.Item, error] {
	return func(yield func(executor.Item, error) bool) {
		for i := range int(p) {
			if !yield(executor.Item{ID: key(i).Item, Input: []byte(`"input"`)}, nil) {
				return
			}
		}
	}
}

// BenchmarkWatch is one poll of a queue whose items are all new, and one of the same
// queue, all done.
func BenchmarkWatch(b *testing.B) {
	b.Run("new", func(b *testing.B) { watch(b, newEffect(b, false), b.N, 0) })
	b.Run("done", func(b *testing.B) {
		const items = 10_000
		h := newEffect(b, false)
		watch(b, h, items, 0)
		b.ResetTimer()
		for left := b.N; left > 0; left -= items {
			watch(b, h, min(left, items), min(left, items))
		}
	})
}

// watch polls once and checks how many items were done before.
func watch(b *testing.B, h *executor.Handle[string, string], items, replayed int) {
	b.Helper()
	r, err := h.Watch(context.Background(), pending(items), executor.WatchOptions[string]{Once: true, Concurrency: 64})
	if err != nil || r.Executed+r.Replayed != items || r.Replayed != replayed {
		b.Fatalf("%+v, %v", r, err)
	}
}
