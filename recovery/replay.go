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
	work    []chan handed
	free    chan []index.Change // batches to be filled again
	workers sync.WaitGroup
	begun   bool

	// Of every other segment each: its batches that are not applied yet. A segment's
	// records are in memory that the one after the next is read into.
	open    [2]sync.WaitGroup
	segment int // number of the one that is being visited

	mu  sync.Mutex // guards err
	err error      // of the first record that was refused
}

// handed is a batch on its way to a worker.
type handed struct {
	changes []index.Change
	open    *sync.WaitGroup
}

// batch is how many changes go to a worker at once.
const batch = 512

func newReplayer(report *Report, book *index.Book) *replayer {
	n := min(runtime.GOMAXPROCS(0), 64)
	r := &replayer{report: report, book: book, batches: make([][]index.Change, n), work: make([]chan handed, n),
		free: make(chan []index.Change, 8*n)}
	for i := range r.work {
		work := make(chan handed, 4)
		r.work[i] = work
		r.workers.Go(func() {
			for h := range work {
				r.apply(h.changes)
				select {
				case r.free <- h.changes[:0]:
				default:
				}
				h.open.Done()
			}
		})
	}
	return r
}

// over makes a log be read from the snapshot on, into memory that is used again.
func (r *replayer) over(o *wal.Options, t *tracker) {
	o.From = r.report.SnapshotLSN + 1
	o.Reuse = true
	before := r.book.Settled()
	o.Read = func(bytes int64) {
		r.handAll()
		r.segment++
		r.open[r.segment%2].Wait()
		r.book.ExpectShare(before, t.segment(bytes, r.report.Records))
	}
}

// visit takes the next record of the log.
func (r *replayer) visit(rec wal.Record) error {
	if !r.begun {
		r.begun = true
		if err := r.report.begins(rec.LSN); err != nil {
			return err
		}
	}
	r.report.Records++
	if len(rec.Data) > 0 && journal.Kind(rec.Data[0]) == journal.KindAged {
		return r.alone(rec)
	}
	c := r.book.Change(rec.LSN, rec.Data)
	i := c.Lane(len(r.work))
	if r.batches[i] = append(r.batches[i], c); len(r.batches[i]) == batch {
		r.hand(i)
		return r.failed()
	}
	return nil
}

// alone applies a record that is about many keys, after all that came before it.
func (r *replayer) alone(rec wal.Record) error {
	r.handAll()
	r.open[0].Wait()
	r.open[1].Wait()
	r.apply([]index.Change{r.book.Change(rec.LSN, rec.Data)})
	return r.failed()
}

// hand gives a worker its batch.
func (r *replayer) hand(i int) {
	open := &r.open[r.segment%2]
	open.Add(1)
	r.work[i] <- handed{r.batches[i], open}
	select {
	case r.batches[i] = <-r.free:
	default:
		r.batches[i] = make([]index.Change, 0, batch)
	}
}

func (r *replayer) handAll() {
	for i := range r.batches {
		if len(r.batches[i]) > 0 {
			r.hand(i)
		}
	}
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
	r.handAll()
	for _, work := range r.work {
		close(work)
	}
	r.workers.Wait()
	r.book.ExpectShare(0, 1)
	return r.err
}
