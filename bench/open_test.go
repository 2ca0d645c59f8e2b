package bench

import (
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"github.com/oncelog/oncelog/ledger"
)

const openKeys = 500_000

// BenchmarkOpen is opening a ledger of settled keys, from its log alone and from
// a snapshot.
func BenchmarkOpen(b *testing.B) {
	for _, from := range []string{"log", "snapshot"} {
		b.Run("from="+from, func(b *testing.B) {
			dir := b.TempDir()
			l, err := ledger.Create(dir, ledger.Options{SnapshotEvery: -1})
			if err != nil {
				b.Fatal(err)
			}
			settle(b, l, 0, openKeys)
			if from == "snapshot" {
				for range 2 { // the log is dropped behind the older of two
					if _, err := l.Compact(); err != nil {
						b.Fatal(err)
					}
				}
			}
			if err := l.Close(); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				l, err := ledger.Open(dir, ledger.Options{SnapshotEvery: -1})
				if err != nil {
					b.Fatal(err)
				}
				r := l.Report()
				b.ReportMetric(float64(r.Records)/r.Elapsed.Seconds(), "records/s")
				b.ReportMetric(float64(r.Entries)/r.Elapsed.Seconds(), "entries/s")
				if err := l.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkMemory is what a settled key costs beyond its own bytes and its
// result's, as growth of the live heap over the last nine tenths of the keys, and
// what a forced collection takes longer with all of them than with none.
func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		_, empty := heap()
		l := newLedger(b, ledger.Options{SnapshotEvery: -1})
		settle(b, l, 0, memoryKeys/10)
		before, _ := heap()
		settle(b, l, memoryKeys/10, memoryKeys)
		after, full := heap()
		grown := float64(memoryKeys - memoryKeys/10)
		own := grown * float64(len(key(0).AppendTo(nil))+len(payload))
		b.ReportMetric((float64(after-before)-own)/grown, "overhead-B/key")
		b.ReportMetric(float64((full-empty).Microseconds())/1000, "gc-growth-ms")
	}
}

// memoryKeys is how many keys there are; ONCELOG_BENCH_KEYS says otherwise.
var memoryKeys = benchKeys()

func benchKeys() int {
	if n, err := strconv.Atoi(os.Getenv("ONCELOG_BENCH_KEYS")); err == nil {
		return n
	}
	return 1_000_000
}

// heap is the live heap in bytes and what a forced collection of it takes.
func heap() (int64, time.Duration) {
	debug.FreeOSMemory()
	best := time.Hour
	for range 5 {
		start := time.Now()
		runtime.GC()
		best = min(best, time.Since(start))
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc), best
}
