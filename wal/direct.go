package wal

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/oncelog/oncelog/internal/durable"
)

// directLayout is the layout of segments that are overwritten in place.
type directLayout struct{}

const (
	directSuffix = ".seg"
	directDigits = 20
	// directHead is where frames begin: behind the sector of the header, which
	// is never written again.
	directHead = 512
	// directSpares is how many dropped segments are kept for reuse, besides the
	// one that is ready.
	directSpares = 2
)

var directMagic = [4]byte{'O', 'L', 'S', 1}

func directName(number uint64) string {
	return fmt.Sprintf("%0*d%s", directDigits, number, directSuffix)
}

func (directLayout) number(name string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, directSuffix)
	if !ok || len(digits) != directDigits {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil && n > 0
}

func (directLayout) follows(s *segment, number uint64) bool { return number == s.number+1 }

func (directLayout) head(id [16]byte, data []byte, s *segment) (int, string) {
	if len(data) < directHead {
		return 0, fmt.Sprintf("a segment of %d bytes", len(data))
	}
	number, nonce, ok := parseDirectHead(id, data)
	if !ok {
		return 0, "the segment's header is not sound"
	}
	if number != s.number {
		return 0, fmt.Sprintf("the header of segment %d", number)
	}
	s.nonce = nonce
	return directHead, ""
}

func (directLayout) frame(data []byte, off int, s *segment) (block, length int, end bool) {
	if len(data)-off < framePrefix || binary.LittleEndian.Uint64(data[off:]) != s.nonce {
		return off, -1, true
	}
	return off + framePrefix, -1, false
}

func (directLayout) prefix(int) int { return framePrefix }

// sealed: the next segment is made ahead of its turn.
func (directLayout) sealed() bool { return false }

func (directLayout) tail(data []byte, s *segment, segmentSize int64) []byte {
	whole := make([]byte, max(segmentSize, int64(s.end)))
	copy(whole, data[:s.end])
	return whole
}

func directHeader(id [16]byte, number, nonce uint64) []byte {
	b := make([]byte, directHead)
	copy(b, directMagic[:])
	binary.LittleEndian.PutUint64(b[8:], number)
	binary.LittleEndian.PutUint64(b[16:], nonce)
	binary.LittleEndian.PutUint64(b[24:], directSum(id, b))
	return b
}

func directSum(id [16]byte, b []byte) uint64 {
	var head [headerSize]byte // checksum wants a block: the header's bytes, no payload
	copy(head[:offChecksum], b[:24])
	return checksum(id, head[:])
}

func parseDirectHead(id [16]byte, b []byte) (number, nonce uint64, ok bool) {
	if [4]byte(b) != directMagic || binary.LittleEndian.Uint64(b[24:]) != directSum(id, b) {
		return 0, 0, false
	}
	return binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:]), true
}

// open goes on behind the last block. What was made ready ahead is used next.
func (directLayout) open(o *Options, found []segment) (store, error) {
	s := &directStore{fs: o.FS, dir: o.Dir, id: o.ID, segmentSize: o.SegmentSize, ready: make(chan prepared, 1)}
	tail := len(found) - 1
	for tail > 0 && found[tail].blocks == 0 {
		tail--
	}
	if len(found) == 0 {
		s.prepare(1)
		p := <-s.ready
		if p.err != nil {
			return nil, p.err
		}
		s.file, s.segments = p.file, []segment{p.segment}
	} else {
		f, err := o.FS.Open(found[tail].path)
		if err != nil {
			return nil, fmt.Errorf("wal: %w", err)
		}
		s.file, s.segments = f, slices.Clone(found[:tail+1])
	}
	if err := o.FS.SyncDir(o.Dir); err != nil {
		return nil, errors.Join(fmt.Errorf("wal: %w", err), s.file.Close())
	}
	if len(found) > 0 && tail+1 < len(found) {
		f, err := o.FS.Open(found[tail+1].path)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("wal: %w", err), s.file.Close())
		}
		s.ready <- prepared{segment: found[tail+1], file: f}
		return s, nil
	}
	s.prepareNext()
	return s, nil
}

// directStore overwrites preallocated segments. While a segment fills, the next
// one is made ready in the background, so that no caller waits for a rotation.
type directStore struct {
	fs          durable.FS
	dir         string
	id          [16]byte
	segmentSize int64
	file        durable.File // of the last segment
	ready       chan prepared
	background  sync.WaitGroup

	mu       sync.Mutex // guards the fields below
	segments []segment  // oldest first, without the one that is ready
	spares   []string   // dropped segments under temporary names
	dropped  uint64     // numbers temporary names
}

// prepared is a segment that is ready to be written, or why there is none.
type prepared struct {
	segment segment
	file    durable.File
	err     error
}

func (s *directStore) append(frame []byte, first, last uint64) error {
	s.mu.Lock()
	tail := &s.segments[len(s.segments)-1]
	full := int64(tail.end+len(frame)) > s.segmentSize && tail.blocks > 0
	s.mu.Unlock()
	if full {
		if err := s.rotate(); err != nil {
			return err
		}
	}
	s.mu.Lock()
	tail = &s.segments[len(s.segments)-1]
	end, nonce, path := tail.end, tail.nonce, tail.path
	s.mu.Unlock()
	binary.LittleEndian.PutUint64(frame, nonce)
	if _, err := s.file.WriteAt(frame, int64(end)); err != nil {
		return fmt.Errorf("wal: write %d bytes at byte %d of %s: %w", len(frame), end, path, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if tail.blocks == 0 {
		tail.first = first
	}
	tail.blocks++
	tail.last = last
	tail.end += len(frame)
	return nil
}

// rotate goes on to the next segment. The full one is synced already: its last
// block was acknowledged before this one is written. Where the disk has no room
// for a next one, the full one is made longer instead, out of the reserve.
func (s *directStore) rotate() error {
	next := <-s.ready
	if durable.IsFull(next.err) {
		s.prepareNext()
		return nil
	}
	if next.err != nil {
		s.ready <- next
		return next.err
	}
	if err := s.file.Close(); err != nil {
		return fmt.Errorf("wal: %w", err)
	}
	s.file = next.file
	s.mu.Lock()
	s.segments = append(s.segments, next.segment)
	s.mu.Unlock()
	s.prepareNext()
	return nil
}

func (s *directStore) prepareNext() {
	number := s.segments[len(s.segments)-1].number + 1
	s.background.Go(func() { s.prepare(number) })
}

// prepare makes a segment ready: its bytes allocated and written once, its header
// and its name durable.
func (s *directStore) prepare(number uint64) {
	p := prepared{segment: segment{path: filepath.Join(s.dir, directName(number)), number: number, end: directHead}}
	var random [8]byte
	rand.Read(random[:]) // never fails, see crypto/rand
	p.segment.nonce = max(binary.LittleEndian.Uint64(random[:]), 1)
	p.file, p.err = s.make(&p.segment)
	if p.err != nil {
		p.err = fmt.Errorf("wal: segment %d: %w", number, p.err)
	}
	s.ready <- p
}

func (s *directStore) make(seg *segment) (durable.File, error) {
	temp := seg.path + durable.TempSuffix
	spare := s.takeSpare()
	f, err := s.begin(temp, spare)
	if err != nil {
		return nil, err
	}
	if err = s.fill(f, seg, spare != ""); err == nil {
		err = s.fs.Rename(temp, seg.path)
	}
	if err == nil {
		err = s.fs.SyncDir(s.dir)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), s.fs.Remove(temp))
	}
	return f, nil
}

// begin opens a file of the temporary name: a spare one, or a new one.
func (s *directStore) begin(temp, spare string) (durable.File, error) {
	if spare == "" {
		return s.fs.Create(temp)
	}
	if err := s.fs.Rename(spare, temp); err != nil {
		return nil, err
	}
	return s.fs.Open(temp)
}

// fill writes what a segment is to hold before its first block. A reused file
// keeps the blocks of its earlier life: their nonce is another, and their LSNs
// are behind.
func (s *directStore) fill(f durable.File, seg *segment, reused bool) error {
	if !reused {
		if err := f.Allocate(s.segmentSize); err != nil {
			return err
		}
		// Written once, so that overwriting it later changes no metadata.
		zeros := make([]byte, min(s.segmentSize, 1<<20))
		for off := int64(0); off < s.segmentSize; off += int64(len(zeros)) {
			if _, err := f.WriteAt(zeros[:min(int64(len(zeros)), s.segmentSize-off)], off); err != nil {
				return err
			}
		}
	}
	if _, err := f.WriteAt(directHeader(s.id, seg.number, seg.nonce), 0); err != nil {
		return err
	}
	return f.Sync()
}

func (s *directStore) takeSpare() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.spares) == 0 {
		return ""
	}
	spare := s.spares[0]
	s.spares = s.spares[1:]
	return spare
}

// sync makes the last block durable. Its segment's name is: see prepare.
func (s *directStore) sync() error {
	if err := s.file.Datasync(); err != nil {
		return fmt.Errorf("wal: sync: %w", err)
	}
	return nil
}

// dropBefore takes old segments out of the log, oldest first, and keeps a few of
// their files for reuse.
func (s *directStore) dropBefore(lsn uint64) error {
	s.mu.Lock()
	old := slices.Clone(s.segments[:droppable(s.segments, lsn)])
	s.mu.Unlock()
	for _, seg := range old {
		if err := s.drop(&seg); err != nil {
			return fmt.Errorf("wal: %w", err)
		}
	}
	return nil
}

func (s *directStore) drop(seg *segment) error {
	info, err := s.fs.Stat(seg.path)
	if err != nil {
		return err
	}
	s.mu.Lock()
	// A file that one large block has made longer is not kept.
	keep := len(s.spares) < directSpares && info.Size() == s.segmentSize
	s.dropped++
	spare := filepath.Join(s.dir, fmt.Sprintf("spare-%d%s", s.dropped, durable.TempSuffix))
	s.mu.Unlock()
	if keep {
		err = durable.Move(s.fs, seg.path, spare)
	} else {
		err = durable.Remove(s.fs, seg.path)
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.segments = s.segments[1:]
	if keep {
		s.spares = append(s.spares, spare)
	}
	return nil
}

func (s *directStore) list() []segment {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.segments)
}

// close waits for what is made ready in the background and closes the files. The
// spare ones are removed at the next open, as leftovers.
func (s *directStore) close() error {
	s.background.Wait()
	err := s.file.Close()
	p := <-s.ready
	if p.err == nil {
		err = errors.Join(err, p.file.Close())
	}
	if err != nil {
		return fmt.Errorf("wal: %w", err)
	}
	return nil
}
