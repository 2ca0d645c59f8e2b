//go:build linux

package fusedisk

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/oncelog/oncelog/fuzz/crash"
	"github.com/oncelog/oncelog/internal/durable"
	"github.com/oncelog/oncelog/internal/simdisk"
	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/ledger"
	"github.com/oncelog/oncelog/wal"
)

// A child is this test's own binary, started again to work on the mount. It says
// what it is about to do, and what it was told, on its standard output, which the
// parent, who is not killed, reads.
const (
	childDir   = "FUSEDISK_DIR"   // its ledger; empty in the parent
	childStore = "FUSEDISK_STORE" // the segment store
	childSeed  = "FUSEDISK_SEED"
	childLazy  = "FUSEDISK_LAZY" // no sync reaches the disk: the control
	keys       = 8
)

func TestMain(m *testing.M) {
	if os.Getenv(childDir) == "" {
		os.Exit(m.Run())
	}
	if err := child(); err != nil {
		log.Fatal(err)
	}
}

// message is one line of a child.
type message struct {
	What    string // "known", "opened", "torn", "begin" or "end" of an operation, "happened"
	Op      string // accept, execute, release, confirm
	Key     int
	Attempt uint32
	Result  []byte         // execute
	Entry   *journal.Entry // known
	Listed  bool           // known: in the journal
}

func say(m message) {
	if err := json.NewEncoder(os.Stdout).Encode(m); err != nil {
		log.Fatal(err)
	}
}

func keyOf(i int) journal.Key { return journal.Key{Effect: "e", Item: fmt.Sprint("item-", i)} }

// child works on a ledger until it is killed or an operation fails.
func child() error {
	fsys := durable.OS
	if os.Getenv(childLazy) != "" {
		fsys = crash.LazyFS{FS: fsys}
	}
	l, err := ledger.Open(os.Getenv(childDir), ledger.Options{Create: true, FS: fsys, Store: wal.StoreKind(os.Getenv(childStore)),
		SegmentSize: 2 << 10, SnapshotEvery: -1})
	if err != nil {
		return err
	}
	if l.Report().Log.TornBytes > 0 {
		say(message{What: "torn"})
	}
	listed := map[journal.Key]bool{}
	for key := range l.Unsettled() {
		listed[key] = true
	}
	for i := range keys {
		e, err := l.Get(keyOf(i))
		if err != nil {
			return err
		}
		say(message{What: "known", Key: i, Entry: &e, Listed: listed[keyOf(i)]})
	}
	say(message{What: "opened"})
	var seed uint64
	if _, err := fmt.Sscan(os.Getenv(childSeed), &seed); err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(seed, 11))
	for n := range 400 {
		if n%40 == 39 {
			take := l.Compact
			if n%80 == 39 {
				take = l.Snapshot
			}
			if _, err := take(); err != nil {
				return err
			}
		}
		if err := work(l, rng.IntN(keys), rng); err != nil {
			return err
		}
	}
	return l.Close()
}

// work takes a key one step along.
func work(l *ledger.Embedded, i int, rng *rand.Rand) error {
	key := keyOf(i)
	e, err := l.Get(key)
	if err != nil {
		return err
	}
	m := message{What: "begin", Key: i, Attempt: e.Attempt}
	switch l.State(&e) {
	case journal.Absent, journal.Released:
		m.Op, m.Attempt = "accept", e.Attempt+1
		say(m)
		d, err := l.Accept(context.Background(), key, ledger.Input{})
		if err != nil || !d.Granted {
			return errors.Join(err, fmt.Errorf("%v: %+v", key, d))
		}
		m.What = "end"
		say(m)
		if rng.IntN(3) > 0 {
			m.What = "happened"
			say(m)
		}
		return nil
	case journal.Accepted:
		if rng.IntN(3) == 0 {
			_, err := l.Doubt(key, e.Attempt, journal.Failed, "lost")
			return err
		}
		m.Op, m.Result = "execute", []byte(fmt.Sprint("result of attempt ", e.Attempt))
		say(m)
		_, err = l.Execute(key, e.Attempt, ledger.Outcome{Result: m.Result, Cause: journal.Run})
	case journal.InDoubt:
		m.Op = "release"
		say(m)
		_, err = l.Release(key, e.Attempt, journal.Operator, "again")
	case journal.Executed:
		if rng.IntN(3) > 0 { // another attempt, so that the log goes on
			m.Op = "release"
			say(m)
			_, err = l.Release(key, e.Attempt, journal.Operator, "it was not there")
			break
		}
		return nil
	}
	if err != nil {
		return err
	}
	m.What = "end"
	say(m)
	return nil
}

// known is a ledger as a child has read it out.
type known struct {
	entries map[journal.Key]journal.Entry
	listed  []journal.Key
}

// Get implements crash.Viewer.
func (k *known) Get(key journal.Key) (journal.Entry, error) { return k.entries[key], nil }

// rig is a simulated disk and what the children on it were promised.
type rig struct {
	t      *testing.T
	disk   *simdisk.Disk
	mnt    string
	store  wal.StoreKind
	lazy   bool
	oracle crash.Oracle
	world  crash.World
	counts map[string]int
}

// life is one child on the mounted disk; event comes at operation k of it.
func (r *rig) life(seed uint64, k int, event simdisk.Event) []error {
	r.t.Helper()
	server, err := Mount(r.mnt, r.disk.FS())
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() {
		if err := server.Unmount(); err != nil {
			r.t.Fatal(err)
		}
	}()
	if event != 0 {
		r.disk.At(k, event)
	}
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), childDir+"="+r.mnt+"/state", childStore+"="+string(r.store), fmt.Sprintf("%s=%d", childSeed, seed))
	if r.lazy {
		c.Env = append(c.Env, childLazy+"=1")
	}
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		r.t.Fatal(err)
	}
	kill := event == 0 && k > 0
	seen, wrong := known{entries: map[journal.Key]journal.Entry{}}, []error(nil)
	opened := false
	for lines, n := bufio.NewScanner(out), 0; lines.Scan(); n++ {
		var m message
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			r.t.Fatalf("%v: %s", err, lines.Bytes())
		}
		if m.What == "opened" {
			opened = true
			wrong = r.oracle.Check(&r.world, &seen, seen.listed)
		}
		r.hear(&m, &seen)
		if kill && n == k {
			_ = c.Process.Kill() // it may be through
			r.counts["kills"]++
		}
	}
	err = c.Wait()
	hit := r.disk.Ops() > k && event != 0
	if hit {
		r.counts["events"]++
	}
	if err != nil && !hit && !kill {
		wrong = append(wrong, fmt.Errorf("a life without an event: %w: %s", err, stderr.String()))
	}
	if !opened && !hit && !kill {
		wrong = append(wrong, fmt.Errorf("it did not open: %s", stderr.String()))
	}
	return wrong
}

// hear takes down what a child says.
func (r *rig) hear(m *message, seen *known) {
	key := keyOf(m.Key)
	switch m.What + " " + m.Op {
	case "known ":
		seen.entries[key] = *m.Entry
		if m.Listed {
			seen.listed = append(seen.listed, key)
		}
	case "torn ":
		r.counts["torn tails"]++
	case "begin accept":
		r.oracle.BeginAccept(key, m.Attempt)
	case "end accept":
		r.oracle.EndAccept(key, m.Attempt)
		r.counts["accepts"]++
	case "happened accept":
		r.world.Happen(key, m.Attempt)
	case "begin execute":
		r.oracle.BeginExecute(key, m.Attempt, m.Result)
	case "end execute":
		r.oracle.EndExecute(key, m.Attempt)
	case "begin release":
		r.oracle.BeginRelease(key, m.Attempt)
	case "end release":
		r.oracle.EndRelease(key, m.Attempt)
	}
}

// newRig mounts nothing yet. Where mounting is not possible the test is skipped,
// or fails where ONCELOG_NO_SKIP says that it must be.
func newRig(t *testing.T, seed uint64, store wal.StoreKind, o ...simdisk.Option) *rig {
	t.Helper()
	r := &rig{t: t, disk: simdisk.New(rand.New(rand.NewPCG(seed, 12)), o...), mnt: t.TempDir(), store: store, counts: map[string]int{}}
	server, err := Mount(r.mnt, r.disk.FS())
	if err != nil {
		if os.Getenv("ONCELOG_NO_SKIP") != "" {
			t.Fatalf("not tested: a FUSE mount: %v", err)
		}
		t.Skipf("not tested: a FUSE mount: %v", err)
	}
	if err := server.Unmount(); err != nil {
		t.Fatal(err)
	}
	return r
}

// configuration is what becomes of a disk under its children.
type configuration struct {
	name    string
	options []simdisk.Option
	events  []simdisk.Event
	kill    bool // the process dies first, the power goes later
}

var configurations = []configuration{
	{name: "strict", events: []simdisk.Event{simdisk.Cut, simdisk.CutAfter}},
	{name: "journal", options: []simdisk.Option{simdisk.Journal}, events: []simdisk.Event{simdisk.Cut, simdisk.CutAfter}},
	{name: "kill, then cut", kill: true},
	{name: "full", events: []simdisk.Event{simdisk.FailFull}},
	{name: "failures", events: []simdisk.Event{simdisk.FailLost, simdisk.FailPersisted, simdisk.FailShort}},
}

func rounds() int {
	if os.Getenv("ONCELOG_LONG") != "" {
		return 600
	}
	return 24
}

// TestDisk: real processes on a disk that loses what was not synced. After every
// life the next one must find what the earlier ones were promised.
func TestDisk(t *testing.T) {
	for _, store := range []wal.StoreKind{wal.StoreTidwall, wal.StoreDirect} {
		for _, c := range configurations {
			t.Run(string(store)+"/"+c.name, func(t *testing.T) {
				r := newRig(t, 1, store, c.options...)
				r.run(t, &c, rounds())
				if t.Failed() {
					return
				}
				t.Logf("did %v", r.counts)
				if r.counts["accepts"] < 50 || r.counts["events"]+r.counts["kills"] < rounds()/4 || r.counts["power cuts"] == 0 {
					t.Errorf("the test did not do what it is there for: %v", r.counts)
				}
			})
		}
	}
}

// run takes a disk through lives; it fails the test at the first broken promise.
func (r *rig) run(t *testing.T, c *configuration, n int) {
	t.Helper()
	if wrong := r.lives(c, n); len(wrong) > 0 {
		t.Fatal(errors.Join(wrong...))
	}
}

func (r *rig) lives(c *configuration, n int) []error {
	rng := rand.New(rand.NewPCG(uint64(n), 13))
	for i := range n {
		k, event := 1+rng.IntN(400), simdisk.Event(0)
		if !c.kill {
			event = c.events[i%len(c.events)]
		}
		if wrong := r.life(uint64(i), k, event); len(wrong) > 0 {
			return append(wrong, fmt.Errorf("life %d", i))
		}
		// After the death of a process its files are read once before the power
		// goes: what an opening only reads may be in the cache only.
		if c.kill || slices.Contains(c.events, simdisk.FailLost) && i%2 == 0 {
			r.disk.Kill()
			if wrong := r.life(uint64(i), 0, 0); len(wrong) > 0 {
				return append(wrong, fmt.Errorf("life %d, again", i))
			}
		}
		r.disk.Crash()
		r.counts["power cuts"]++
	}
	return r.life(uint64(n), 0, 0)
}

// TestControl: the same with a ledger whose syncs do nothing must be caught, or
// the harness is worth nothing.
func TestControl(t *testing.T) {
	r := newRig(t, 2, wal.StoreDirect)
	r.lazy = true
	wrong := r.lives(&configurations[0], 60)
	if len(wrong) == 0 {
		t.Fatalf("a ledger that does not sync is not caught: %v", r.counts)
	}
	t.Logf("caught: %v", wrong[0])
}
