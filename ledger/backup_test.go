package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/oncelog/oncelog/internal/durable"
	"github.com/oncelog/oncelog/internal/simdisk"
	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/snapshot"
	"github.com/oncelog/oncelog/wal"
)

var stores = []wal.StoreKind{wal.StoreTidwall, wal.StoreDirect}

// restored opens a ledger that was restored, and makes sure that it knows of its loss.
func restored(t *testing.T, dir string, o Options) *Embedded {
	t.Helper()
	o.Create = false
	l, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	r := l.Report()
	if !r.Amnesia || !strings.Contains(r.Reason, "restored from the backup of") || !strings.Contains(r.Reason, "a test") {
		t.Errorf("the report of a restored ledger: %v, %q", r.Amnesia, r.Reason)
	}
	return l
}

// TestBackupOfALiveLedger backs a busy ledger up again and again, with snapshots
// meanwhile, and restores each: what was settled when the backup began is settled in
// it with the same result, and nothing that was ever accepted can be accepted again.
func TestBackupOfALiveLedger(t *testing.T) {
	for _, store := range stores {
		t.Run(string(store), func(t *testing.T) {
			const keys, workers = 400, 4
			dir := filepath.Join(t.TempDir(), "state")
			to := filepath.Join(t.TempDir(), "backup")
			o := Options{Create: true, Store: store, SegmentSize: 16 << 10, SnapshotEvery: -1}
			l, err := Open(dir, o)
			if err != nil {
				t.Fatal(err)
			}
			stop, failed := make(chan struct{}), make(chan error, workers+1)
			var busy sync.WaitGroup
			for w := range workers {
				busy.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(w), 3))
					for {
						select {
						case <-stop:
							return
						default:
						}
						if err := advance(l, rng.IntN(keys/workers)*workers+w); err != nil {
							failed <- err
							return
						}
					}
				})
			}
			busy.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					default:
					}
					take := l.Snapshot
					if n%5 == 4 {
						take = l.Compact
					}
					if _, err := take(); err != nil {
						failed <- err
						return
					}
				}
			})
			for round := range 6 {
				before := entriesOf(t, l, keys)
				m, err := Backup(dir, to, o)
				if err != nil {
					t.Fatal(err)
				}
				again := filepath.Join(t.TempDir(), fmt.Sprint("again", round))
				if _, err := Restore(to, again, o, "a test"); err != nil {
					t.Fatal(err)
				}
				r := restored(t, again, o)
				if first := r.log.First(); first > m.LSN {
					t.Errorf("the log begins at LSN %d, the backup ends at %d", first, m.LSN)
				}
				for i, e := range before {
					key := shelfKey(fmt.Sprint(i))
					got, err := r.Get(key)
					if err != nil {
						t.Fatal(err)
					}
					if got.LSN < e.LSN {
						t.Fatalf("%v is at LSN %d, before the backup it was at %d", key, got.LSN, e.LSN)
					}
					if e.State.Settled() && e.State.Done() && !reflect.DeepEqual(got.Clone(), e) {
						t.Fatalf("%v is %+v, before the backup it was %+v", key, got, e)
					}
					if d, err := r.Accept(context.Background(), key, Input{}); err != nil || d.Granted {
						t.Fatalf("%v is granted: %+v, %v", key, d, err)
					}
				}
				if err := r.Close(); err != nil {
					t.Fatal(err)
				}
			}
			close(stop)
			busy.Wait()
			select {
			case err := <-failed:
				t.Fatal(err)
			default:
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestBackupCutAnywhere plans each event at each operation of a second backup: the
// directory holds the first or the second, whole, and a repetition makes the second.
func TestBackupCutAnywhere(t *testing.T) {
	const keys = 100
	cuts, kept := 0, 0
	for _, event := range []simdisk.Event{simdisk.Cut, simdisk.CutAfter, simdisk.FailLost, simdisk.FailShort, simdisk.FailFull, simdisk.FailPersisted} {
		for k := 0; ; k++ {
			d, o, l := grown(t, wal.StoreDirect, keys)
			first, err := Backup("/state", "/backup", o)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 20 {
				if err := advance(l, i); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := l.Snapshot(); err != nil {
				t.Fatal(err)
			}
			want := entriesOf(t, l, keys)
			at := d.Ops() + k
			d.At(at, event)
			_, err = Backup("/state", "/backup", o)
			hit := d.Ops() > at
			if err != nil && !hit {
				t.Fatal(err)
			}
			_ = l.Close() // the disk may be off
			d.Crash()
			o.FS = d.FS()
			m, err := Restore("/backup", "/again", o, "a test")
			if err != nil {
				t.Fatalf("event %d at operation %d: %v", event, k, err)
			}
			if m.LSN == first.LSN {
				kept++
			}
			if err := restored(t, "/again", o).Close(); err != nil {
				t.Fatal(err)
			}
			if m, err = Backup("/state", "/backup", o); err != nil || m.LSN <= first.LSN {
				t.Fatalf("event %d at operation %d: the next backup: %+v, %v", event, k, m, err)
			}
			if _, err := Restore("/backup", "/third", o, "a test"); err != nil {
				t.Fatal(err)
			}
			l = restored(t, "/third", o)
			if got := entriesOf(t, l, keys); !reflect.DeepEqual(got, want) {
				t.Fatalf("event %d at operation %d: another state", event, k)
			}
			left, err := o.FS.ReadDir("/backup/files")
			if err != nil || len(left) != len(m.Files) {
				t.Fatalf("event %d at operation %d: %d contents for %d files: %v", event, k, len(left), len(m.Files), err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if !hit {
				break
			}
			cuts++
		}
	}
	if cuts < 60 || kept < 30 || kept >= cuts {
		t.Errorf("%d events, %d left the first backup", cuts, kept)
	}
}

// TestBackupRepeated plans a failure at each operation of a backup, repeats it while the
// system goes on, and cuts the power then: a backup that was said to be done is whole.
func TestBackupRepeated(t *testing.T) {
	failed := 0
	for _, event := range []simdisk.Event{simdisk.FailLost, simdisk.FailShort, simdisk.FailPersisted} {
		for k := 0; ; k++ {
			d, o, l := grown(t, wal.StoreDirect, 60)
			at := d.Ops() + k
			d.At(at, event)
			_, err := Backup("/state", "/backup", o)
			hit := d.Ops() > at
			if err != nil {
				failed++
				if _, err := Backup("/state", "/backup", o); err != nil {
					t.Fatalf("event %d at operation %d: repeated: %v", event, k, err)
				}
			}
			_ = l.Close()
			d.Crash()
			o.FS = d.FS()
			if _, err := Restore("/backup", "/again", o, "a test"); err != nil {
				t.Fatalf("event %d at operation %d: %v", event, k, err)
			}
			if !hit {
				break
			}
		}
	}
	if failed < 30 {
		t.Errorf("only %d failed", failed)
	}
}

// TestRestoreCutAnywhere plans each event at each operation of a restoration: there is
// no ledger, or one that knows of its loss, and a repetition makes one.
func TestRestoreCutAnywhere(t *testing.T) {
	const keys = 60
	cuts, none := 0, 0
	for _, event := range []simdisk.Event{simdisk.Cut, simdisk.CutAfter, simdisk.FailLost, simdisk.FailShort, simdisk.FailFull, simdisk.FailPersisted} {
		for k := 0; ; k++ {
			d, o, l := grown(t, wal.StoreDirect, keys)
			want := entriesOf(t, l, keys)
			if _, err := Backup("/state", "/backup", o); err != nil {
				t.Fatal(err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			at := d.Ops() + k
			d.At(at, event)
			_, err := Restore("/backup", "/again", o, "a test")
			hit := d.Ops() > at
			if err != nil && !hit {
				t.Fatal(err)
			}
			d.Crash()
			o.FS, o.Create = d.FS(), false
			l, err = Open("/again", o)
			if errors.Is(err, ErrNoLedger) {
				none++
				if _, err := Restore("/backup", "/again", o, "a test"); err != nil {
					t.Fatalf("event %d at operation %d: once more: %v", event, k, err)
				}
			} else if err != nil {
				t.Fatalf("event %d at operation %d: %v", event, k, err)
			} else if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			l = restored(t, "/again", o)
			if got := entriesOf(t, l, keys); !reflect.DeepEqual(got, want) {
				t.Fatalf("event %d at operation %d: another state", event, k)
			}
			if d, err := l.Accept(context.Background(), shelfKey("never seen"), Input{}); err != nil || d.Granted || d.State != journal.InDoubt {
				t.Fatalf("an unknown key of a restored ledger: %+v, %v", d, err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if !hit {
				break
			}
			cuts++
		}
	}
	if cuts < 60 || none < 30 {
		t.Errorf("%d events, %d left no ledger", cuts, none)
	}
}

// TestBackupGoesOn: what a backup has already is not written again, unless it is damaged.
func TestBackupGoesOn(t *testing.T) {
	d, o, l := grown(t, wal.StoreDirect, 400)
	first, err := Backup("/state", "/backup", o)
	if err != nil {
		t.Fatal(err)
	}
	if err := advance(l, 1); err != nil {
		t.Fatal(err)
	}
	inodes := func() map[string]bool {
		there, err := o.FS.ReadDir("/backup/files")
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		for _, e := range there {
			names[e.Name()] = true
		}
		return names
	}
	before := inodes()
	ops := d.Ops()
	second, err := Backup("/state", "/backup", o)
	if err != nil {
		t.Fatal(err)
	}
	written, fresh := d.Ops()-ops, 0
	for name := range inodes() {
		if !before[name] {
			fresh++
		}
	}
	if fresh != 1 || len(second.Files) < 5 || second.LSN <= first.LSN {
		t.Errorf("%d contents of %d are new, in %d operations: %+v", fresh, len(second.Files), written, second)
	}
	rotten := second.Files[len(second.Files)-1]
	if err := durable.WriteFile(o.FS, contentPath("/backup", rotten), []byte("rot")); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore("/backup", "/again", o, "a test"); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), rotten.SHA256) {
		t.Errorf("a damaged backup is restored: %v", err)
	}
	if _, err := Open("/again", Options{FS: o.FS}); !errors.Is(err, ErrNoLedger) {
		t.Errorf("what a failed restoration left opens: %v", err)
	}
	if _, err := Backup("/state", "/backup", o); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore("/backup", "/again", o, "a test"); err != nil {
		t.Errorf("after the next backup: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestBackupRefuses what would lose a backup or a ledger.
func TestBackupRefuses(t *testing.T) {
	_, o, l := grown(t, wal.StoreDirect, 60)
	old, err := Backup("/state", "/old", o)
	if err != nil {
		t.Fatal(err)
	}
	if err := advance(l, 3); err != nil {
		t.Fatal(err)
	}
	if _, err := Backup("/state", "/backup", o); err != nil {
		t.Fatal(err)
	}
	other, err := Open("/other", o)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []*Embedded{l, other} {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(what string, err error, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	backup := func(dir, to string) error { _, err := Backup(dir, to, o); return err }
	restore := func(from, dir string) error { _, err := Restore(from, dir, o, "a test"); return err }
	refused("into the ledger", backup("/state", "/state/backup"), ErrExists)
	refused("onto the ledger", backup("/state", "/state"), ErrExists)
	refused("onto another ledger", backup("/state", "/other"), ErrExists)
	refused("over another ledger's", backup("/other", "/backup"), ErrExists)
	refused("of no ledger", backup("/backup", "/nowhere"), ErrNoLedger)
	refused("restore over a ledger", restore("/backup", "/other"), ErrExists)
	refused("restore onto itself", restore("/backup", "/backup"), ErrNoLedger)
	refused("restore from a ledger", restore("/state", "/again"), fs.ErrNotExist)
	_, err = Open("/backup", o)
	refused("open a backup", err, ErrNoLedger)
	if !strings.Contains(err.Error(), "oncelog restore") {
		t.Error(err)
	}
	// A ledger that was restored from an old backup must not take the place of a
	// newer one.
	if err := restore("/old", "/again"); err != nil {
		t.Fatal(err)
	}
	m, err := readManifest(o.FS, "/backup")
	if err != nil || m.LSN != old.LSN+1 {
		t.Fatalf("%+v, %v", m, err)
	}
	m.LSN += 100
	if err := durable.WriteFile(o.FS, "/backup/BACKUP", m.encode()); err != nil {
		t.Fatal(err)
	}
	refused("over a newer one", backup("/again", "/backup"), ErrExists)
	refused("with a false manifest", restore("/backup", "/third"), ErrCorrupt)
	// Rot in the ledger is not copied.
	files, err := snapshot.List(o.FS, "/state/snapshots")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if err := durable.WriteFile(o.FS, f.Path, []byte("rot")); err != nil {
			t.Fatal(err)
		}
	}
	refused("of a damaged ledger", backup("/state", "/fourth"), ErrCorrupt)
}

// TestManifest: BACKUP is what encode wrote, or refused.
func TestManifest(t *testing.T) {
	d := simdisk.New(rand.New(rand.NewPCG(1, 1)))
	sum := strings.Repeat("ab", 32)
	good := Manifest{Version: 1, Ledger: strings.Repeat("0", 32), Files: []BackupFile{
		{"FORMAT", 1, sum}, {"wal/00000000000000000001", 2, sum}, {"snapshots/base.snap", 3, sum}}}
	if err := d.FS().Mkdir("/b"); err != nil {
		t.Fatal(err)
	}
	read := func(b []byte) error {
		if err := durable.WriteFile(d.FS(), "/b/BACKUP", b); err != nil {
			t.Fatal(err)
		}
		_, err := readManifest(d.FS(), "/b")
		return err
	}
	if err := read(good.encode()); err != nil || good.Bytes() != 6 {
		t.Fatal(err)
	}
	for i, b := range good.encode() {
		bad := good.encode()
		bad[i] = b ^ 1
		if err := read(bad); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("byte %d flipped: %v", i, err)
		}
	}
	for _, name := range []string{"", "FORMAT", "wal/", "wal/..", "../FORMAT", "/etc/passwd", "wal/a/b", "quarantine/a", "durable", "snapshots/../../a"} {
		bad := good
		bad.Files = append(append([]BackupFile(nil), good.Files...), BackupFile{name, 1, sum})
		if err := read(bad.encode()); !errors.Is(err, ErrCorrupt) {
			t.Errorf("a file %q: %v", name, err)
		}
	}
	for what, change := range map[string]func(*Manifest){
		"another version": func(m *Manifest) { m.Version = 2 },
		"no FORMAT":       func(m *Manifest) { m.Files = m.Files[1:] },
		"no log":          func(m *Manifest) { m.Files = []BackupFile{m.Files[0], m.Files[2]} },
		"a short digest":  func(m *Manifest) { m.Files = []BackupFile{m.Files[0], {"wal/1", 1, "abcd"}} },
		"negative bytes":  func(m *Manifest) { m.Files = []BackupFile{m.Files[0], {"wal/1", -1, sum}} },
	} {
		bad := good
		change(&bad)
		if err := read(bad.encode()); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
