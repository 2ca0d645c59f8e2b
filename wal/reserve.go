package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"sync"
	"time"

	"github.com/oncelog/oncelog/internal/durable"
)

// minBallast is the least ballast in bytes that is kept while the disk has room.
// With larger segments it is half a segment.
const minBallast = 64 << 10

// reserve is room that a full disk cannot take away: a file of allocated blocks
// that is given up, piece by piece, when what was promised has to be written.
type reserve struct {
	fs    durable.FS
	dir   string
	file  durable.File // nil where there is no ballast file
	least int64        // bytes kept while the disk has room
	piece int64        // bytes by which it is given up when the disk is full

	sampled time.Time // when the disk last had plenty; makeRoom's

	mu       sync.Mutex // guards the fields below
	size     int64      // bytes of ballast now
	promised int64      // to outcomes that are still to come
}

// openReserve opens or makes the ballast. A disk that is full is no error: there
// is then no ballast, and no new promise either.
func openReserve(fsys durable.FS, path, dir string, segmentSize int64) (*reserve, error) {
	least := max(segmentSize/2, minBallast)
	r := &reserve{fs: fsys, dir: dir, least: least, piece: least / 16}
	if path == "" {
		return r, nil
	}
	f, err := fsys.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = fsys.Create(path)
	}
	if err != nil {
		if durable.IsFull(err) {
			return r, nil
		}
		return nil, fmt.Errorf("wal: reserve: %w", err)
	}
	r.file = f
	if r.size, err = f.Size(); err != nil {
		return nil, errors.Join(fmt.Errorf("wal: reserve: %w", err), f.Close())
	}
	if err := r.grow(r.least); err != nil && !durable.IsFull(err) {
		return nil, errors.Join(fmt.Errorf("wal: reserve: %w", err), f.Close())
	}
	return r, nil
}

// giveUpBallast frees all of the ballast of a log that is not open.
func giveUpBallast(o *Options) error {
	f, err := o.FS.Open(o.Reserve)
	if err != nil {
		return fmt.Errorf("wal: reserve: %w", err)
	}
	if err := errors.Join(f.Truncate(0), f.Close()); err != nil {
		return fmt.Errorf("wal: reserve: %w", err)
	}
	return nil
}

// slack is the free space in bytes that is wanted beyond what is to be written.
func (r *reserve) slack() int64 { return r.piece / 4 }

func (r *reserve) grow(size int64) error {
	if r.size >= size {
		return nil
	}
	if err := r.file.Allocate(size); err != nil {
		return err
	}
	r.size = size
	return nil
}

// promise sets room aside, or gives some back where n is negative. It fails with
// ErrFull where the disk cannot keep the promise.
func (r *reserve) promise(n int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n <= 0 {
		r.promised = max(r.promised+n, 0)
		return nil
	}
	if r.file != nil {
		want := r.promised + n + r.piece
		if r.size < max(r.least, want) {
			step := r.least / 4
			if err := r.grow(max(r.least, (want+step-1)/step*step)); durable.IsFull(err) {
				return r.full(n)
			} else if err != nil {
				return fmt.Errorf("wal: reserve: %w", err)
			}
			if free, err := r.fs.Free(r.dir); err == nil && free >= 0 && free < r.slack() {
				return r.full(n)
			}
		}
	}
	r.promised += n
	return nil
}

func (r *reserve) full(n int64) error {
	free := "an unknown number of"
	if n, err := r.fs.Free(r.dir); err == nil && n >= 0 {
		free = strconv.FormatInt(n, 10)
	}
	return fmt.Errorf("wal: no room to promise %d bytes beside %d that are promised, %s bytes are free; make room on the disk of %s: %w",
		n, r.promised, free, r.dir, ErrFull)
}

// While a disk has plenty of free bytes, which is more than anybody writes in
// sampleEvery, it is asked only that often.
const (
	plenty      = 256 << 20
	sampleEvery = 100 * time.Millisecond
)

// makeRoom gives up ballast until n bytes can be written, or none is left. One
// goroutine at a time calls it.
func (r *reserve) makeRoom(n int) error {
	if r.file == nil || time.Since(r.sampled) < sampleEvery {
		return nil
	}
	for {
		free, err := r.fs.Free(r.dir)
		if err != nil {
			return fmt.Errorf("wal: %w", err)
		}
		if free > plenty {
			r.sampled = time.Now()
		}
		if free < 0 || free >= int64(n)+r.slack() {
			return nil
		}
		if left, err := r.give(); left == 0 || err != nil {
			return err
		}
	}
}

// give gives up one piece of the ballast and says what is left.
func (r *reserve) give() (left int64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.size == 0 {
		return 0, nil
	}
	r.size = max(r.size-r.piece, 0)
	if err := r.file.Truncate(r.size); err != nil {
		return 0, fmt.Errorf("wal: reserve: %w", err)
	}
	return r.size, nil
}

// outstanding is what is promised and not given back, in bytes.
func (r *reserve) outstanding() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.promised
}

func (r *reserve) close() error {
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}
