package bench

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/ledger"
)

// callers runs op b.N times from n goroutines, each of which waits for its own
// before it calls again, and reports the rate and what the median and the 99th
// percentile of the callers waited.
func callers(b *testing.B, n int, op func(i int) error) {
	b.Helper()
	var next atomic.Int64
	waits := make([][]time.Duration, n)
	var group sync.WaitGroup
	var failed atomic.Value
	b.ReportAllocs()
	b.ResetTimer()
	start := time.Now()
	for c := range n {
		group.Go(func() {
			mine := make([]time.Duration, 0, b.N/n+1)
			for {
				i := int(next.Add(1)) - 1
				if i >= b.N {
					break
				}
				begun := time.Now()
				if err := op(i); err != nil {
					failed.Store(err)
					break
				}
				mine = append(mine, time.Since(begun))
			}
			waits[c] = mine
		})
	}
	group.Wait()
	b.StopTimer()
	if err := failed.Load(); err != nil {
		b.Fatal(err)
	}
	all := slices.Concat(waits...)
	slices.Sort(all)
	b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), "records/s")
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-µs")
}

var callerCounts = []int{1, 16, 256, 1024}

// key is a key of 36 bytes, like a UUID.
func key(i int) journal.Key {
	return journal.Key{Effect: "bench", Item: fmt.Sprintf("%036d", i)}
}

// payload is a result of 64 bytes.
var payload = []byte(fmt.Sprintf("%064d", 7))

func newLedger(b testing.TB, o ledger.Options) *ledger.Embedded {
	b.Helper()
	l, err := ledger.Create(b.TempDir(), o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := l.Close(); err != nil {
			b.Error(err)
		}
	})
	return l
}
