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
	batches [][]index.Change // being filled, one for each worker
	work    []chan []index.Change
	workers sync.WaitGroup
	handed  sync.WaitGroup // batches that are not applied yet
	begun   bool

	mu  sync.Mutex // guards err
	err error      // of the first record that was refused
}

// batch is how many changes go to a worker at once.
const batch = 512

func newReplayer(report *Report, book *index.Book) *replayer {
	n := min(runtime.GOMAXPROCS(0), 64)
	r := &replayer{report: report, book: book, batches: make([][]index.Change, n), work: make([]chan []index.Change, n)}
	for i := range r.work {
		work := make(chan []index.Change, 4)
		r.work[i] = work
		r.workers.Go(func() {
			for changes := range work {
				r.apply(changes)
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
	c := r.book.Change(rec.LSN, rec.Data)
	i := c.Lane(len(r.work))
	if r.batches[i] = append(r.batches[i], c); len(r.batches[i]) == batch {
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
	r.apply([]index.Change{r.book.Change(rec.LSN, rec.Data)})
	return r.failed()
}

// hand gives a worker its batch.
func (r *replayer) hand(i int) error {
	if err := r.failed(); err != nil {
		return err
	}
	r.handed.Add(1)
	r.work[i] <- r.batches[i]
	r.batches[i] = make([]index.Change, 0, batch)
	return nil
}

func (r *replayer) apply(changes []index.Change) {
	if r.failed() != nil {
		return
	}
	if err := r.book.ApplyAll(changes); err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.err == nil {
			r.err = fmt.Errorf("%w: %w", err, wal.ErrCorrupt)
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
