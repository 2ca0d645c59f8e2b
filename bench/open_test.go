package bench

import (
	"runtime"
	"runtime/debug"
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
			settle(b, l, openKeys)
			if from == "snapshot" {
				if _, err := l.Compact(); err != nil {
					b.Fatal(err)
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
// result's, as growth of the heap, and what a forced collection takes with them.
func BenchmarkMemory(b *testing.B) {
	l := newLedger(b, ledger.Options{SnapshotEvery: -1})
	for b.Loop() {
		before, empty := heap()
		settle(b, l, openKeys)
		after, full := heap()
		own := int64(openKeys) * int64(len(key(0).AppendTo(nil))+len(payload))
		b.ReportMetric(float64(after-before-own)/openKeys, "overhead-B/key")
		b.ReportMetric(float64((full-empty).Microseconds())/1000, "gc-growth-ms")
	}
}

// heap is the live heap in bytes and what a forced collection of it takes.
func heap() (int64, time.Duration) {
	debug.FreeOSMemory()
	start := time.Now()
	runtime.GC()
	took := time.Since(start)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc), took
}
