package fuzz

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelog/oncelog/executor"
	"github.com/oncelog/oncelog/ledger"
	"github.com/oncelog/oncelog/wal"
)

const (
	soakFor    = "ONCELOG_SOAK"         // how long TestSoak is to take; not set: skip it
	childSoak  = "ONCELOG_CHILD_SOAK"   // this child soaks: the first item's number
	childRate  = "ONCELOG_CHILD_RATE"   // with it: items a second; 0: as fast as it can
	soakKeep   = 20_000                 // settled keys that retention keeps
	soakRecent = 1_000                  // items that are redelivered
	soakRate   = 4_000                  // items a second in the long life
	soakFlat   = 1.3                    // how much memory and disk may grow, as a ratio
	soakEnd    = "18446744073709551615" // as a first item: only bring what is open to its end
)

// TestSoak is the life of a service: new items and redelivered ones,
// effects that fail in every way, snapshots and retention all the while, verified from
// outside as it goes. In the first third it works as fast as it can, and is killed again
// and again. The rest is one long life at a steady rate, whose memory, disk and latency
// must be as flat in the end as at its beginning.
// Every effect happens once.
func TestSoak(t *testing.T) {
	total, err := time.ParseDuration(os.Getenv(soakFor))
	if err != nil {
		t.Skipf("set %s to a duration such as 2m; `make soak` does", soakFor)
	}
	for _, store := range []wal.StoreKind{wal.StoreDirect, wal.StoreTidwall} {
		t.Run(string(store), func(t *testing.T) {
			s := &soak{dir: filepath.Join(t.TempDir(), "state"), store: store}
			end := time.Now().Add(total / 6) // a third of each store's half
			rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
			kills := 0
			for ; time.Now().Before(end); kills++ {
				s.life(t, time.Duration(200+rng.IntN(4000))*time.Millisecond, 0)
			}
			life := s.life(t, total/3, soakRate)
			s.finish(t)
			flat(t, life, total > 10*time.Minute)
			last := life[len(life)-1]
			t.Logf("%d items, %d redelivered, %d kills, %d verified; in the end %d keys, %.1f MB memory, %.1f MB disk, p50 %v, p99 %v",
				len(s.happened), s.redelivered, kills+1, s.verified, last.keys, last.memory/1e6, last.disk/1e6,
				time.Duration(last.p50), time.Duration(last.p99))
			did(t, map[string]int{"kills": kills + 1, "effects": len(s.happened)}, "kills", "effects")
		})
	}
}

// soak is the world of the children, in the process that is not killed.
type soak struct {
	dir         string
	store       wal.StoreKind
	happened    []byte // how often, by item
	answered    []byte // 1: the caller was told that it is done; by item
	redelivered int
	verified    int
}

// sample is one second of a life.
type sample struct {
	memory, disk float64 // bytes
	keys         int
	p50, p99     float64 // ns, of the items that were new
}

func grow(b []byte, item int) []byte {
	for len(b) <= item {
		b = append(b, 0)
	}
	return b
}

// start starts a child.
func (s *soak) start(first string, rate int) (*exec.Cmd, io.WriteCloser, io.Reader, error) {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), childDir+"="+s.dir, childStore+"="+string(s.store), childSoak+"="+first, childRate+"="+fmt.Sprint(rate))
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		return nil, nil, nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, nil, nil, err
	}
	return c, in, out, c.Start()
}

// life is one life of the service, killed at its end.
func (s *soak) life(t *testing.T, length time.Duration, rate int) []sample {
	t.Helper()
	c, in, out, err := s.start(fmt.Sprint(len(s.happened)), rate)
	if err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(length, func() { _ = c.Process.Kill() })
	defer timer.Stop()
	stop := make(chan struct{})
	var verifier sync.WaitGroup
	verifier.Go(func() {
		tick := time.NewTicker(5 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				s.verify(t)
			}
		}
	})
	samples := s.listen(t, in, out)
	close(stop)
	verifier.Wait()
	var exit *exec.ExitError
	if err := c.Wait(); !errors.As(err, &exit) || exit.ExitCode() != -1 {
		t.Fatalf("the service ended by itself: %v", err)
	}
	s.verify(t)
	return samples
}

// finish brings what is open to its end, and checks that every effect happened once.
func (s *soak) finish(t *testing.T) {
	t.Helper()
	c, in, out, err := s.start(soakEnd, 0)
	if err != nil {
		t.Fatal(err)
	}
	s.listen(t, in, out)
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	if v := s.verify(t); v != nil {
		st, err := v.Stat()
		if err != nil || st.Unsettled > 0 || st.Conflicts > 0 {
			t.Errorf("in the end: %+v, %v", st, err)
		}
	}
	for item, n := range s.happened {
		if n > 1 || n == 0 && item < len(s.answered) && s.answered[item] == 1 {
			t.Errorf("G1: the effect of item %d happened %d times", item, n)
		}
	}
}

func (s *soak) verify(t *testing.T) *ledger.View {
	v, err := ledger.Verify(s.dir, ledger.Options{})
	if errors.Is(err, ledger.ErrNoLedger) {
		return nil // it was killed before it had made one
	}
	if err != nil || len(v.Problems) > 0 {
		t.Errorf("verify: %v, %v", v.Problems, err)
	}
	s.verified++
	return v.View
}

// listen takes in what a child says until it is gone.
func (s *soak) listen(t *testing.T, in io.Writer, out io.Reader) (samples []sample) {
	t.Helper()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		var item int
		var now sample
		var err error
		switch word {
		case "happen":
			if _, err = fmt.Sscan(rest, &item); err == nil {
				s.happened = grow(s.happened, item)
				s.happened[item]++
			}
		case "done":
			if _, err = fmt.Sscan(rest, &item); err == nil {
				s.answered = grow(s.answered, item)
				s.answered[item] = 1
			}
		case "again":
			s.redelivered++
		case "check":
			if _, err = fmt.Sscan(rest, &item); err == nil {
				s.happened = grow(s.happened, item)
				// A child that is killed does not read it.
				_, _ = fmt.Fprintf(in, "%d %v\n", item, s.happened[item] > 0)
			}
		case "sample":
			if _, err = fmt.Sscan(rest, &now.memory, &now.keys, &now.p50, &now.p99); err == nil {
				now.disk, err = diskUse(s.dir)
				samples = append(samples, now)
			}
		default:
			err = errors.New("not a word of a child")
		}
		if err != nil {
			// The last line may have been cut off by the kill.
			t.Logf("line %q: %v", lines.Text(), err)
		}
	}
	return samples
}

// diskUse is how many bytes a directory's files have. Files may go meanwhile.
func diskUse(dir string) (float64, error) {
	var n int64
	err := filepath.WalkDir(dir, func(_ string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			var info os.FileInfo
			if info, err = e.Info(); err == nil {
				n += info.Size()
			}
		}
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	})
	return float64(n), err
}

// flat compares the last quarter of a life with its second.
func flat(t *testing.T, life []sample, long bool) {
	t.Helper()
	if len(life) < 12 {
		t.Fatalf("only %d samples", len(life))
	}
	n := len(life) / 4
	median := func(of func(sample) float64, part []sample) float64 {
		values := make([]float64, len(part))
		for i, s := range part {
			values[i] = of(s)
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	for _, c := range []struct {
		what        string
		of          func(sample) float64
		short, long float64 // how much it may grow, as a ratio
	}{
		{"memory", func(s sample) float64 { return s.memory }, 1.4, 1.3},
		// The log goes with the next base only: in a short run what the quarters see differs.
		{"disk", func(s sample) float64 { return s.disk }, 2, 1.5},
		{"keys", func(s sample) float64 { return float64(s.keys) }, 1.5, 1.3},
		// And a short run on a shared machine says nothing about time.
		{"median latency", func(s sample) float64 { return s.p50 }, 0, 2},
		{"p99 latency", func(s sample) float64 { return s.p99 }, 0, 2},
	} {
		from, to := median(c.of, life[n:2*n]), median(c.of, life[3*n:])
		t.Logf("%s: %.4g, then %.4g", c.what, from, to)
		limit := c.short
		if long {
			limit = c.long
		}
		if limit > 0 && to > limit*from {
			t.Errorf("%s grows from %.4g to %.4g", c.what, from, to)
		}
	}
}

// soakChild is the service.
func soakChild(first string) error {
	l, err := ledger.Open(os.Getenv(childDir), ledger.Options{Create: true, Store: wal.StoreKind(os.Getenv(childStore)), LockWait: 10 * time.Second,
		SegmentSize: 1 << 20, SnapshotEvery: 8 << 20, SnapshotInterval: 2 * time.Second, Keep: ledger.Retention{Count: soakKeep}})
	if err != nil {
		return err
	}
	c := &soaker{ledger: l, answers: map[string]chan bool{}}
	go c.hear()
	x := executor.New(l, executor.Options{DrainEvery: 100 * time.Millisecond, Backoff: time.Millisecond})
	if c.do, err = executor.Register(x, c.effect()); err != nil {
		return err
	}
	if first == soakEnd {
		for l.UnsettledCount() > 0 {
			if _, err := x.Drain(context.Background()); err != nil {
				return err
			}
		}
		return errors.Join(x.Close(context.Background()), l.Close())
	}
	if _, err := fmt.Sscan(first, &c.next); err != nil {
		return err
	}
	rate, err := strconv.Atoi(os.Getenv(childRate))
	if err != nil {
		return err
	}
	if rate > 0 {
		c.gap = time.Second / time.Duration(rate)
	}
	c.began, c.first = time.Now(), c.next
	failed := make(chan error)
	for range 16 {
		go func() { failed <- c.work() }()
	}
	go func() { failed <- c.sample() }()
	return <-failed // until it is killed
}

type soaker struct {
	ledger *ledger.Embedded
	do     *executor.Handle[string, string]
	next   int64 // atomic: the next new item

	// Item first+n is due n gaps after the beginning, if gap is not 0.
	began time.Time
	first int64
	gap   time.Duration

	mu      sync.Mutex // guards the fields below
	took    []time.Duration
	answers map[string]chan bool // by item
}

// say writes a line in one piece: what is said is in the pipe even if the process is
// killed right after.
func say(words ...any) error {
	_, err := os.Stdout.WriteString(fmt.Sprintln(words...))
	return err
}

// hear takes in what the world answers to checks.
func (c *soaker) hear() {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		item, landed, _ := strings.Cut(lines.Text(), " ")
		c.mu.Lock()
		if answer := c.answers[item]; answer != nil {
			delete(c.answers, item)
			answer <- landed == "true"
		}
		c.mu.Unlock()
	}
}

func (c *soaker) work() error {
	for {
		item := atomic.AddInt64(&c.next, 1) - 1
		time.Sleep(time.Until(c.began.Add(time.Duration(item-c.first) * c.gap)))
		fresh := rand.IntN(4) > 0
		if !fresh {
			item = max(item-int64(rand.IntN(soakRecent)), 0)
			if err := say("again", item); err != nil {
				return err
			}
		}
		start := time.Now()
		_, err := c.do.Do(context.Background(), fmt.Sprint(item), "input", executor.NoWait())
		took := time.Since(start)
		if errors.Is(err, ledger.ErrFailed) || errors.Is(err, ledger.ErrClosed) || errors.Is(err, ledger.ErrFull) {
			return err
		}
		if err == nil {
			if err := say("done", item); err != nil {
				return err
			}
		}
		if fresh {
			c.mu.Lock()
			c.took = append(c.took, took)
			c.mu.Unlock()
		}
	}
}

// sample says every second how the service is.
func (c *soaker) sample() error {
	for range time.Tick(time.Second) {
		c.mu.Lock()
		took := c.took
		c.took = nil
		c.mu.Unlock()
		if len(took) == 0 {
			continue
		}
		slices.Sort(took)
		use := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
		metrics.Read(use)
		s, err := c.ledger.Stat()
		if err == nil {
			err = s.Snapshots.Err
		}
		if err == nil {
			err = say("sample", use[0].Value.Uint64()-use[1].Value.Uint64(), s.Keys, took[len(took)/2].Nanoseconds(), took[len(took)*99/100].Nanoseconds())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *soaker) effect() executor.Effect[string, string] {
	return executor.Effect[string, string]{
		Name: "soak", KeepInput: true, MaxAttempts: 1000,
		Run: func(_ context.Context, call executor.Call, _ string) (string, error) {
			how := fate(call)
			if how == 0 {
				return "", executor.NotApplied(errors.New("nobody listened"))
			}
			if err := say("happen", call.Key.Item); err != nil {
				return "", err
			}
			if how == 1 {
				return "", errors.New("the answer was lost")
			}
			return "done", nil
		},
		Check: func(ctx context.Context, call executor.Call, _ string) (executor.Verdict, string, error) {
			answer := make(chan bool, 1)
			c.mu.Lock()
			asked := c.answers[call.Key.Item] != nil
			if !asked {
				c.answers[call.Key.Item] = answer
			}
			c.mu.Unlock()
			if asked {
				return executor.Unknown, "somebody else asks", nil
			}
			if err := say("check", call.Key.Item); err != nil {
				return executor.Unknown, "", err
			}
			select {
			case landed := <-answer:
				if landed {
					return executor.Landed, "", nil
				}
				return executor.NotLanded, "", nil
			case <-ctx.Done():
				return executor.Unknown, "", context.Cause(ctx)
			}
		},
		Confirm: func(_ context.Context, call executor.Call, _ executor.Outcome[string]) error {
			if rand.IntN(20) == 0 {
				return errors.New("the database is down")
			}
			return nil
		},
	}
}
