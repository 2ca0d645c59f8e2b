package fuzz

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
)

// report names the file, or /dev/stdout, where the tests write in the end what they
// did together; they fail where something of that is missing.
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

// report writes the tally, and says what is zero that must not be.
func (s *sum) report(path string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := []byte("all tests together:\n")
	for _, what := range slices.Sorted(maps.Keys(s.counts)) {
		b = fmt.Appendf(b, "  %7d %s\n", s.counts[what], what)
	}
	err := os.WriteFile(path, b, 0o600)
	for _, what := range []string{"kills", "power cuts", "torn tails", "rotations", "truncations", "effects"} {
		if s.counts[what] == 0 {
			err = errors.Join(err, fmt.Errorf("no %s: the tests did not do what they are there for", what))
		}
	}
	return err
}
