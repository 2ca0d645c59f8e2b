package fuzz

import (
	"fmt"
	"maps"
	"slices"
	"sync"
)

// report makes the tests say in the end what they did together, and fail where
// something of that is missing. `make crash` sets it.
const report = "ONCELOG_REPORT"

// tally is what all tests of this run did.
var tally sum

type sum struct {
	mu     sync.Mutex // guards counts
	counts map[string]int
}

func (s *sum) add(counts map[string]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts == nil {
		s.counts = map[string]int{}
	}
	for what, n := range counts {
		s.counts[what] += n
	}
}

// report prints the tally and is 1 where a count is zero that must not be.
func (s *sum) report() (code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Println("all tests together:")
	for _, what := range slices.Sorted(maps.Keys(s.counts)) {
		fmt.Printf("  %7d %s\n", s.counts[what], what)
	}
	for _, what := range []string{"kills", "power cuts", "torn tails", "rotations", "truncations", "effects"} {
		if s.counts[what] == 0 {
			fmt.Printf("no %s: the tests did not do what they are there for\n", what)
			code = 1
		}
	}
	return code
}
