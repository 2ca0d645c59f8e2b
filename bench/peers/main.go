// Command peers measures durable records of oncelog and of its peers on one disk, in
// one run: every peer at each number of callers, round after round, so that what
// disturbs the machine disturbs all. It writes a table and two plots.
//
// # Invariants
//
//   - A record is counted once its caller may take it for durable: each peer is set to
//     sync every record, or the group that it is in.
//   - All write the same: a key of 36 bytes and a value of 64, as many records as
//     there are calls, each caller waiting for its own.
//   - A peer that cannot be measured here is named, with the reason, not left out.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oncelog/oncelog/internal/load"
)

// A store makes one record durable. Its methods may be called concurrently.
type store interface {
	put(i int) error
	close() error
}

// A peer is something to be measured.
type peer struct {
	name string
	ours bool
	most int // callers that make sense; 0 for any number
	note string
	open func(dir string) (store, error)
}

// peers in the order in which they are shown.
var peers = slices.Concat(limits, oncelogs, logs, engines, servers)

// record is what every peer writes for the i-th call.
func record(i int) (key, value []byte) {
	return fmt.Appendf(nil, "%036d", i), valueBytes
}

var valueBytes = []byte(strings.Repeat("v", 64))

const recordBytes = 36 + 64

// a measurement is one peer at one number of callers, over all rounds.
type measurement struct {
	rounds []round
	failed error
}

type round struct {
	load.Result
	cpu    time.Duration // of this process, a record
	allocs float64       // a record
}

func main() {
	log.SetFlags(0)
	rounds := flag.Int("rounds", 3, "how often each is measured")
	length := flag.Duration("time", 2*time.Second, "how long each time")
	callers := flag.String("callers", "1,16,256,1024", "numbers of callers")
	only := flag.String("only", "", "measure peers whose name contains this")
	dir := flag.String("dir", os.TempDir(), "directory on the disk that is measured")
	out := flag.String("out", "", "directory for PEERS.md and the plots; none for standard output alone")
	flag.Parse()
	var counts []int
	for word := range strings.SplitSeq(*callers, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 {
			log.Fatalf("-callers %q: want numbers", *callers)
		}
		counts = append(counts, n)
	}
	chosen := slices.DeleteFunc(slices.Clone(peers), func(p peer) bool { return !strings.Contains(p.name, *only) })
	r := &results{peers: chosen, callers: counts, rounds: *rounds, length: *length, of: map[string]map[int]*measurement{}}
	for n := range *rounds {
		for _, p := range chosen {
			for _, c := range counts {
				r.measure(p, c, *dir)
			}
			log.Printf("round %d: %s", n+1, p.name)
		}
	}
	if err := r.write(*out); err != nil {
		log.Fatal(err)
	}
}

// measure adds a round of one peer, in a directory of its own.
func (r *results) measure(p peer, callers int, in string) {
	if p.most > 0 && callers > p.most {
		return
	}
	if r.of[p.name] == nil {
		r.of[p.name] = map[int]*measurement{}
	}
	m := r.of[p.name][callers]
	if m == nil {
		m = &measurement{}
		r.of[p.name][callers] = m
	}
	if m.failed != nil {
		return
	}
	one, err := measure(p, callers, r.length, in)
	if err != nil {
		m.failed = err
		log.Printf("%s, %d callers: %v", p.name, callers, err)
		return
	}
	m.rounds = append(m.rounds, one)
}

func measure(p peer, callers int, length time.Duration, in string) (one round, err error) {
	dir, err := os.MkdirTemp(in, "peers-")
	if err != nil {
		return one, err
	}
	defer func() {
		if gone := os.RemoveAll(dir); err == nil {
			err = gone
		}
	}()
	s, err := p.open(filepath.Join(dir, "store"))
	if err != nil {
		return one, err
	}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu := cpuTime()
	one.Result, err = load.Run(callers, length, s.put)
	if n := time.Duration(one.Records); n > 0 {
		one.cpu = (cpuTime() - cpu) / n
		runtime.ReadMemStats(&after)
		one.allocs = float64(after.Mallocs-before.Mallocs) / float64(n)
	}
	if closed := s.close(); err == nil {
		err = closed
	}
	return one, err
}
