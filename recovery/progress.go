package recovery

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/oncelog/oncelog/internal/durable"
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
	log  int64 // bytes of the log, Done and not
	read int64 // of them
}

// begin starts over with a chain and the log behind it.
func (t *tracker) begin(o Options, chain snapshot.Chain) error {
	snapshots := make([]string, 0, len(chain))
	for _, f := range chain {
		snapshots = append(snapshots, f.Path)
	}
	log, err := o.FS.ReadDir(o.Log.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	segments := make([]string, 0, len(log))
	for _, e := range log {
		segments = append(segments, filepath.Join(o.Log.Dir, e.Name()))
	}
	t.now, t.read = Progress{}, 0
	if t.log, err = sizes(o.FS, segments); err != nil {
		return err
	}
	if t.now.Total, err = sizes(o.FS, snapshots); err != nil {
		return err
	}
	t.now.Total += t.log
	t.add(0)
	return nil
}

func sizes(fsys durable.FS, paths []string) (total int64, err error) {
	for _, path := range paths {
		info, err := fsys.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // its owner has removed it meanwhile; that will show
		}
		if err != nil {
			return 0, err
		}
		total += info.Size()
	}
	return total, nil
}

func (t *tracker) entries(bytes int64, entries uint64) {
	t.now.Entries += entries
	t.add(bytes)
}

// segment takes note of one, and of how many records were replayed by its end. It says
// how much of the log was read.
func (t *tracker) segment(bytes int64, records uint64) float64 {
	t.now.Records = records
	t.read += bytes
	t.add(bytes)
	return float64(t.read) / float64(max(t.log, t.read, 1))
}

func (t *tracker) add(bytes int64) {
	t.now.Done += bytes
	t.now.Total = max(t.now.Total, t.now.Done)
	if t.tell != nil {
		t.tell(t.now)
	}
}
