package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"

	"github.com/oncelog/oncelog/internal/durable"
)

// A Record is one record of the log.
type Record struct {
	LSN uint64
	// Data aliases a segment's bytes in memory. They do not change, but for
	// Options.Reuse; keeping one record keeps the whole segment.
	Data []byte
}

// errEnough ends a scan that has seen what it wanted.
var errEnough = errors.New("enough")

// Records yields the records from an LSN on, up to what was durable when it
// began, reading and checking the files again. Records that a truncation removes
// meanwhile end it with an error.
func (l *Log) Records(from uint64) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		to := l.Durable()
		for _, seg := range l.store.list() {
			if seg.blocks == 0 || seg.last < from {
				continue
			}
			if seg.first > to {
				return
			}
			err := l.segmentRecords(seg, from, to, yield)
			if errors.Is(err, errEnough) {
				return
			}
			if err != nil {
				yield(Record{}, err)
				return
			}
		}
	}
}

// segmentRecords yields one segment's records in [from, to].
func (l *Log) segmentRecords(seg segment, from, to uint64, yield func(Record, error) bool) error {
	data, err := durable.ReadFile(l.opts.FS, seg.path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("wal: records from LSN %d: truncated while they were read: %w", from, err)
	}
	if err != nil {
		return fmt.Errorf("wal: %w", err)
	}
	off, reason := l.layout.head(l.opts.ID, data, &seg)
	if reason != "" {
		return &CorruptError{Path: seg.path, LSN: seg.first, Reason: reason}
	}
	for due := seg.first; due <= min(to, seg.last); {
		block, _, end := l.layout.frame(data, off, &seg)
		if end {
			return &CorruptError{Path: seg.path, Offset: int64(off), LSN: due, Reason: "no block"}
		}
		h, reason := parseBlock(l.opts.ID, data[block:])
		if reason == "" && h.first != due {
			reason = fmt.Sprintf("a block with LSN %d", h.first)
		}
		if reason != "" {
			return &CorruptError{Path: seg.path, Offset: int64(off), LSN: due, Reason: reason}
		}
		if err := blockRecords(h, data[block+headerSize:block+h.size()], from, to, yield); err != nil {
			return err
		}
		off, due = block+h.size(), h.last()+1
	}
	return nil
}

// blockRecords yields a block's records in [from, to].
func blockRecords(h header, payload []byte, from, to uint64, yield func(Record, error) bool) error {
	for lsn := h.first; lsn <= h.last(); lsn++ {
		record, rest, ok := nextRecord(payload)
		if !ok {
			// The checksum is right: this is no damage, but not a block that
			// this package wrote.
			return fmt.Errorf("wal: the record with LSN %d does not fit its block: %w", lsn, ErrCorrupt)
		}
		payload = rest
		if lsn < from {
			continue
		}
		if lsn > to || !yield(Record{lsn, record}, nil) {
			return errEnough
		}
	}
	return nil
}

// Inspect reads and checks a whole log without changing anything, and calls
// visit, where it is not nil, for each record. The log may be in use: its owner's
// last writes then show as a torn tail, and its truncation as an error wrapping
// fs.ErrNotExist, after which Inspect may be called again. What is wrong is a
// [*CorruptError], or what visit returned.
func Inspect(o Options, visit func(Record) error) (*Report, error) {
	return inspect(o, scanner{visit: blockVisitor(visit, o.From), read: readProgress(o.Read), reuse: o.Reuse})
}

// A Segment is one file of a log, as a copy of the log needs it.
type Segment struct {
	Name  string // of the file in the log's directory
	First uint64 // LSN of its first record
	Last  uint64
	// Data is what is sound of the file, from its beginning on: its header, if it
	// has one, and whole blocks.
	Data []byte
}

// Segments is Inspect for who copies the log: it calls visit with each segment that
// holds records, oldest first. What it has given is a log that Open accepts, with the
// same ID and Store and no watermark, once it has returned nil.
func Segments(o Options, visit func(Segment) error) (*Report, error) {
	return inspect(o, scanner{read: func(seg *segment, data []byte) error {
		if seg.blocks == 0 {
			return nil
		}
		return visit(Segment{filepath.Base(seg.path), seg.first, seg.last, data[:seg.end]})
	}})
}

// inspect runs a scanner, of which the hooks are set.
func inspect(o Options, s scanner) (*Report, error) {
	var err error
	if s.lay, err = layoutOf(o.Store); err != nil {
		return nil, err
	}
	// The watermark comes first: read later, it could name what was written
	// after the segments were read.
	m, err := readMark(o.FS, o.Watermark, o.ID)
	if err != nil {
		return nil, err
	}
	s.fs, s.dir, s.id = o.FS, o.Dir, o.ID
	found, err := s.run()
	if err != nil {
		return nil, err
	}
	if err := checkMark(&o, found, m); err != nil {
		return nil, err
	}
	return newReport(found, m), nil
}

// readProgress makes a hook of Options.Read.
func readProgress(read func(bytes int64)) func(*segment, []byte) error {
	if read == nil {
		return nil
	}
	return func(_ *segment, data []byte) error {
		read(int64(len(data)))
		return nil
	}
}

// blockVisitor is a visitor of blocks that gives their records from an LSN on to visit.
func blockVisitor(visit func(Record) error, from uint64) func(header, []byte) error {
	if visit == nil {
		return nil
	}
	return func(h header, payload []byte) error {
		if h.last() < from {
			return nil
		}
		var failed error
		err := blockRecords(h, payload, from, h.last(), func(r Record, _ error) bool {
			failed = visit(r)
			return failed == nil
		})
		if failed != nil {
			return failed
		}
		return err
	}
}

// checkMark makes sure that everything that was acknowledged was found.
func checkMark(o *Options, found *scanned, m mark) error {
	if m.lsn <= found.last {
		return nil
	}
	at := &CorruptError{Path: o.Dir, LSN: found.last + 1}
	at.Reason = fmt.Sprintf("LSN %d was acknowledged and the log ends at %d", m.lsn, found.last)
	if t := found.tear; t != nil {
		at.Path, at.Offset = found.segments[t.segment].path, int64(t.offset)
		at.Reason += "; " + t.reason
	}
	return at
}
