package wal

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"

	"github.com/oncelog/oncelog/internal/durable"
)

// scanned is what a scan found.
type scanned struct {
	segments  []segment
	leftovers []string // temporary files
	first     uint64   // LSN of the first record
	last      uint64   // LSN of the last record of the last sound block
	checksum  uint64   // of that block
	blocks    uint64
	bytes     int64 // of sound blocks with their frames
	tear      *tear
}

// A tear is the first place at which no sound block follows although bytes do.
type tear struct {
	segment int // position in segments
	offset  int
	bytes   []byte // from there on
	reason  string
}

// scanner reads the segments of a log one after another.
type scanner struct {
	fs    durable.FS
	dir   string
	id    [16]byte
	lay   layout
	visit func(h header, payload []byte) error  // of each sound block; may be nil
	read  func(seg *segment, data []byte) error // of each segment, once its blocks were visited; may be nil
	reuse bool                                  // see Options.Reuse
	found scanned
}

// run scans the whole log. Anything that is not sound, but for bytes at the end
// that no sound block follows, is a CorruptError.
func (s *scanner) run() (*scanned, error) {
	var err error
	f := &s.found
	f.segments, f.leftovers, err = listSegments(s.fs, s.dir, s.lay)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, s.corrupt(s.dir, 0, 1, "the log's directory is missing")
	}
	if err != nil {
		return nil, fmt.Errorf("wal: %w", err)
	}
	var room [2][]byte
	for i := range f.segments {
		seg := &f.segments[i]
		data, err := durable.ReadFileInto(s.fs, seg.path, room[i%2])
		if err != nil {
			return nil, fmt.Errorf("wal: %w", err)
		}
		if s.reuse {
			room[i%2] = data
		}
		if err := s.segment(i, data); err != nil {
			return nil, err
		}
		if s.read != nil {
			if err := s.read(seg, data); err != nil {
				return nil, err
			}
		}
	}
	if f.blocks == 0 {
		return nil, s.corrupt(s.dir, 0, 1, "it holds no sound block")
	}
	return f, nil
}

// segment reads one segment's blocks. Once the log is torn it only looks for
// proof that it is corrupt.
func (s *scanner) segment(i int, data []byte) error {
	f := &s.found
	seg := &f.segments[i]
	// Behind a tear too, unless its segment was sealed: that is found below.
	if i > 0 && (f.tear == nil || !s.lay.sealed()) && !s.lay.follows(&f.segments[i-1], seg.number) {
		return s.corrupt(seg.path, 0, f.last+1, fmt.Sprintf("segment %d does not follow segment %d: one is missing, or damaged, or one too many",
			seg.number, f.segments[i-1].number))
	}
	off, reason := s.lay.head(s.id, data, seg)
	if reason != "" {
		return s.corrupt(seg.path, 0, f.last+1, reason)
	}
	if f.tear != nil {
		seg.end = off
		return s.provesCorrupt(i, data, off)
	}
	for {
		block, length, end := s.lay.frame(data, off, seg)
		if end {
			seg.end = off
			return s.provesCorrupt(i, data, off)
		}
		h, reason := parseBlock(s.id, data[block:])
		if reason == "" {
			reason = s.unfit(h, length)
			if reason != "" && h.last() <= f.last {
				// Sound, of this ledger, and not where it belongs: no crash
				// leaves that.
				return s.corrupt(seg.path, off, f.last+1, reason)
			}
		}
		if reason != "" {
			seg.end = off
			f.tear = &tear{segment: i, offset: off, bytes: bytes.Clone(data[off:]), reason: reason}
			return s.provesCorrupt(i, data, off)
		}
		if err := s.take(seg, h, data[block:block+h.size()]); err != nil {
			return err
		}
		f.bytes += int64(block + h.size() - off)
		off = block + h.size()
		seg.end = off
	}
}

// unfit says why a sound block is not the one that is due.
func (s *scanner) unfit(h header, length int) string {
	f := &s.found
	switch {
	case length >= 0 && length != h.size():
		return fmt.Sprintf("a block of %d bytes in a frame of %d", h.size(), length)
	case f.blocks == 0 && h.first == 1 && h.previous != 0:
		return fmt.Sprintf("the first block names %016x as the one before", h.previous)
	case f.blocks == 0:
		return ""
	case h.first != f.last+1:
		return fmt.Sprintf("a block with LSN %d", h.first)
	case h.previous != f.checksum:
		return fmt.Sprintf("a block that follows %016x, not %016x", h.previous, f.checksum)
	}
	return ""
}

func (s *scanner) take(seg *segment, h header, block []byte) error {
	f := &s.found
	if s.visit != nil {
		if err := s.visit(h, block[headerSize:]); err != nil {
			return err
		}
	}
	if f.blocks == 0 {
		f.first = h.first
	}
	if seg.blocks == 0 {
		seg.first = h.first
	}
	f.last, f.checksum = h.last(), h.checksum
	seg.last = h.last()
	f.blocks++
	seg.blocks++
	return nil
}

// provesCorrupt looks, behind the place where no block follows, for a sound block
// of records that are still to come: it proves that what should be before it was
// acknowledged.
func (s *scanner) provesCorrupt(i int, data []byte, from int) error {
	f := &s.found
	if t := f.tear; t != nil && t.segment < i && s.lay.sealed() {
		return s.corruptAt(t, fmt.Sprintf("%s; segment %s was begun after it", t.reason, f.segments[i].path))
	}
	for off := from; ; off++ {
		next := bytes.Index(data[off:], magic[:])
		if next < 0 {
			return nil
		}
		off += next
		if h, reason := parseBlock(s.id, data[off:]); reason == "" && h.last() > f.last && !s.tornPrefix(h, off, from) {
			at := f.tear
			if at == nil {
				at = &tear{segment: i, offset: from, reason: "no block"}
			}
			return s.corruptAt(at, fmt.Sprintf("%s; a sound block with LSN %d follows at byte %d of %s",
				at.reason, h.first, off, f.segments[i].path))
		}
	}
}

// sector is what a power cut leaves old or new as a whole.
const sector = 512

// tornPrefix reports whether a sound block is the one that is due, and only its frame's
// prefix is not: a power cut in the middle of its write leaves that where the two are
// in different sectors. Nothing is missing before it, so it proves nothing; and it was
// not acknowledged, or both sectors would be there.
func (s *scanner) tornPrefix(h header, off, from int) bool {
	n := s.lay.prefix(h.size())
	return s.unfit(h, -1) == "" && off == from+n && off%sector < n
}

func (s *scanner) corruptAt(t *tear, reason string) error {
	return s.corrupt(s.found.segments[t.segment].path, t.offset, s.found.last+1, reason)
}

func (s *scanner) corrupt(path string, off int, lsn uint64, reason string) error {
	return &CorruptError{Path: path, Offset: int64(off), LSN: lsn, Reason: reason}
}
