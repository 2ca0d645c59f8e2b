package load

import (
	"math/bits"
	"time"
)

// Waits counts durations in classes 1/32 wide, so that however many there are they
// take the same memory. The zero value is empty. It is for one goroutine.
type Waits struct {
	counts [classes]uint64
	n      int
	most   time.Duration
}

// A class is the place of the highest bit and the fineBits bits behind it.
const (
	fineBits = 5
	classes  = (64 - fineBits + 1) << fineBits
)

func class(d time.Duration) int {
	v := uint64(max(d, 0))
	if v < 1<<fineBits {
		return int(v)
	}
	high := bits.Len64(v) - 1 - fineBits
	return high<<fineBits + int(v>>high)
}

// top is the longest duration of a class.
func top(class int) time.Duration {
	if class < 1<<fineBits {
		return time.Duration(class)
	}
	high := class>>fineBits - 1
	return time.Duration((uint64(class&(1<<fineBits-1)|1<<fineBits)+1)<<high - 1)
}

// Add counts one.
func (w *Waits) Add(d time.Duration) {
	w.counts[class(d)]++
	w.n++
	w.most = max(w.most, d)
}

func (w *Waits) merge(other *Waits) {
	for i, n := range other.counts {
		w.counts[i] += n
	}
	w.n += other.n
	w.most = max(w.most, other.most)
}

// Count is how many were added.
func (w *Waits) Count() int { return w.n }

// Quantile is the duration that a share of them, from 0 to 1, do not exceed, at most
// 1/32 too long; 0 for none.
func (w *Waits) Quantile(share float64) time.Duration {
	due := uint64(share * float64(w.n))
	var seen uint64
	for c, n := range w.counts {
		if seen += n; n > 0 && seen >= max(due, 1) {
			return min(top(c), w.most)
		}
	}
	return w.most
}
