package bench

import (
	"fmt"
	"testing"

	"github.com/oncelog/oncelog/ledger"
)

// snapshotKeys is after how many settled keys a snapshot is taken: what SnapshotEvery
// does, but the same on every run.
const snapshotKeys = 10_000

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
