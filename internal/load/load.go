package load

import (
	"sync"
	"sync/atomic"
	"time"
)

// A Result is what callers met, each of whom waits for its own record before it
// writes the next.
type Result struct {
	Callers int
	Records int
	Elapsed time.Duration
	Waits   Waits
}

// Rate is records a second.
func (r *Result) Rate() float64 { return float64(r.Records) / r.Elapsed.Seconds() }

// Add adds another round of the same callers.
func (r *Result) Add(other *Result) {
	r.Callers = other.Callers
	r.Records += other.Records
	r.Elapsed += other.Elapsed
	r.Waits.merge(&other.Waits)
}

// Run calls op from a number of callers until a time is over, and once more where
// that leaves one without any. op gets a number that no other call gets, from 0 on.
// The first error ends the run.
func Run(callers int, length time.Duration, op func(i int) error) (Result, error) {
	end := time.Now().Add(length)
	return run(callers, op, func(int) bool { return time.Now().Before(end) })
}

// RunN is Run for a number of records.
func RunN(callers, records int, op func(i int) error) (Result, error) {
	return run(callers, op, func(i int) bool { return i < records })
}

func run(callers int, op func(i int) error, more func(i int) bool) (Result, error) {
	var next atomic.Int64
	var group sync.WaitGroup
	var failed atomic.Pointer[error]
	waits := make([]Waits, callers)
	start := time.Now()
	for c := range callers {
		group.Go(func() {
			for failed.Load() == nil {
				i := int(next.Add(1)) - 1
				if !more(i) {
					return
				}
				begun := time.Now()
				if err := op(i); err != nil {
					failed.CompareAndSwap(nil, &err)
					return
				}
				waits[c].Add(time.Since(begun))
			}
		})
	}
	group.Wait()
	r := Result{Callers: callers, Elapsed: time.Since(start)}
	for c := range waits {
		r.Waits.merge(&waits[c])
	}
	r.Records = r.Waits.Count()
	if err := failed.Load(); err != nil {
		return r, *err
	}
	return r, nil
}
