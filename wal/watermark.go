package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"

	"github.com/oncelog/oncelog/internal/durable"
)

const watermarkSize = 40

var watermarkMagic = [4]byte{'O', 'L', 'W', 1}

// mark is a watermark's content: the highest LSN that was acknowledged, and
// whether the log was closed with everything synced.
type mark struct {
	lsn   uint64
	clean bool
}

func (m mark) encode(id [16]byte) []byte {
	b := make([]byte, watermarkSize)
	m.put(id, b)
	return b
}

func (m mark) put(id [16]byte, b []byte) {
	copy(b, watermarkMagic[:])
	var clean uint32
	if m.clean {
		clean = 1
	}
	binary.LittleEndian.PutUint32(b[4:], clean)
	binary.LittleEndian.PutUint64(b[8:], m.lsn)
	clear(b[16:32])
	binary.LittleEndian.PutUint64(b[offChecksum:], checksum(id, b))
}

// parseMark is the zero mark for anything that put did not write for this ledger.
func parseMark(id [16]byte, b []byte) mark {
	if len(b) != watermarkSize || [4]byte(b) != watermarkMagic ||
		binary.LittleEndian.Uint64(b[offChecksum:]) != checksum(id, b) {
		return mark{}
	}
	return mark{lsn: binary.LittleEndian.Uint64(b[8:]), clean: binary.LittleEndian.Uint32(b[4:]) == 1}
}

// readMark is the watermark in a file; the zero mark where there is none.
func readMark(fsys durable.FS, path string, id [16]byte) (mark, error) {
	b, err := durable.ReadFile(fsys, path)
	if errors.Is(err, fs.ErrNotExist) {
		return mark{}, nil
	}
	if err != nil {
		return mark{}, fmt.Errorf("wal: watermark: %w", err)
	}
	return parseMark(id, b), nil
}

// watermark is the open file. It is overwritten in place: its 40 bytes are in one
// sector, which a power cut leaves old or new.
type watermark struct {
	file durable.File
	id   [16]byte
	buf  [watermarkSize]byte
}

// openWatermark writes a mark durably and leaves the file open.
func openWatermark(fsys durable.FS, path string, id [16]byte, m mark) (*watermark, error) {
	if err := durable.WriteFile(fsys, path, m.encode(id)); err != nil {
		return nil, fmt.Errorf("wal: watermark: %w", err)
	}
	f, err := fsys.Open(path)
	if err != nil {
		return nil, fmt.Errorf("wal: watermark: %w", err)
	}
	return &watermark{file: f, id: id}, nil
}

// set overwrites the mark and does not sync it: after the death of the process it
// is exact, after a power cut late.
func (w *watermark) set(m mark) error {
	m.put(w.id, w.buf[:])
	_, err := w.file.WriteAt(w.buf[:], 0)
	return err
}
