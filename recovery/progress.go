package recovery

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/oncelog/oncelog/snapshot"
)

// Progress is how far something that reads or copies a ledger has got.
type Progress struct {
	Done, Total int64  // bytes; Total may grow a little while the ledger is in use
	Entries     uint64 // loaded from snapshots
	Records     uint64 // replayed from the log
}

// tracker tells how far a recovery has got.
type tracker struct {
	tell func(Progress) // may be nil
	now  Progress
}

// begin starts over with a chain and the log behind it.
func (t *tracker) begin(o Options, chain snapshot.Chain) error {
	if t.tell == nil {
		return nil
	}
	t.now = Progress{}
	paths := make([]string, 0, len(chain))
	for _, f := range chain {
		paths = append(paths, f.Path)
	}
	log, err := o.FS.ReadDir(o.Log.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range log {
		paths = append(paths, filepath.Join(o.Log.Dir, e.Name()))
	}
	for _, path := range paths {
		info, err := o.FS.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // its owner has removed it meanwhile; that will show
		}
		if err != nil {
			return err
		}
		t.now.Total += info.Size()
	}
	t.tell(t.now)
	return nil
}

func (t *tracker) entries(bytes int64, entries uint64) {
	t.now.Entries += entries
	t.add(bytes)
}

// log takes note of a segment, and of how many records were replayed by its end.
func (t *tracker) log(bytes int64, records uint64) {
	t.now.Records = records
	t.add(bytes)
}

func (t *tracker) add(bytes int64) {
	if t.tell == nil {
		return
	}
	t.now.Done += bytes
	t.now.Total = max(t.now.Total, t.now.Done)
	t.tell(t.now)
}
