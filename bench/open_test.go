package bench

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"testing"
	"time"

	"github.com/oncelog/oncelog/ledger"
	"github.com/oncelog/oncelog/wal"
)

// BenchmarkOpen is opening a ledger of settled keys, from its log alone and from a
// snapshot, and the most memory that the process has meanwhile, beside what it has in
// the end, after a collection.
func BenchmarkOpen(b *testing.B) {
	for _, from := range []string{"log", "snapshot"} {
		for keys := 100_000; keys <= memoryKeys; keys *= 10 {
			b.Run(fmt.Sprintf("from=%s/keys=%d", from, keys), func(b *testing.B) { openMany(b, from, keys) })
		}
	}
}

func openMany(b *testing.B, from string, keys int) {
	dir := b.TempDir()
	l, err := ledger.Create(dir, ledger.Options{Store: wal.StoreDirect, SnapshotEvery: -1})
	if err != nil {
		b.Fatal(err)
	}
	settle(b, l, 0, keys)
	if from == "snapshot" {
		for i := range 2 { // the log goes behind the older of two chains
			if _, err := l.Compact(); err != nil {
				b.Fatal(err)
			}
			settle(b, l, keys+i, keys+i+1)
		}
	}
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	var rate, ratio float64
	rounds := 0
	l = nil // its memory is not to be counted
	for b.Loop() {
		debug.FreeOSMemory()
		done, most := make(chan struct{}), make(chan uint64)
		go func() { most <- peak(done) }()
		l, err := ledger.Open(dir, ledger.Options{SnapshotEvery: -1})
		close(done)
		high := <-most
		if err != nil {
			b.Fatal(err)
		}
		debug.FreeOSMemory()
		ratio += float64(high) / float64(inUse())
		rounds++
		r := l.Report()
		rate += float64(r.Records+r.Entries) / r.Elapsed.Seconds()
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(rate/float64(rounds), "read/s")
	b.ReportMetric(ratio/float64(rounds), "peak÷after")
}

// inUse is the memory that the process has from the system.
func inUse() uint64 {
	use := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(use)
	return use[0].Value.Uint64() - use[1].Value.Uint64()
}

// peak is the most memory that the process has until done is closed.
func peak(done <-chan struct{}) uint64 {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for most := uint64(0); ; most = max(most, inUse()) {
		select {
		case <-done:
			return max(most, inUse())
		case <-tick.C:
		}
	}
}

// BenchmarkMemory is what a settled key costs beyond its own bytes and its
// result's, as growth of the live heap and of the resident memory over the last nine
// tenths of the keys, and what a forced collection takes longer with all of them than
// with none.
func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		_, empty := heap()
		l := newLedger(b, ledger.Options{SnapshotEvery: -1})
		settle(b, l, 0, memoryKeys/10)
		before, _ := heap()
		small := resident(b)
		settle(b, l, memoryKeys/10, memoryKeys)
		after, full := heap()
		large := resident(b)
		grown := float64(memoryKeys - memoryKeys/10)
		own := grown * float64(len(key(0).AppendTo(nil))+len(payload))
		b.ReportMetric((float64(after-before)-own)/grown, "overhead-B/key")
		b.ReportMetric((float64(large-small)-own)/grown, "resident-B/key")
		b.ReportMetric(float64((full-empty).Microseconds())/1000, "gc-growth-ms")
	}
}

// resident is the memory of the process that is in RAM, after what is free has gone back.
func resident(b *testing.B) int64 {
	b.Helper()
	debug.FreeOSMemory()
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return int64(inUse()) // no Linux: what it has from the system
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(statm), &size, &pages); err != nil {
		b.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
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
