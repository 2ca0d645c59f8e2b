package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"
	"unsafe"

	tidwall "github.com/tidwall/wal"

	"github.com/oncelog/oncelog/internal/durable"
	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/ledger"
	"github.com/oncelog/oncelog/wal"
)

// marker is what a marker of key(i) is encoded as: the bytes that the baselines
// write.
func marker(i int) []byte {
	r := journal.Record{Kind: journal.KindAccepted, Key: key(i), Attempt: 1, Epoch: 2, Time: 1_700_000_000_000, Fingerprint: 7}
	return r.AppendTo(nil)
}

// BenchmarkAccept is durable markers a second, beside tidwall/wal's own synced
// Write and beside overwriting one file in place with fdatasync, one at a time:
// what the disk does.
func BenchmarkAccept(b *testing.B) {
	for _, n := range callerCounts {
		b.Run(fmt.Sprintf("callers=%d/v=oncelog", n), func(b *testing.B) {
			l := newLedger(b, ledger.Options{Store: "direct", SnapshotEvery: -1})
			keys := manyKeys(b.N)
			callers(b, n, func(i int) error {
				d, err := l.Accept(context.Background(), keys[i], ledger.Input{Fingerprint: 7})
				if err == nil && !d.Granted {
					return fmt.Errorf("key %d is not fresh: %v", i, d.State)
				}
				return err
			})
		})
		b.Run(fmt.Sprintf("callers=%d/v=tidwall", n), func(b *testing.B) {
			log, err := tidwall.Open(b.TempDir(), &tidwall.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer log.Close()
			var mu sync.Mutex
			index := uint64(0)
			callers(b, n, func(i int) error {
				mu.Lock()
				defer mu.Unlock()
				index++
				return log.Write(index, marker(i))
			})
		})
	}
	b.Run("callers=1/v=overwrite", func(b *testing.B) {
		f := overwritten(b)
		callers(b, 1, func(i int) error {
			if _, err := f.WriteAt(marker(i), int64(i)*128%overwriteSize); err != nil {
				return err
			}
			return f.Datasync()
		})
	})
}

// BenchmarkDo is a marker and its outcome, which settles the key: two durable records,
// each waited for. The journal stays as small as the callers are many.
func BenchmarkDo(b *testing.B) {
	for _, store := range []wal.StoreKind{wal.StoreDirect, wal.StoreTidwall} {
		for _, n := range callerCounts {
			b.Run(fmt.Sprintf("store=%s/callers=%d", store, n), func(b *testing.B) {
				l := newLedger(b, ledger.Options{Store: store})
				callers(b, n, func(i int) error {
					k := key(i)
					if _, err := l.Accept(context.Background(), k, ledger.Input{Fingerprint: 7}); err != nil {
						return err
					}
					_, err := l.Execute(k, 1, ledger.Outcome{Result: payload, Settles: true, Cause: journal.Run})
					return err
				})
			})
		}
	}
}

const overwriteSize = 8 << 20

// overwritten is a file whose blocks are all written, so that overwriting it
// changes no metadata.
func overwritten(b *testing.B) durable.File {
	b.Helper()
	path := filepath.Join(b.TempDir(), "overwrite")
	if err := os.WriteFile(path, make([]byte, overwriteSize+4096), 0o600); err != nil {
		b.Fatal(err)
	}
	f, err := durable.OS.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	return f
}

// BenchmarkDuplicate is the look-up of a settled key, by every core at once, among
// a thousand keys, which the processor's caches hold, and among more, which they
// do not. The key's own bytes are in the cache, as they are when a request has just
// been read. ns/op is the time between two answers, ns/call that of one call.
func BenchmarkDuplicate(b *testing.B) {
	for _, n := range []int{1_000, 100_000, 1_000_000} {
		l := newLedger(b, ledger.Options{SnapshotEvery: -1})
		settle(b, l, 0, n)
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) { lookUp(b, l, n) })
	}
}

func lookUp(b *testing.B, l *ledger.Embedded, n int) {
	b.ReportAllocs()
	b.ResetTimer()
	start := time.Now()
	b.RunParallel(func(pb *testing.PB) {
		item := []byte(key(0).Item)
		k := journal.Key{Effect: key(0).Effect, Item: unsafe.String(&item[0], len(item))}
		for i := 0; pb.Next(); {
			i = (i + 7919) % n
			digits(item, i)
			e, err := l.Get(k)
			if err != nil || e.State != journal.Confirmed {
				b.Errorf("key %d: %v, %v", i, e.State, err)
				return
			}
		}
	})
	b.ReportMetric(float64(time.Since(start).Nanoseconds())*float64(runtime.GOMAXPROCS(0))/float64(b.N), "ns/call")
}

// manyKeys is the first n keys, so that making them is not measured.
func manyKeys(n int) []journal.Key {
	all := make([]journal.Key, n)
	for i := range all {
		all[i] = key(i)
	}
	return all
}

// digits writes a number over the end of an item, as key does.
func digits(item []byte, i int) {
	for at := len(item) - 1; at >= len(item)-8; at-- {
		item[at] = byte('0' + i%10)
		i /= 10
	}
}

// settle takes the keys [from, to) through accept and outcome, from 256 callers.
func settle(b testing.TB, l *ledger.Embedded, from, to int) {
	b.Helper()
	var group sync.WaitGroup
	for c := range 256 {
		group.Go(func() {
			for i := from + c; i < to; i += 256 {
				if _, err := l.Accept(context.Background(), key(i), ledger.Input{Fingerprint: 7}); err != nil {
					b.Error(err)
					return
				}
				if _, err := l.Execute(key(i), 1, ledger.Outcome{Result: payload, Settles: true, Cause: journal.Run}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}
