package fuzz

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/oncelog/oncelog/wal"
)

// noSkip makes a test that cannot run here a failure, in CI.
const noSkip = "ONCELOG_NO_SKIP"

func skip(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv(noSkip) != "" {
		t.Fatalf("not tested: "+format, args...)
	}
	t.Skipf("not tested: "+format, args...)
}

// shutdown is the file systems' FS_IOC_SHUTDOWN, and its flag that leaves the
// journal unwritten: what was not synced is gone, as after a power cut.
const (
	shutdown   = 0x8004587D
	noLogFlush = 2
)

// loopDisk is a file system on a loop device.
type loopDisk struct {
	t     *testing.T
	image string
	at    string
}

func newLoopDisk(t *testing.T, kind string) *loopDisk {
	t.Helper()
	return newLoopDiskAt(t, kind, filepath.Join(t.TempDir(), "image"), 320<<20) // the least that xfs takes
}

func newLoopDiskAt(t *testing.T, kind, image string, size int64) *loopDisk {
	t.Helper()
	if os.Geteuid() != 0 {
		skip(t, "power cuts of real file systems need root")
	}
	mkfs, err := exec.LookPath("mkfs." + kind)
	if err != nil {
		skip(t, "%v", err)
	}
	d := &loopDisk{t: t, image: image, at: filepath.Join(t.TempDir(), "mnt")}
	if err := os.Mkdir(d.at, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d.image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(d.image, size); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(mkfs, "-q", d.image).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", mkfs, err, out)
	}
	if out, err := d.mount(); err != nil {
		skip(t, "mount of a loop device: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", d.at).Run() }) // it may be unmounted
	return d
}

func (d *loopDisk) mount() ([]byte, error) {
	return exec.Command("mount", "-o", "loop", d.image, d.at).CombinedOutput()
}

// cut ends the file system without writing anything more.
func (d *loopDisk) cut() error {
	f, err := os.Open(d.at)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.IoctlSetPointerInt(int(f.Fd()), shutdown, noLogFlush)
}

// again mounts it after a cut.
func (d *loopDisk) again() error {
	for try := 0; ; try++ {
		out, err := exec.Command("umount", d.at).CombinedOutput()
		if err == nil {
			break
		}
		if try == 50 {
			return fmt.Errorf("umount: %w: %s", err, out)
		}
		time.Sleep(20 * time.Millisecond) // the killed process may still hold it
	}
	if out, err := d.mount(); err != nil {
		return fmt.Errorf("mount: %w: %s", err, out)
	}
	return nil
}

// TestPowerCut cuts the power of real file systems under a working process, again
// and again on one ledger; then the ledger must come to its end.
func TestPowerCut(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds; the simulated disk is what -short runs")
	}
	for _, kind := range []string{"ext4", "xfs"} {
		for _, store := range []wal.StoreKind{wal.StoreTidwall, wal.StoreDirect} {
			t.Run(kind+"/"+string(store), func(t *testing.T) {
				d := newLoopDisk(t, kind)
				rounds := 3
				if long() {
					rounds = 100
				}
				counts := map[string]int{}
				for round := range rounds {
					w := newWitness(t)
					dir := filepath.Join(d.at, fmt.Sprintf("state-%d", round))
					for range 4 {
						if err := d.cutDuring(w, dir, store); err != nil {
							t.Fatalf("round %d: %v", round, err)
						}
						counts["power cuts"]++
					}
					if err := w.through(dir, store); err != nil {
						t.Fatalf("round %d: %v", round, err)
					}
					w.did(counts)
				}
				did(t, counts, "power cuts", "effects")
			})
		}
	}
}

// cutDuring cuts the power while a process works, which is then killed.
func (d *loopDisk) cutDuring(w *witness, dir string, store wal.StoreKind) error {
	after := time.Duration(5+rand.IntN(80)) * time.Millisecond
	cut := make(chan error, 1)
	timer := time.AfterFunc(after, func() { cut <- d.cut() })
	defer timer.Stop()
	// The process hears of I/O errors, stops, and ends by itself or is killed.
	_, _, _ = w.life(dir, store, "", after+time.Second)
	if err := <-cut; err != nil {
		return fmt.Errorf("shutdown: %w", err)
	}
	return d.again()
}

// TestPowerCutByCopy cuts the power of ext4 by a copy of the disk that it is on, made
// at one moment while another process's files are synced on it: what the file system
// had not yet written is missing in the copy. The ledger goes on there.
func TestPowerCutByCopy(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds; the simulated disk is what -short runs")
	}
	for _, store := range []wal.StoreKind{wal.StoreTidwall, wal.StoreDirect} {
		t.Run(string(store), func(t *testing.T) {
			counts := map[string]int{}
			outer := newLoopDiskAt(t, "xfs", filepath.Join(t.TempDir(), "image"), 600<<20) // it can copy at one moment
			d := newLoopDiskAt(t, "ext4", filepath.Join(outer.at, "disk-0"), 48<<20)
			rounds := 4
			if long() {
				rounds = 100
			}
			for round := range rounds {
				w, dir := newWitness(t), fmt.Sprintf("state-%d", round)
				for cut := range 2 {
					if err := d.copyDuring(w, dir, store, 2*round+cut+1); err != nil {
						t.Fatalf("round %d: %v", round, err)
					}
					counts["power cuts"]++
				}
				if err := w.through(filepath.Join(d.at, dir), store); err != nil {
					t.Fatalf("round %d: %v", round, err)
				}
				w.did(counts)
			}
			did(t, counts, "power cuts", "effects")
		})
	}
}

// copyDuring stops a process at work, copies the disk, and goes on with the n-th copy.
func (d *loopDisk) copyDuring(w *witness, dir string, store wal.StoreKind, n int) error {
	next := fmt.Sprintf("%s-%d", d.image[:strings.LastIndex(d.image, "-")], n)
	quiet, stopped := make(chan struct{}), make(chan error, 1)
	go func() { stopped <- neighbour(filepath.Join(d.at, "neighbour"), quiet) }()
	copied := make(chan error, 1)
	after := time.Duration(5+rand.IntN(60)) * time.Millisecond
	_, killed, err := w.lifeUntil(filepath.Join(d.at, dir), store, "", after, func(p *os.Process) {
		// It stands still, so that nothing happens in the world after the copy.
		err := p.Signal(unix.SIGSTOP)
		if err == nil {
			err = clone(d.image, next)
		}
		copied <- errors.Join(err, p.Kill())
	})
	close(quiet)
	if neighbourErr := <-stopped; neighbourErr != nil {
		return neighbourErr
	}
	if err != nil {
		return err
	}
	if !killed { // it was through before
		if err := clone(d.image, next); err != nil {
			return err
		}
	} else if err := <-copied; err != nil {
		return err
	}
	if out, err := exec.Command("umount", d.at).CombinedOutput(); err != nil {
		return fmt.Errorf("umount: %w: %s", err, out)
	}
	if err := os.Remove(d.image); err != nil {
		return err
	}
	d.image = next
	if out, err := d.mount(); err != nil {
		return fmt.Errorf("mount: %w: %s", err, out)
	}
	return nil
}

// clone copies a file at one moment.
func clone(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	return errors.Join(unix.IoctlFileClone(int(out.Fd()), int(in.Fd())), out.Close())
}

// neighbour syncs a file of its own over and over: a sync of one file can commit
// another's size before its bytes.
func neighbour(path string, quiet chan struct{}) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		select {
		case <-quiet:
			return nil
		default:
		}
		if _, err := f.Write(make([]byte, 700)); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
	}
}

// TestPowerCutControl: the same cut under a ledger whose syncs do nothing must be
// caught, or the harness is worth nothing.
func TestPowerCutControl(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds; the simulated disk is what -short runs")
	}
	d := newLoopDisk(t, "ext4")
	t.Setenv(childLazy, "1")
	for round := range 40 {
		w := newWitness(t)
		dir := filepath.Join(d.at, fmt.Sprintf("state-%d", round))
		err := d.cutDuring(w, dir, wal.StoreDirect)
		if err == nil {
			err = w.through(dir, wal.StoreDirect)
		}
		if err != nil {
			t.Logf("caught in round %d: %v", round, err)
			return
		}
	}
	t.Error("a ledger that does not sync is not caught")
}
