package ledger

import "time"

// workInBackground takes a snapshot whenever one is due, takes note of the passing of
// time, and looks at the memory. A snapshot that fails is reported in Stat and tried
// again: the ledger works without it, its log only grows.
func (l *Embedded) workInBackground() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	marked := time.Now()
	since := l.sinceSnapshot(l.compaction.stat().LSN)
	for {
		select {
		case <-l.stop:
			return
		case <-tick.C:
		}
		if l.log.Err() != nil {
			continue
		}
		l.measure()
		if time.Since(marked) >= markEvery {
			marked = time.Now()
			_ = l.age(0, 0) // a log that fails is told to everybody else
		}
		if l.due(since) {
			since = l.sinceSnapshot(l.log.Durable())
			// The error is kept for Stat.
			_, _ = l.Snapshot()
		}
	}
}

// lastSnapshot is when a snapshot was last taken, or tried.
type lastSnapshot struct {
	at       time.Time
	appended int64 // bytes
	lsn      uint64
}

func (l *Embedded) sinceSnapshot(lsn uint64) lastSnapshot {
	return lastSnapshot{time.Now(), l.log.Stat().Appended, lsn}
}

// due reports whether it is time for a snapshot.
func (l *Embedded) due(since lastSnapshot) bool {
	o := &l.opts
	records := l.log.Durable() - since.lsn
	return o.SnapshotEvery > 0 && l.log.Stat().Appended-since.appended >= o.SnapshotEvery ||
		o.SnapshotRecords > 0 && records >= o.SnapshotRecords ||
		o.SnapshotInterval > 0 && records > 0 && time.Since(since.at) >= o.SnapshotInterval
}
