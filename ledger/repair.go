package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/oncelog/oncelog/internal/durable"
	"github.com/oncelog/oncelog/snapshot"
	"github.com/oncelog/oncelog/wal"
)

// Loss says what a repair gave up.
type Loss struct {
	// LSN up to which the log's records are left; of the snapshot that takes
	// their place where that reaches further.
	LSN uint64
	// Restarted says that nothing of the log was of use: it begins anew behind
	// the snapshot.
	Restarted bool
}

// Repair accepts that a damaged ledger has lost records, which Open never does: it
// cuts the log back to what is sound before the first damage, or begins it anew
// behind the newest sound snapshot where that reaches further, and opens the
// ledger with an amnesia that has begun: a key that it does not know is in doubt
// from then on. What is cut goes to quarantine. It refuses where neither log nor
// snapshots tell what happened from the beginning on. The reason says who decided
// and why. After a repair that is cut off, or that fails, nothing but another one
// opens the ledger.
func Repair(dir string, o Options, reason string) (*Embedded, Loss, error) {
	o = o.withDefaults()
	lock, err := takeLock(dir, o, false)
	if err != nil {
		return nil, Loss{}, err
	}
	begun := filepath.Join(dir, repairName)
	if err := durable.WriteFile(o.FS, begun, []byte(reason+"\n")); err != nil {
		return nil, Loss{}, errors.Join(fmt.Errorf("ledger: %w", err), lock.Close())
	}
	loss, err := repair(dir, o, reason)
	if err != nil {
		return nil, loss, errors.Join(err, lock.Close())
	}
	l, err := open(dir, o, lock)
	if err != nil {
		return nil, loss, err
	}
	err = l.SetAmnesia(true, reason)
	if err == nil {
		err = durable.Remove(o.FS, begun)
	}
	if err != nil {
		return nil, loss, errors.Join(fmt.Errorf("ledger: repair: %w", err), l.Close())
	}
	return l, loss, nil
}

func repair(dir string, o Options, reason string) (Loss, error) {
	f, err := readFormat(o.FS, dir)
	if err != nil {
		return Loss{}, err
	}
	log := logOptions(dir, f, o)
	last, err := wal.Cut(log)
	if err != nil {
		return Loss{}, err
	}
	newest, err := newestSound(dir, o, f)
	if err != nil {
		return Loss{}, err
	}
	if newest.Header.LSN <= last {
		return Loss{LSN: last}, nil
	}
	// The log no longer reaches the snapshot.
	loss := Loss{LSN: newest.Header.LSN, Restarted: true}
	if err := wal.Abandon(log); err != nil {
		return loss, err
	}
	fresh, err := wal.Create(log, newest.Header.LSN, epochRecord(newest.Header.Epoch+1, 0, clip("repaired: "+reason)))
	if err != nil {
		return loss, err
	}
	return loss, fresh.Close()
}

// newestSound is the last snapshot of the sound chain that reaches furthest; the zero
// Info for none. What reaches further goes to quarantine: LSNs behind it are given
// again, and a delta of the lost records must not follow on new ones.
func newestSound(dir string, o Options, f format) (snapshot.Info, error) {
	all, err := snapshot.List(o.FS, filepath.Join(dir, snapshotsName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return snapshot.Info{}, fmt.Errorf("ledger: %w", err)
	}
	left := slices.Clone(all)
	for {
		newest, damaged, err := lastOf(snapshot.Newest(left), o, f)
		if errors.Is(err, snapshot.ErrCorrupt) {
			left = slices.DeleteFunc(left, func(s snapshot.File) bool { return s == damaged })
			continue
		}
		for _, s := range all {
			if err == nil && s.LSN > newest.Header.LSN {
				err = quarantine(o.FS, dir, s.Path)
			}
		}
		return newest, err
	}
}

// lastOf reads a whole chain: its last snapshot, or the one that cannot be read.
func lastOf(chain snapshot.Chain, o Options, f format) (last snapshot.Info, failed snapshot.File, err error) {
	for _, s := range chain {
		if last, err = snapshot.Verify(o.FS, s.Path, f.id()); err != nil {
			return last, s, err
		}
	}
	return last, snapshot.File{}, nil
}
