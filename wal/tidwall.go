package wal

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	tidwall "github.com/tidwall/wal"

	"github.com/oncelog/oncelog/internal/durable"
)

// tidwallLayout is the layout of github.com/tidwall/wal in its binary format. The
// dependency appends and rotates; it is never asked to read, to repair or to
// truncate, for the reasons that quirks_test.go pins down.
type tidwallLayout struct{}

const tidwallDigits = 20

func (tidwallLayout) number(name string) (uint64, bool) {
	if len(name) != tidwallDigits {
		return 0, false
	}
	n, err := strconv.ParseUint(name, 10, 64)
	return n, err == nil && n > 0
}

func (tidwallLayout) follows(s *segment, number uint64) bool { return number == s.number+s.blocks }

func (tidwallLayout) head([16]byte, []byte, *segment) (int, string) { return 0, "" }

func (tidwallLayout) frame(data []byte, off int, _ *segment) (block, length int, end bool) {
	if off == len(data) {
		return off, 0, true
	}
	n, w := binary.Uvarint(data[off:])
	if w <= 0 || n > uint64(headerSize+maxPayload) {
		return len(data), -1, false
	}
	return off + w, int(n), false
}

func (tidwallLayout) prefix(size int) int { return uvarintLen(uint64(size)) }

// sealed: the dependency syncs and closes a segment before it makes the next.
func (tidwallLayout) sealed() bool { return true }

func (tidwallLayout) tail(data []byte, s *segment, _ int64) []byte { return data[:s.end] }

func (tidwallLayout) open(o *Options, found []segment) (store, error) {
	// A fresh Options each time: the dependency writes into what it is given.
	log, err := tidwall.Open(o.Dir, &tidwall.Options{
		NoSync: true, AllowEmpty: true, SegmentSize: int(o.SegmentSize), SegmentCacheSize: 1,
		DirPerms: 0o700, FilePerms: 0o600,
	})
	if err != nil {
		return nil, fmt.Errorf("wal: tidwall/wal: %s: %w", o.Dir, err)
	}
	s := &tidwallStore{fs: o.FS, dir: o.Dir, log: log, segmentSize: o.SegmentSize, segments: slices.Clone(found)}
	if len(s.segments) == 0 {
		s.begin(1)
	}
	tail := &s.segments[len(s.segments)-1]
	s.next = tail.number + tail.blocks
	if err := o.FS.SyncDir(o.Dir); err != nil {
		return nil, fmt.Errorf("wal: %w", err)
	}
	return s, nil
}

// tidwallStore appends through the dependency and does its own syncs and
// bookkeeping.
type tidwallStore struct {
	fs          durable.FS
	dir         string
	log         *tidwall.Log
	segmentSize int64
	next        uint64 // number of the next block
	rotated     bool   // a segment was made whose name is not durable

	mu       sync.Mutex // guards segments
	segments []segment  // oldest first; append is the only one to add
}

func (s *tidwallStore) begin(number uint64) {
	s.segments = append(s.segments, segment{
		path: filepath.Join(s.dir, fmt.Sprintf("%0*d", tidwallDigits, number)), number: number})
}

func (s *tidwallStore) append(frame []byte, first, last uint64) error {
	block := frame[framePrefix:]
	if int64(s.tailSize()) > s.segmentSize {
		// Opened with a smaller segment size: the dependency rotates first.
		s.mu.Lock()
		s.begin(s.next)
		s.rotated = true
		s.mu.Unlock()
	}
	if err := s.log.Write(s.next, block); err != nil {
		return fmt.Errorf("wal: tidwall/wal: block %d: %w", s.next, err)
	}
	s.next++
	s.mu.Lock()
	defer s.mu.Unlock()
	tail := &s.segments[len(s.segments)-1]
	if tail.blocks == 0 {
		tail.first = first
	}
	tail.blocks++
	tail.last = last
	tail.end += uvarintLen(uint64(len(block))) + len(block)
	if int64(tail.end) >= s.segmentSize {
		// The dependency has synced and closed this segment and made the next.
		s.begin(s.next)
		s.rotated = true
		// It keeps the old segment in memory for reads that never come.
		if err := s.log.ClearCache(); err != nil {
			return fmt.Errorf("wal: tidwall/wal: %w", err)
		}
	}
	return nil
}

func (s *tidwallStore) tailSize() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.segments[len(s.segments)-1].end
}

func uvarintLen(x uint64) int {
	n := 1
	for ; x >= 0x80; x >>= 7 {
		n++
	}
	return n
}

// sync makes the last block durable: its bytes, and its segment's name and that
// of the segment it made, if it did.
func (s *tidwallStore) sync() error {
	if err := s.log.Sync(); err != nil {
		return fmt.Errorf("wal: sync: %w", err)
	}
	if s.rotated {
		if err := s.fs.SyncDir(s.dir); err != nil {
			return fmt.Errorf("wal: sync: %w", err)
		}
		s.rotated = false
	}
	return nil
}

func (s *tidwallStore) dropBefore(lsn uint64) error {
	s.mu.Lock()
	old := slices.Clone(s.segments[:droppable(s.segments, lsn)])
	s.mu.Unlock()
	for _, seg := range old {
		if err := durable.Remove(s.fs, seg.path); err != nil {
			return fmt.Errorf("wal: %w", err)
		}
		s.mu.Lock()
		s.segments = s.segments[1:]
		s.mu.Unlock()
	}
	return nil
}

func (s *tidwallStore) list() []segment {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.segments)
}

func (s *tidwallStore) close() error {
	if err := s.log.Close(); err != nil {
		return fmt.Errorf("wal: tidwall/wal: close: %w", err)
	}
	return nil
}
