package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/oncelog/oncelog/internal/load"
	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/ledger"
	"github.com/oncelog/oncelog/wal"
)

// snapshotKeys is after how many settled keys a snapshot is taken: what SnapshotEvery
// does, but the same on every run.
const snapshotKeys = 10_000

// BenchmarkWhileSnapshot is what callers wait for markers and outcomes while a base of
// many settled keys is written, again and again, beside what they wait without.
func BenchmarkWhileSnapshot(b *testing.B) {
	l := newLedger(b, ledger.Options{Store: wal.StoreDirect, SnapshotEvery: -1})
	settle(b, l, 0, memoryKeys)
	next := memoryKeys
	for b.Loop() {
		var quiet, busy load.Result
		taken := 0
		for range 3 { // in turn, so that what disturbs the machine disturbs both
			r := doFor(b, l, &next)
			quiet.Add(&r)
			stop, stopped := make(chan struct{}), make(chan error)
			go func() {
				for {
					select {
					case <-stop:
						stopped <- nil
						return
					default:
					}
					if _, err := l.Compact(); err != nil {
						stopped <- err
						return
					}
					taken++
				}
			}()
			r = doFor(b, l, &next)
			busy.Add(&r)
			close(stop)
			if err := <-stopped; err != nil {
				b.Fatal(err)
			}
		}
		for name, share := range map[string]float64{"p50": 0.5, "p99": 0.99, "p99.9": 0.999} {
			b.ReportMetric(float64(quiet.Waits.Quantile(share).Microseconds()), name+"-quiet-µs")
			b.ReportMetric(float64(busy.Waits.Quantile(share).Microseconds()), name+"-busy-µs")
		}
		b.ReportMetric(float64(taken), "snapshots")
	}
}

// doFor takes new keys through marker and outcome, from 16 callers, for a few seconds.
func doFor(b *testing.B, l *ledger.Embedded, next *int) load.Result {
	b.Helper()
	from := *next
	r, err := load.Run(16, 3*time.Second, func(i int) error {
		k := key(from + i)
		if _, err := l.Accept(context.Background(), k, ledger.Input{Fingerprint: 7}); err != nil {
			return err
		}
		_, err := l.Execute(k, 1, ledger.Outcome{Result: payload, Settles: true, Cause: journal.Run})
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	*next += r.Records + 16
	return r
}

// BenchmarkSnapshots is how many bytes of snapshots are written while keys settle, and
// how many times what one base of all of them takes. A base each time would write each
// key as many times as there are snapshots, over two.
func BenchmarkSnapshots(b *testing.B) {
	for keys := 100_000; keys <= memoryKeys; keys *= 10 {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			for b.Loop() {
				l := newLedger(b, ledger.Options{SnapshotEvery: -1})
				var s ledger.SnapshotStat
				for done := 0; done < keys; done += snapshotKeys {
					settle(b, l, done, done+snapshotKeys)
					var err error
					if s, err = l.Snapshot(); err != nil {
						b.Fatal(err)
					}
				}
				all, err := l.Compact()
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(s.Wrote)/float64(keys), "written-B/key")
				b.ReportMetric(float64(s.Wrote)/float64(all.Bytes), "times")
				b.ReportMetric(float64(s.Taken), "snapshots")
			}
		})
	}
}
