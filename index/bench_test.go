package index

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

const (
	benchKey   = 36 // bytes, as a UUID written out
	benchValue = 64
)

// benchKeyOf writes the i-th key to dst: 36 bytes that differ early and late.
func benchKeyOf(dst []byte, i uint64) []byte {
	dst = fmt.Appendf(dst[:0], "order/%08x-%021d", uint32(i*0x9E3779B1), i)
	return dst[:benchKey]
}

// filled returns an index of n entries, put by one goroutine for each CPU, and how
// long that took.
func filled(n int) (*Index, time.Duration) {
	x := New(rand.Uint64())
	workers := runtime.GOMAXPROCS(0)
	keys := benchKeys(n)
	start := time.Now()
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			value := make([]byte, benchValue)
			for i := w; i < n; i += workers {
				binary.LittleEndian.PutUint64(value, uint64(i))
				x.Put(keys(i), value)
			}
		})
	}
	wg.Wait()
	return x, time.Since(start)
}

// benchKeys returns the first n keys out of one block of memory, so that making
// them is not measured.
func benchKeys(n int) func(i int) []byte {
	all := make([]byte, 0, n*benchKey)
	for i := range n {
		all = append(all, benchKeyOf(make([]byte, 0, 64), uint64(i))...)
	}
	return func(i int) []byte { return all[i*benchKey:][:benchKey:benchKey] }
}

// BenchmarkGet measures look-ups in random order from all CPUs at once: ns/op
// is wall time for each look-up on one CPU. The median is of single look-ups, less what
// reading the clock takes.
func BenchmarkGet(b *testing.B) {
	for _, n := range []int{10_000, 1_000_000, 10_000_000} {
		x, _ := filled(n)
		for _, kind := range []string{"hit", "miss"} {
			b.Run(fmt.Sprintf("%s/%d", kind, n), func(b *testing.B) {
				benchmarkGet(b, x, n, kind == "hit")
			})
		}
	}
}

func benchmarkGet(b *testing.B, x *Index, n int, hit bool) {
	const probes = 1 << 18 // of keys, made beforehand
	first := 0
	if !hit {
		first = n
	}
	keys := make([]byte, 0, probes*benchKey)
	for range probes {
		keys = append(keys, benchKeyOf(make([]byte, 0, 64), uint64(first+rand.IntN(n)))...)
	}
	b.ReportAllocs()
	b.ResetTimer()
	var mu sync.Mutex
	var medians []time.Duration
	b.RunParallel(func(pb *testing.PB) {
		i := rand.IntN(probes)
		for pb.Next() {
			i = (i + 1) & (probes - 1)
			if _, ok := x.Get(keys[i*benchKey:][:benchKey]); ok != hit {
				b.Error("wrong answer")
			}
		}
		m := medianGet(x, keys, rand.IntN(probes))
		mu.Lock()
		medians = append(medians, m)
		mu.Unlock()
	})
	b.ReportMetric(float64(slices.Max(medians).Nanoseconds()), "median-ns")
	b.ReportMetric(b.Elapsed().Seconds()*1e9*float64(runtime.GOMAXPROCS(0))/float64(b.N), "ns/get/cpu")
}

// medianGet times single look-ups and takes off the median of an empty timing.
func medianGet(x *Index, keys []byte, from int) time.Duration {
	const samples = 20_000
	taken, empty := make([]time.Duration, samples), make([]time.Duration, samples)
	for s := range samples {
		i := (from + s) * benchKey % len(keys)
		start := time.Now()
		x.Get(keys[i:][:benchKey])
		taken[s] = time.Since(start)
		start = time.Now()
		empty[s] = time.Since(start)
	}
	slices.Sort(taken)
	slices.Sort(empty)
	return taken[samples/2] - empty[samples/2]
}

// BenchmarkFill measures bulk loading from all CPUs, and what an entry costs beyond its
// key and value.
func BenchmarkFill(b *testing.B) {
	for _, n := range []int{100_000, 1_000_000, 10_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var took time.Duration
			var over float64
			for range b.N {
				before := heap()
				x, d := filled(n)
				took += d
				over = float64(heap()-before)/float64(n) - benchKey - benchValue
				runtime.KeepAlive(x)
			}
			b.ReportMetric(float64(n)*float64(b.N)/took.Seconds(), "puts/s")
			b.ReportMetric(over, "overhead-B/entry")
		})
	}
}

// heap is the bytes of live objects.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
