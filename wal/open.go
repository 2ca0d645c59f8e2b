package wal

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/oncelog/oncelog/internal/durable"
)

// Options of a log.
type Options struct {
	// FS is the file system. With StoreTidwall, whose dependency calls the
	// operating system itself, it must be that one or a wrapper around it.
	FS durable.FS
	// Dir holds the segments.
	Dir string
	// Quarantine is the directory for bytes that a repair cuts off. It is made
	// when it is needed.
	Quarantine string
	// Watermark is the file of the watermark.
	Watermark string
	// Reserve is the file of the ballast; empty for none.
	Reserve string
	// ID of the ledger, of which every block bears the mark.
	ID [16]byte
	// Store lays out the segments.
	Store StoreKind
	// SegmentSize is the size in bytes at which a segment is full. Defaults to
	// 8 MiB.
	SegmentSize int64
	// Apply takes each record once it is durable, in LSN order, one at a time,
	// before its caller is told, with the tag that it was appended with. data is valid
	// during the call. An error stops the log. It may be nil.
	Apply func(lsn uint64, data []byte, tag any) error
	// From is the LSN of the first record that visit is given while a log is opened or
	// inspected. Those before it are checked, and not looked into.
	From uint64
	// Read is told, while a log is opened or inspected, of each file that was read,
	// and how many bytes it has. It may be nil.
	Read func(bytes int64)
	// Reuse lets the memory of the records that visit is given, while a log is opened or
	// inspected, be used again: they are valid until Read is called for the second time
	// after it.
	Reuse bool
}

const defaultSegmentSize = 8 << 20

func (o Options) withDefaults() Options {
	if o.SegmentSize == 0 {
		o.SegmentSize = defaultSegmentSize
	}
	return o
}

// A Report says what a log was found to be and what was mended.
type Report struct {
	First, Last uint64 // LSNs of the first and the last record
	Blocks      uint64
	Bytes       int64 // of the blocks
	Segments    int
	Clean       bool   // it was closed properly
	TornBytes   int64  // cut off: they were never acknowledged
	TornReason  string // why they are no block
	Quarantined string // file that holds them; empty where none were cut
	Rewrote     bool   // the last segment was written anew
	Watermark   uint64 // LSN that the watermark named; 0 for none
}

func newReport(found *scanned, m mark) *Report {
	r := &Report{First: found.first, Last: found.last, Blocks: found.blocks, Bytes: found.bytes,
		Segments: len(found.segments), Watermark: m.lsn}
	r.Clean = m.clean && m.lsn == found.last && found.tear == nil
	if t := found.tear; t != nil {
		r.TornBytes, r.TornReason = int64(len(t.bytes)), t.reason
	}
	return r
}

// Create makes a log in an empty directory, with one record in it, whose LSN is the
// one after the given: 0 for a new log, more where earlier records are known to be
// elsewhere.
func Create(o Options, after uint64, first []byte) (*Log, error) {
	o = o.withDefaults()
	lay, err := layoutOf(o.Store)
	if err != nil {
		return nil, err
	}
	if found, _, err := listSegments(o.FS, o.Dir, lay); err != nil {
		return nil, fmt.Errorf("wal: %w", err)
	} else if len(found) > 0 {
		return nil, fmt.Errorf("wal: %s is not empty, it holds %s", o.Dir, filepath.Base(found[0].path))
	}
	l, err := start(o, lay, &scanned{last: after})
	if err != nil {
		return nil, err
	}
	t, err := l.Append(first, 0)
	if err == nil {
		err = t.Wait()
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Open checks a whole log, cuts a torn tail off, and opens it for appending. Each
// record that is found is given to visit, where that is not nil, in LSN order; when
// Open fails, what visit has heard is worth nothing. Apply is not called for them.
//
// The caller makes sure that nobody else has the log open. Errors wrap [ErrCorrupt]
// where acknowledged records are damaged or missing; the log is then as it was.
func Open(o Options, visit func(Record) error) (*Log, *Report, error) {
	o = o.withDefaults()
	lay, err := layoutOf(o.Store)
	if err != nil {
		return nil, nil, err
	}
	m, err := readMark(o.FS, o.Watermark, o.ID)
	if err != nil {
		return nil, nil, err
	}
	s := scanner{fs: o.FS, dir: o.Dir, id: o.ID, lay: lay, visit: blockVisitor(visit, o.From), read: readProgress(o.Read), reuse: o.Reuse}
	found, err := s.run()
	if err != nil {
		return nil, nil, err
	}
	if err := checkMark(&o, found, m); err != nil {
		return nil, nil, err
	}
	r := newReport(found, m)
	for _, path := range found.leftovers {
		if err := durable.Remove(o.FS, path); err != nil {
			return nil, r, fmt.Errorf("wal: %w", err)
		}
	}
	if !r.Clean {
		err := repair(&o, lay, found, r)
		if durable.IsFull(err) && o.Reserve != "" {
			// This is what the ballast is for. It grows again once there is room.
			if none := giveUpBallast(&o); none != nil {
				return nil, r, errors.Join(err, none)
			}
			err = repair(&o, lay, found, r)
		}
		if err != nil {
			return nil, r, err
		}
	}
	l, err := start(o, lay, found)
	return l, r, err
}

// repair cuts a torn tail and writes the last segment anew: what was read may be
// in the page cache only, where a failed sync has left it marked as written, and
// the next sync would report success without writing it. Commit point: the
// rename of the new segment.
func repair(o *Options, lay layout, found *scanned, r *Report) error {
	if t := found.tear; t != nil {
		path, err := quarantine(o, found.segments[t.segment].path, t)
		if err != nil {
			return err
		}
		r.Quarantined = path
	}
	for i := len(found.segments) - 1; i >= 0; i-- {
		seg := &found.segments[i]
		if err := rewrite(o, lay, seg); err != nil {
			return err
		}
		if seg.blocks > 0 {
			break
		}
	}
	r.Rewrote = true
	return nil
}

func rewrite(o *Options, lay layout, seg *segment) error {
	data, err := durable.ReadFile(o.FS, seg.path)
	if err == nil {
		err = durable.WriteFile(o.FS, seg.path, lay.tail(data, seg, o.SegmentSize))
	}
	if err != nil {
		return fmt.Errorf("wal: write the last segment anew: %w", err)
	}
	return nil
}

// quarantine keeps the bytes that are cut, for a person to look at.
func quarantine(o *Options, segment string, t *tear) (string, error) {
	if err := durable.MkdirAll(o.FS, o.Quarantine); err != nil {
		return "", fmt.Errorf("wal: %w", err)
	}
	name := filepath.Base(segment) + "." + strconv.Itoa(t.offset) + "." + strconv.FormatInt(time.Now().UnixNano(), 10)
	path := filepath.Join(o.Quarantine, name)
	if err := durable.WriteFile(o.FS, path, t.bytes); err != nil {
		return "", fmt.Errorf("wal: %w", err)
	}
	return path, nil
}

// start opens the store and the files beside it. The mark is no longer clean,
// durably so, before anything is appended.
func start(o Options, lay layout, found *scanned) (*Log, error) {
	mark, err := openWatermark(o.FS, o.Watermark, o.ID, mark{lsn: found.last})
	if err != nil {
		return nil, err
	}
	room, err := openReserve(o.FS, o.Reserve, o.Dir, o.SegmentSize)
	if err != nil {
		return nil, errors.Join(err, mark.file.Close())
	}
	st, err := lay.open(&o, found.segments)
	if err != nil {
		return nil, errors.Join(err, mark.file.Close(), room.close())
	}
	l := &Log{
		opts: o, layout: lay, store: st, mark: mark, reserve: room,
		first: found.first, next: found.last + 1, previous: found.checksum, kick: make(chan struct{}, 1), stop: make(chan struct{}), failed: make(chan struct{}),
	}
	l.idle.L = &l.mu
	l.durable.Store(found.last)
	l.background.Go(l.flushUnwaited)
	return l, nil
}
