package snapshot

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/oncelog/oncelog/internal/durable"
)

// A Visitor takes what Load reads.
type Visitor struct {
	// Begin is told what the snapshot is, before anything else. It may be nil.
	Begin func(Header)
	// Entry is given every entry, from several goroutines at once. key and value are
	// valid during the call.
	Entry func(key, value []byte) error
	// Read is told, by one goroutine at a time, how many bytes and entries more
	// were read. It may be nil.
	Read func(bytes int64, entries uint64)
}

// Load reads a snapshot. When it fails the visitor has been given some entries: throw
// away what they filled. ErrCorrupt where the file is not sound, or not of this ledger.
func Load(fsys durable.FS, path string, id [16]byte, workers int, v Visitor) (Info, error) {
	f, err := fsys.OpenRead(path)
	if err != nil {
		return Info{}, fmt.Errorf("snapshot: %w", err)
	}
	info, err := load(f, path, id, workers, v)
	if closeErr := f.Close(); err == nil && closeErr != nil {
		err = fmt.Errorf("snapshot: %w", closeErr)
	}
	return info, err
}

// Verify is Load without the entries.
func Verify(fsys durable.FS, path string, id [16]byte) (Info, error) {
	return Load(fsys, path, id, 1, Visitor{Entry: func([]byte, []byte) error { return nil }})
}

// job is a block that was read and checked, for a worker to decode.
type job struct {
	offset  int64
	content int
	count   uint32
	data    []byte
}

func load(f durable.File, path string, id [16]byte, workers int, v Visitor) (Info, error) {
	size, err := f.Size()
	if err != nil {
		return Info{}, fmt.Errorf("snapshot: %w", err)
	}
	r := &reader{path: path, visitor: v, in: bufio.NewReaderSize(io.NewSectionReader(f, 0, size), 1<<20), size: size}
	jobs := make(chan job, 2*workers)
	stop := make(chan struct{})
	free := make(chan []byte, 4*workers)
	p := &pool{path: path, put: v.Entry, jobs: jobs, stop: stop, free: free}
	r.free = free
	for range workers {
		p.workers.Go(p.work)
	}
	info, err := r.read(id, jobs, stop)
	close(jobs)
	p.workers.Wait()
	if err := errors.Join(p.err, err); err != nil {
		return info, err
	}
	if want, ok := parseName(filepath.Base(path)); ok && (want.LSN != info.Header.LSN || want.From != info.Header.From) {
		return info, &CorruptError{Path: path, Reason: fmt.Sprintf("its header says LSN %d, from %d", info.Header.LSN, info.Header.From)}
	}
	return info, nil
}

// pool decodes blocks.
type pool struct {
	path    string
	put     func(key, value []byte) error
	jobs    <-chan job
	free    chan<- []byte // what the reader may read into again
	stop    chan struct{} // closed by the first worker that fails
	once    sync.Once
	err     error // why; guarded by once
	workers sync.WaitGroup
}

func (p *pool) work() {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxContent))
	if err != nil {
		p.fail(fmt.Errorf("snapshot: %w", err))
		return
	}
	defer decoder.Close()
	var buf []byte
	for j := range p.jobs {
		if buf, err = decoder.DecodeAll(j.data, buf[:0]); err == nil {
			p.free <- j.data // never waits: there is room for all that are under way
			err = p.entries(&j, buf)
		} else {
			err = &CorruptError{Path: p.path, Offset: j.offset, Reason: err.Error()}
		}
		if err != nil {
			p.fail(err)
			return
		}
	}
}

func (p *pool) fail(err error) {
	p.once.Do(func() {
		p.err = err
		close(p.stop)
	})
}

func (p *pool) entries(j *job, content []byte) error {
	if len(content) != j.content {
		return &CorruptError{Path: p.path, Offset: j.offset, Reason: fmt.Sprintf("the block has %d bytes, its header says %d", len(content), j.content)}
	}
	for range j.count {
		key, value, rest, ok := nextEntry(content)
		if !ok {
			return &CorruptError{Path: p.path, Offset: j.offset, Reason: "the block's entries do not parse"}
		}
		if err := p.put(key, value); err != nil {
			return &CorruptError{Path: p.path, Offset: j.offset, Reason: err.Error()}
		}
		content = rest
	}
	if len(content) > 0 {
		return &CorruptError{Path: p.path, Offset: j.offset, Reason: fmt.Sprintf("%d bytes follow the block's last entry", len(content))}
	}
	return nil
}

// reader reads a file front to back and checks every checksum before it hands
// anything on.
type reader struct {
	path     string
	visitor  Visitor
	in       *bufio.Reader
	size     int64
	offset   int64
	checksum uint64
	free     <-chan []byte // room for blocks
}

func (r *reader) corrupt(format string, args ...any) error {
	return &CorruptError{Path: r.path, Offset: r.offset, Reason: fmt.Sprintf(format, args...)}
}

// bytes reads n bytes, which must be there, into room if they fit in.
func (r *reader) bytes(n int, room []byte) ([]byte, error) {
	if int64(n) > r.size-r.offset {
		return nil, r.corrupt("%d bytes are due, %d are left", n, r.size-r.offset)
	}
	if cap(room) < n {
		room = make([]byte, n)
	}
	b := room[:n]
	if _, err := io.ReadFull(r.in, b); err != nil {
		return nil, fmt.Errorf("snapshot: read %s: %w", r.path, err)
	}
	r.offset += int64(n)
	return b, nil
}

func (r *reader) read(id [16]byte, jobs chan<- job, stop <-chan struct{}) (Info, error) {
	info := Info{Path: r.path, Bytes: r.size}
	var err error
	if info.Header, err = r.header(id); err != nil {
		return info, err
	}
	if r.visitor.Begin != nil {
		r.visitor.Begin(info.Header)
	}
	var blocks uint64
	for from := int64(0); ; from = r.offset {
		j, end, err := r.block(&info, blocks)
		if err != nil || end {
			return info, err
		}
		if r.visitor.Read != nil {
			r.visitor.Read(r.offset-from, uint64(j.count))
		}
		blocks++
		info.Entries += uint64(j.count)
		select {
		case jobs <- j:
		case <-stop:
			return info, nil // the worker's error is the one to tell
		}
	}
}

func (r *reader) header(id [16]byte) (Header, error) {
	fixed, err := r.bytes(headerFixed, nil)
	if err != nil {
		return Header{}, err
	}
	n, reason := headerLength(fixed, id)
	if reason != "" {
		r.offset = 0
		return Header{}, r.corrupt("%s", reason)
	}
	rest, err := r.bytes(n-headerFixed, nil)
	if err != nil {
		return Header{}, err
	}
	h, checksum, reason := parseHeader(append(fixed, rest...))
	if reason != "" {
		r.offset = 0
		return Header{}, r.corrupt("%s", reason)
	}
	r.checksum = checksum
	return h, nil
}

// block reads the next block, or the footer, which ends the file.
func (r *reader) block(info *Info, blocks uint64) (j job, end bool, err error) {
	le := binary.LittleEndian
	at := r.offset
	head, err := r.bytes(blockHeader, nil)
	if err != nil {
		return job{}, false, err
	}
	content, compressed := le.Uint32(head), le.Uint32(head[4:])
	if content == 0 {
		return job{}, true, r.footer(at, head, info, blocks)
	}
	if content > maxContent || compressed > maxContent {
		r.offset = at
		return job{}, false, r.corrupt("a block of %d bytes, compressed to %d; at most %d", content, compressed, maxContent)
	}
	var room []byte
	select {
	case room = <-r.free:
	default:
	}
	data, err := r.bytes(int(compressed), room)
	if err != nil {
		return job{}, false, err
	}
	checksum := sum(r.checksum, head[:12], data)
	if stored := le.Uint64(head[12:]); stored != checksum {
		r.offset = at
		return job{}, false, r.corrupt("the block's checksum is %016x, want %016x", stored, checksum)
	}
	r.checksum = checksum
	return job{offset: at, content: int(content), count: le.Uint32(head[8:]), data: data}, false, nil
}

// footer reads the rest of the footer that head begins, and nothing may follow.
func (r *reader) footer(at int64, head []byte, info *Info, blocks uint64) error {
	le := binary.LittleEndian
	rest, err := r.bytes(footerSize-blockHeader, nil)
	if err != nil {
		return err
	}
	b := append(head, rest...)
	checksum := sum(r.checksum, b[:20])
	wrong := r.offset != r.size
	r.offset = at
	switch stored := le.Uint64(b[20:]); {
	case stored != checksum:
		return r.corrupt("the footer's checksum is %016x, want %016x", stored, checksum)
	case le.Uint64(b[4:]) != blocks || le.Uint64(b[12:]) != info.Entries:
		return r.corrupt("the footer counts %d blocks and %d entries, there are %d and %d",
			le.Uint64(b[4:]), le.Uint64(b[12:]), blocks, info.Entries)
	case wrong:
		return r.corrupt("%d bytes follow the footer", r.size-at-footerSize)
	}
	return nil
}
