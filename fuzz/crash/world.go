package crash

import (
	"fmt"
	"sync"

	"github.com/oncelog/oncelog/journal"
)

// A World counts the effects that happened. Its methods may be called
// concurrently.
type World struct {
	mu      sync.Mutex
	effects map[journal.Key][]uint32 // attempts, in the order in which they happened
}

// Happen makes the effect of a key happen, by an attempt.
func (w *World) Happen(key journal.Key, attempt uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.effects == nil {
		w.effects = map[journal.Key][]uint32{}
	}
	w.effects[key] = append(w.effects[key], attempt)
}

// Count is how often the effect of a key happened.
func (w *World) Count(key journal.Key) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.effects[key])
}

// Landed reports whether the effect of a key happened by an attempt. It is what
// a truthful check answers.
func (w *World) Landed(key journal.Key, attempt uint32) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.effects[key] {
		if a == attempt {
			return true
		}
	}
	return false
}

// Total is how many effects happened, of all keys.
func (w *World) Total() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, attempts := range w.effects {
		n += len(attempts)
	}
	return n
}

// Doubles lists the keys whose effect happened more than once, with the attempts
// that did it.
func (w *World) Doubles() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for key, attempts := range w.effects {
		if len(attempts) > 1 {
			all = append(all, fmt.Sprintf("%v by attempts %v", key, attempts))
		}
	}
	return all
}
