package load

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelog/oncelog/internal/durable"
)

// TestQuantiles compares with a sorted list.
func TestQuantiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var w, other Waits
	var all []time.Duration
	for i := range 20_000 {
		d := time.Duration(rng.ExpFloat64() * float64(time.Millisecond))
		all = append(all, d)
		if i%3 == 0 {
			other.Add(d)
		} else {
			w.Add(d)
		}
	}
	w.merge(&other)
	slices.Sort(all)
	for _, share := range []float64{0, 0.01, 0.5, 0.99, 0.999, 1} {
		exact := all[min(int(share*float64(len(all))), len(all)-1)]
		if got := w.Quantile(share); got < exact-exact/20 || got > exact+exact/16+1 {
			t.Errorf("quantile %v: %v, want about %v", share, got, exact)
		}
	}
	if got := w.Quantile(1); got != all[len(all)-1] || w.Count() != len(all) {
		t.Errorf("the longest of %d: %v, want %v of %d", w.Count(), got, all[len(all)-1], len(all))
	}
	for _, d := range []time.Duration{0, 1, 31, 32, 33, 63, 64, 1000, 1 << 40, 1<<63 - 1} {
		if c := class(d); d > top(c) || c > 0 && d <= top(c-1) {
			t.Errorf("%d is in class %d, which ends at %d", d, c, top(c))
		}
	}
	if (&Waits{}).Quantile(0.5) != 0 {
		t.Error("none")
	}
}

func TestRun(t *testing.T) {
	var calls atomic.Int64
	seen := make([]atomic.Int64, 1000)
	r, err := RunN(7, len(seen), func(i int) error { calls.Add(1); seen[i].Add(1); return nil })
	if err != nil || r.Records != len(seen) || int(calls.Load()) != len(seen) || r.Waits.Count() != len(seen) || r.Rate() <= 0 {
		t.Errorf("%+v, %v", r.Records, err)
	}
	for i := range seen {
		if seen[i].Load() != 1 {
			t.Fatalf("number %d was given %d times", i, seen[i].Load())
		}
	}
	broken := errors.New("broken")
	if _, err := Run(3, time.Hour, func(i int) error {
		if i == 100 {
			return broken
		}
		return nil
	}); !errors.Is(err, broken) {
		t.Error(err)
	}
}

// TestGroup: each record is committed before its caller is told, in one piece, and a
// failure is told to all.
func TestGroup(t *testing.T) {
	var mu sync.Mutex
	var committed []byte
	commits := 0
	g := NewGroup(func(b []byte, _ int) error {
		mu.Lock()
		defer mu.Unlock()
		committed = append(committed, b...)
		commits++
		return nil
	})
	var callers sync.WaitGroup
	for c := range 20 {
		callers.Go(func() {
			for range 50 {
				record := slices.Repeat([]byte{byte(c)}, 1+c)
				if err := g.Append(record); err != nil {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
	counts := map[byte]int{}
	for i := 0; i < len(committed); {
		c := committed[i]
		for j := range int(c) + 1 {
			if committed[i+j] != c {
				t.Fatalf("a record was cut at byte %d", i+j)
			}
		}
		counts[c]++
		i += int(c) + 1
	}
	for c := range 20 {
		if counts[byte(c)] != 50 {
			t.Errorf("caller %d: %d records, want 50", c, counts[byte(c)])
		}
	}
	if commits > 1000 || commits == 0 {
		t.Errorf("%d commits", commits)
	}
	broken := errors.New("broken")
	g = NewGroup(func([]byte, int) error { return broken })
	if err := g.Append([]byte("a")); !errors.Is(err, broken) {
		t.Error(err)
	}
}

func TestLimits(t *testing.T) {
	for name, open := range Limits {
		commit, closeFile, err := open(durable.OS, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		r, err := RunN(1, 50, func(int) error { return commit(make([]byte, 100<<10), 1) })
		if err != nil || r.Records != 50 {
			t.Errorf("%s: %+v, %v", name, r.Records, err)
		}
		if err := closeFile(); err != nil {
			t.Error(err)
		}
	}
}
