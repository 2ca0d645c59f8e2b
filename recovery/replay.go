package recovery

import (
	"fmt"
	"runtime"
	"sync"

	"github.com/oncelog/oncelog/index"
	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/wal"
)

// replayer applies the log's records to a book, on all cores. The records of one
// key are applied in LSN order, by one goroutine; those of different keys do not
// depend on each other.
type replayer struct {
	report  *Report
	book    *index.Book
	batches [][]wal.Record // being filled, one for each worker
	work    []chan []wal.Record
	workers sync.WaitGroup
	handed  sync.WaitGroup // batches that are not applied yet
	begun   bool

	mu  sync.Mutex // guards err
	err error      // of the first record that was refused
}

// batch is how many records go to a worker at once.
const batch = 512

func newReplayer(report *Report, book *index.Book) *replayer {
	n := min(runtime.GOMAXPROCS(0), 64)
	r := &replayer{report: report, book: book, batches: make([][]wal.Record, n), work: make([]chan []wal.Record, n)}
	for i := range r.work {
		work := make(chan []wal.Record, 4)
		r.work[i] = work
		r.workers.Go(func() {
			for records := range work {
				r.apply(records)
				r.handed.Done()
			}
		})
	}
	return r
}

// visit takes the next record of the log.
func (r *replayer) visit(rec wal.Record) error {
	if !r.begun {
		r.begun = true
		if err := r.report.begins(rec.LSN); err != nil {
			return err
		}
	}
	if rec.LSN <= r.report.SnapshotLSN {
		return nil
	}
	r.report.Records++
	if len(rec.Data) > 0 && journal.Kind(rec.Data[0]) == journal.KindAged {
		return r.alone(rec)
	}
	i := 0 // records without a key, all in one place, so in order
	if key, ok := journal.KeyOf(rec.Data); ok {
		i = r.book.Lane(key, len(r.work))
	}
	if r.batches[i] = append(r.batches[i], rec); len(r.batches[i]) == batch {
		return r.hand(i)
	}
	return nil
}

// alone applies a record that is about many keys, after all that came before it.
func (r *replayer) alone(rec wal.Record) error {
	for i := range r.batches {
		if err := r.hand(i); err != nil {
			return err
		}
	}
	r.handed.Wait()
	r.apply([]wal.Record{rec})
	return r.failed()
}

// hand gives a worker its batch.
func (r *replayer) hand(i int) error {
	if err := r.failed(); err != nil {
		return err
	}
	r.handed.Add(1)
	r.work[i] <- r.batches[i]
	r.batches[i] = make([]wal.Record, 0, batch)
	return nil
}

func (r *replayer) apply(records []wal.Record) {
	if r.failed() != nil {
		return
	}
	for _, rec := range records {
		if err := r.book.Apply(rec.LSN, rec.Data); err != nil {
			r.mu.Lock()
			if r.err == nil {
				r.err = fmt.Errorf("%w: %w", err, wal.ErrCorrupt)
			}
			r.mu.Unlock()
			return
		}
	}
}

func (r *replayer) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// finish waits until everything is applied.
func (r *replayer) finish() error {
	for i := range r.batches {
		r.handed.Add(1)
		r.work[i] <- r.batches[i]
		close(r.work[i])
	}
	r.workers.Wait()
	return r.err
}
