package wal

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/oncelog/oncelog/internal/durable"
)

// A StoreKind names a segment store. It is written into a ledger's FORMAT.
type StoreKind string

// The segment stores.
const (
	// StoreTidwall keeps blocks as entries of github.com/tidwall/wal.
	StoreTidwall StoreKind = "tidwall"
	// StoreDirect keeps blocks in preallocated segments that are overwritten in
	// place and recycled.
	StoreDirect StoreKind = "direct"
)

// A store appends blocks to segment files. One goroutine at a time calls append,
// sync and close; dropBefore and stat may run beside them.
type store interface {
	// append writes one block behind the last. frame is framePrefix bytes for the
	// store to fill, then the block. It is durable once sync has returned nil, its
	// segment's name included.
	append(frame []byte, first, last uint64) error
	sync() error
	// dropBefore removes segments all of whose records are before an LSN, but for
	// the last, oldest first, each durably before the next.
	dropBefore(lsn uint64) error
	// list is the segments that hold blocks, oldest first.
	list() []segment
	close() error
}

// framePrefix is the room in front of a block for a store's own bytes.
const framePrefix = 8

// A layout is how a store puts blocks into segment files.
type layout interface {
	// number reads a segment's number off a file name; false for other files.
	number(name string) (uint64, bool)
	// follows reports whether a segment of that number comes right after s.
	follows(s *segment, number uint64) bool
	// head reads a segment's own header: where its first frame is, or why it is
	// not sound.
	head(id [16]byte, data []byte, s *segment) (off int, reason string)
	// frame says where the block of the frame at off begins, and how long the
	// frame says that it is, -1 for no word; or that the frames end at off.
	frame(data []byte, off int, s *segment) (block, length int, end bool)
	// prefix is how many bytes a frame has in front of a block of a size.
	prefix(size int) int
	// sealed reports that a segment's file is only made once the one before is
	// synced in full.
	sealed() bool
	// tail is the whole content that the last segment is to have: what is sound,
	// and what else the store wants in the file.
	tail(data []byte, s *segment, segmentSize int64) []byte
	// open opens the segments for appending.
	open(o *Options, found []segment) (store, error)
}

// segment is one file of a log.
type segment struct {
	path   string
	number uint64 // what its name says: of its first block (tidwall) or of the segment (direct)
	nonce  uint64 // direct: of this life of the file
	end    int    // bytes that are sound
	blocks uint64
	first  uint64 // LSN of its first record; 0 for a segment without blocks
	last   uint64
}

func layoutOf(kind StoreKind) (layout, error) {
	switch kind {
	case StoreTidwall:
		return tidwallLayout{}, nil
	case StoreDirect:
		return directLayout{}, nil
	}
	return nil, fmt.Errorf("wal: unknown segment store %q, want %q or %q", kind, StoreTidwall, StoreDirect)
}

// listSegments finds the segment files of a directory, in log order, and the
// temporary files that a crash left.
func listSegments(fsys durable.FS, dir string, lay layout) (found []segment, leftovers []string, err error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if n, ok := lay.number(e.Name()); ok {
			found = append(found, segment{path: path, number: n})
		} else if filepath.Ext(path) == durable.TempSuffix {
			leftovers = append(leftovers, path)
		}
	}
	slices.SortFunc(found, func(a, b segment) int {
		if a.number < b.number {
			return -1
		}
		return 1
	})
	return found, leftovers, nil
}

// droppable is how many of the oldest segments hold only records before an LSN.
// The last block stays, and with it the LSN and the checksum that the next one
// follows on: a store may have made an empty segment behind it already.
func droppable(segments []segment, lsn uint64) int {
	last := len(segments) - 1
	for last > 0 && segments[last].blocks == 0 {
		last--
	}
	n := 0
	for n < last && segments[n].last < lsn {
		n++
	}
	return n
}
