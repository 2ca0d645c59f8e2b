package fuzz

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"log"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncelog/oncelog/executor"
	"github.com/oncelog/oncelog/fuzz/crash"
	"github.com/oncelog/oncelog/internal/durable"
	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/ledger"
	"github.com/oncelog/oncelog/wal"
)

// A child is this test's own binary, started again: it works on a ledger until it
// is killed, or is through.
const (
	childDir   = "ONCELOG_CHILD_DIR"   // its ledger
	childStore = "ONCELOG_CHILD_STORE" // the segment store
	childWorld = "ONCELOG_CHILD_WORLD" // URL of the witness
	childPoint = "ONCELOG_CHILD_POINT" // where it kills itself
	childLazy  = "ONCELOG_CHILD_LAZY"  // no sync reaches the disk: the control
	childItems = 24
)

func TestMain(m *testing.M) {
	if os.Getenv(childDir) == "" {
		// Long lives of the state machines, unless the command line says otherwise.
		if err := flag.Set("rapid.steps", "60"); err != nil {
			log.Fatal(err)
		}
		path := os.Getenv(report)
		if err := os.Unsetenv(report); err != nil { // tests run tests, which do only a part
			log.Fatal(err)
		}
		code := m.Run()
		if path != "" {
			if err := tally.report(path); err != nil {
				log.Print(err)
				code = 1
			}
		}
		os.Exit(code)
	}
	run := child
	if first := os.Getenv(childSoak); first != "" {
		run = func() error { return soakChild(first) }
	}
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

// killMyself ends the process as kill -9 does.
func killMyself() {
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		log.Fatal(err)
	}
	select {}
}

// tell makes one request to the witness.
func tell(path string) (int, error) {
	resp, err := http.Post(os.Getenv(childWorld)+path, "", nil)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// fate is what an honest effect comes to, the same for the same attempt.
func fate(c executor.Call) int {
	h := fnv.New32a()
	fmt.Fprintf(h, "%v %d", c.Key, c.Attempt)
	return int(h.Sum32() % 8)
}

func child() error {
	points, err := crash.NewPoints(os.Getenv(childPoint), killMyself)
	if err != nil {
		return err
	}
	dir, fsys := os.Getenv(childDir), durable.OS
	if os.Getenv(childLazy) != "" {
		fsys = crash.LazyFS{FS: fsys}
	}
	l, err := ledger.Open(dir, ledger.Options{Create: true, Store: wal.StoreKind(os.Getenv(childStore)), SegmentSize: 4 << 10,
		SnapshotEvery: -1, LockWait: 5 * time.Second, FS: &crash.FS{FS: fsys, Root: dir, Points: points}})
	if err != nil {
		return err
	}
	if l.Report().Log.TornBytes > 0 {
		if _, err := tell("/count/torn%20tails/1"); err != nil {
			return err
		}
	}
	x := executor.New(l, executor.Options{DrainEvery: -1, Backoff: time.Millisecond})
	h, err := executor.Register(x, childEffect(points))
	if err != nil {
		return err
	}
	for round := 0; ; round++ {
		if _, err := x.Drain(context.Background()); err != nil {
			return err
		}
		if l.UnsettledCount() == 0 && round > 0 {
			break
		}
		if err := doAndCompact(l, h); err != nil {
			return err
		}
	}
	if err := errors.Join(x.Close(context.Background()), l.Close()); err != nil {
		return err
	}
	for name, n := range points.Hits() {
		fmt.Printf("%s#%d\n", name, n)
	}
	return nil
}

// doAndCompact is a round of work, and tells the witness what became of the log.
func doAndCompact(l *ledger.Embedded, h *executor.Handle[string, string]) error {
	before, err := l.Stat()
	if err != nil {
		return err
	}
	doAll(h)
	worked, err := l.Stat()
	if err != nil {
		return err
	}
	take := l.Compact
	if before.Epoch%2 == 0 {
		take = l.Snapshot
	}
	if _, err := take(); err != nil {
		return err
	}
	after, err := l.Stat()
	if err != nil {
		return err
	}
	if n := worked.Log.Segments - before.Log.Segments; n > 0 {
		if _, err := tell(fmt.Sprintf("/count/rotations/%d", n)); err != nil {
			return err
		}
	}
	if after.Log.First > worked.Log.First {
		_, err = tell("/count/truncations/1")
	}
	return err
}

// doAll does every item, and every third twice at the same time. What Do answers
// is not what counts here.
func doAll(h *executor.Handle[string, string]) {
	var group sync.WaitGroup
	for i := range childItems {
		for range 1 + i%3/2 {
			group.Go(func() { _, _ = h.Do(context.Background(), fmt.Sprintf("item-%d", i), "input") })
		}
	}
	group.Wait()
}

func childEffect(points *crash.Points) executor.Effect[string, string] {
	return executor.Effect[string, string]{
		Name: "e", KeepInput: true, MaxAttempts: 1000, // kills use them up
		Run: func(_ context.Context, c executor.Call, _ string) (string, error) {
			points.Reach("before run")
			how := fate(c)
			if how == 0 {
				return "", executor.NotApplied(errors.New("nobody listened"))
			}
			if how == 1 {
				return "", errors.New("the request was lost")
			}
			if _, err := tell(fmt.Sprintf("/happen/%s/%d", c.Key.Item, c.Attempt)); err != nil {
				return "", err
			}
			points.Reach("after run")
			if how == 2 {
				return "", errors.New("the answer was lost")
			}
			return "done", nil
		},
		Check: func(_ context.Context, c executor.Call, _ string) (executor.Verdict, string, error) {
			points.Reach("before check")
			code, err := tell("/landed/" + c.Key.Item)
			switch {
			case err != nil:
				return executor.Unknown, "", err
			case code == http.StatusOK:
				return executor.Landed, "it is there", nil
			}
			return executor.NotLanded, "it is not there", nil
		},
		Confirm: func(_ context.Context, c executor.Call, _ executor.Outcome[string]) error {
			points.Reach("before confirm")
			code, err := tell("/confirm/" + c.Key.Item)
			points.Reach("after confirm")
			if err == nil && code != http.StatusOK {
				err = fmt.Errorf("the backend says %d", code)
			}
			return err
		},
	}
}

// witness is the world of the children, in the process that is not killed.
type witness struct {
	crash.World
	server *httptest.Server

	mu        sync.Mutex // guards the fields below
	confirms  int
	confirmed map[string]bool
	counts    map[string]int // what the children say that they did
}

func newWitness(t *testing.T) *witness {
	t.Helper()
	w := &witness{confirmed: map[string]bool{}, counts: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /happen/{item}/{attempt}", func(rw http.ResponseWriter, r *http.Request) {
		var attempt uint32
		if _, err := fmt.Sscan(r.PathValue("attempt"), &attempt); err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		w.Happen(journal.Key{Effect: "e", Item: r.PathValue("item")}, attempt)
	})
	mux.HandleFunc("POST /landed/{item}", func(rw http.ResponseWriter, r *http.Request) {
		if w.Count(journal.Key{Effect: "e", Item: r.PathValue("item")}) == 0 {
			http.NotFound(rw, r)
		}
	})
	mux.HandleFunc("POST /confirm/{item}", func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.confirms++
		if w.confirms%5 == 0 {
			http.Error(rw, "the database is down", http.StatusInternalServerError)
			return
		}
		w.confirmed[r.PathValue("item")] = true
	})
	mux.HandleFunc("POST /count/{what}/{n}", func(rw http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(r.PathValue("n"))
		if err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.counts[r.PathValue("what")] += n
	})
	w.server = httptest.NewServer(mux)
	t.Cleanup(w.server.Close)
	return w
}

// life is one life of the process on a ledger, killed after a while where after is
// not 0.
func (w *witness) life(dir string, store wal.StoreKind, point string, after time.Duration) (out string, killed bool, err error) {
	return w.lifeUntil(dir, store, point, after, func(p *os.Process) { _ = p.Kill() }) // it may be through already
}

// lifeUntil is life with another end.
func (w *witness) lifeUntil(dir string, store wal.StoreKind, point string, after time.Duration, end func(*os.Process)) (out string, killed bool, err error) {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), childDir+"="+dir, childStore+"="+string(store), childWorld+"="+w.server.URL, childPoint+"="+point)
	var stdout, stderr strings.Builder
	c.Stdout, c.Stderr = &stdout, &stderr
	if err := c.Start(); err != nil {
		return "", false, err
	}
	if after > 0 {
		timer := time.AfterFunc(after, func() { end(c.Process) })
		defer timer.Stop()
	}
	err = c.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == -1 {
		return "", true, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("%w: %s", err, stderr.String())
	}
	return stdout.String(), false, nil
}

// through lets a ledger come to its end and checks that every effect happened
// once, and every item was confirmed.
func (w *witness) through(dir string, store wal.StoreKind) error {
	if _, killed, err := w.life(dir, store, "", 0); err != nil || killed {
		return fmt.Errorf("the last life: killed: %v: %w", killed, err)
	}
	if d := w.Doubles(); len(d) > 0 {
		return fmt.Errorf("G1: %v", d)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range childItems {
		key := journal.Key{Effect: "e", Item: fmt.Sprintf("item-%d", i)}
		if n := w.Count(key); n != 1 {
			return fmt.Errorf("G2: the effect of %v happened %d times in the end", key, n)
		}
		if !w.confirmed[key.Item] {
			return fmt.Errorf("G2: %v was never confirmed", key)
		}
	}
	return nil
}

// did adds what happened to the counts of a test.
func (w *witness) did(counts map[string]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	counts["effects"] += w.Total()
	for what, n := range w.counts {
		counts[what] += n
	}
}

// childPoints lists the points of a whole life, with how often each is reached.
func childPoints(t *testing.T, store wal.StoreKind) map[string]int {
	t.Helper()
	w := newWitness(t)
	out, killed, err := w.life(filepath.Join(t.TempDir(), "state"), store, "", 0)
	if err != nil || killed {
		t.Fatalf("a life without a kill: killed: %v: %v", killed, err)
	}
	points := map[string]int{}
	for line := range strings.Lines(out) {
		name, hits, _ := strings.Cut(strings.TrimSpace(line), "#")
		n, err := strconv.Atoi(hits)
		if err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		points[name] = n
	}
	return points
}

// TestKillAtEveryPoint kills a process at the first, the second and the last time
// that it reaches each named point, during creation, recovery, work, snapshots
// and truncation, twice each on one ledger; then the ledger must come to its end.
func TestKillAtEveryPoint(t *testing.T) {
	for _, store := range []wal.StoreKind{wal.StoreTidwall, wal.StoreDirect} {
		t.Run(string(store), func(t *testing.T) {
			points := childPoints(t, store)
			if len(points) < 20 {
				t.Fatalf("only %d points: %v", len(points), points)
			}
			counts := map[string]int{}
			names := slices.Sorted(maps.Keys(points))
			for i, name := range names {
				if testing.Short() && i%6 != 0 {
					continue
				}
				hits := []int{1, 2, points[name]}
				if !long() {
					hits = hits[i%3 : i%3+1]
				}
				for _, hit := range hits {
					w := newWitness(t)
					dir := filepath.Join(t.TempDir(), "state")
					for range 2 {
						_, killed, err := w.life(dir, store, fmt.Sprintf("%s#%d", name, hit), 0)
						if err != nil {
							t.Fatalf("killed at %s, hit %d: %v", name, hit, err)
						}
						if killed {
							counts["kills"]++
							counts["kills "+name]++
						}
					}
					if err := w.through(dir, store); err != nil {
						t.Fatalf("killed at %s, hit %d: %v", name, hit, err)
					}
					w.did(counts)
				}
			}
			did(t, counts, "kills", "effects")
		})
	}
}

// long asks for the long form of the tests that have one.
func long() bool { return os.Getenv("ONCELOG_LONG") != "" }

// TestKillAtRandom kills processes at random moments, again and again on one
// ledger, so that recoveries are killed too.
func TestKillAtRandom(t *testing.T) {
	rounds := 4
	if long() {
		rounds = 200
	}
	counts := map[string]int{}
	for round := range rounds {
		store := []wal.StoreKind{wal.StoreTidwall, wal.StoreDirect}[round%2]
		w := newWitness(t)
		dir := filepath.Join(t.TempDir(), "state")
		rng := rand.New(rand.NewPCG(uint64(round), uint64(time.Now().UnixNano())))
		for range 12 {
			_, killed, err := w.life(dir, store, "", time.Duration(1+rng.IntN(60_000))*time.Microsecond)
			if err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			if killed {
				counts["kills"]++
			}
		}
		if err := w.through(dir, store); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		w.did(counts)
	}
	did(t, counts, "kills", "effects")
}
