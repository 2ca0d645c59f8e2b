package load

import (
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/oncelog/oncelog/internal/durable"
)

// A Commit makes bytes durable, those of a number of records. It is not for
// concurrent use.
type Commit func(b []byte, records int) error

// Limits are what a disk allows: one write and one sync for each commit, with nothing
// besides. Opening one makes a file in a directory.
var Limits = map[string]func(fsys durable.FS, dir string) (Commit, func() error, error){
	"overwrite": overwrite,
	"append":    grow,
}

// Scratch makes a directory inside another, for files that remove removes with it.
func Scratch(in string) (dir string, remove func() error, err error) {
	dir, err = os.MkdirTemp(in, "oncelog-bench-")
	return dir, func() error { return os.RemoveAll(dir) }, err
}

// limitSize is the size of a file that is overwritten, and at which one that grows is
// begun anew, outside of what is measured as far as that goes: once in limitSize bytes.
const limitSize = 8 << 20

// overwrite writes over the blocks of one file, again and again, which changes no
// metadata.
func overwrite(fsys durable.FS, dir string) (Commit, func() error, error) {
	f, err := fsys.Create(filepath.Join(dir, "overwrite"))
	if err != nil {
		return nil, nil, err
	}
	zeros := make([]byte, limitSize)
	if _, err = f.WriteAt(zeros, 0); err == nil {
		err = f.Sync()
	}
	if err != nil {
		return nil, nil, err
	}
	at := int64(0)
	return func(b []byte, _ int) error {
		if at+int64(len(b)) > limitSize {
			at = 0
		}
		if _, err := f.WriteAt(b, at); err != nil {
			return err
		}
		at += int64(len(b))
		return f.Datasync()
	}, f.Close, nil
}

// grow appends to one file.
func grow(fsys durable.FS, dir string) (Commit, func() error, error) {
	f, err := fsys.Create(filepath.Join(dir, "append"))
	if err != nil {
		return nil, nil, err
	}
	at := int64(0)
	return func(b []byte, _ int) error {
		if at > limitSize {
			if err := f.Truncate(0); err != nil {
				return err
			}
			at = 0
		}
		if _, err := f.WriteAt(b, at); err != nil {
			return err
		}
		at += int64(len(b))
		return f.Datasync()
	}, f.Close, nil
}

// A Group puts a plain group commit in front of a Commit: while one runs, records
// queue up for the next. Its methods may be called concurrently.
type Group struct {
	commit Commit

	mu      sync.Mutex // guards the fields below
	filling *block
	leading bool
	crowded bool // the last commit had more than one caller
	spare   []byte
}

type block struct {
	b       []byte
	records int
	lead    chan struct{} // asks one of its callers to commit it
	done    chan struct{} // closed once it is durable, or err is set
	err     error
}

// NewGroup returns a group in front of a commit.
func NewGroup(commit Commit) *Group { return &Group{commit: commit} }

// Append returns once the record is durable.
func (g *Group) Append(record []byte) error {
	g.mu.Lock()
	mine := g.filling
	if mine == nil {
		mine = &block{b: g.spare[:0], lead: make(chan struct{}, 1), done: make(chan struct{})}
		g.filling, g.spare = mine, nil
	}
	mine.b = append(mine.b, record...)
	mine.records++
	if g.leading {
		g.mu.Unlock()
		select {
		case <-mine.done:
			return mine.err
		case <-mine.lead:
		}
		g.mu.Lock()
	}
	g.leading = true
	if g.crowded {
		// Those that were just woken are about to append again.
		g.mu.Unlock()
		runtime.Gosched()
		g.mu.Lock()
	}
	g.filling = nil
	g.crowded = mine.records > 1
	g.mu.Unlock()
	mine.err = g.commit(mine.b, mine.records)
	g.mu.Lock()
	g.spare = mine.b
	g.leading = false
	if g.filling != nil {
		g.leading = true
		g.filling.lead <- struct{}{}
	}
	g.mu.Unlock()
	close(mine.done)
	return mine.err
}
