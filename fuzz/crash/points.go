package crash

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
)

// Points are the named moments of a run at which its process can be ended, such
// as "before datasync wal" or "after run". Its methods may be called
// concurrently.
type Points struct {
	name string
	hit  int
	end  func()

	mu   sync.Mutex // guards hits
	hits map[string]int
}

// NewPoints returns points of which one ends the process: at says which, as
// "name#hit", the first hit being 1; empty for none. end must not return.
func NewPoints(at string, end func()) (*Points, error) {
	p := &Points{end: end, hits: map[string]int{}}
	if at == "" {
		return p, nil
	}
	name, hit, ok := strings.Cut(at, "#")
	var err error
	if p.hit, err = strconv.Atoi(hit); !ok || err != nil || p.hit < 1 {
		return nil, fmt.Errorf("crash: %q is not a point such as `before datasync wal#3`", at)
	}
	p.name = name
	return p, nil
}

// Reach is called at a point.
func (p *Points) Reach(name string) {
	p.mu.Lock()
	p.hits[name]++
	now := name == p.name && p.hits[name] == p.hit
	p.mu.Unlock()
	if now {
		p.end()
	}
}

// Hits is how often each point was reached.
func (p *Points) Hits() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.hits)
}
