package fuzz

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
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
	if os.Geteuid() != 0 {
		skip(t, "power cuts of real file systems need root")
	}
	mkfs, err := exec.LookPath("mkfs." + kind)
	if err != nil {
		skip(t, "%v", err)
	}
	d := &loopDisk{t: t, image: filepath.Join(t.TempDir(), "image"), at: filepath.Join(t.TempDir(), "mnt")}
	if err := os.Mkdir(d.at, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d.image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(d.image, 320<<20); err != nil { // the least that xfs takes
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
					counts["effects"] += w.Total()
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
