package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/oncelog/oncelog/internal/durable"
)

// Info describes a snapshot file.
type Info struct {
	Path    string
	Header  Header
	Entries uint64
	Bytes   int64 // of the file
}

// Write makes a snapshot of the entries, each key once: a base, or, where the header
// has a From, a delta. It is taken into the directory under its final name only when
// it is complete, synced and read back; the name is durable when Write returns nil.
// Otherwise the directory is as it was, but for a temporary file that a crash may
// leave and the next Write removes. Keys and values are used during the call only.
// After the last entry complete, where it is not nil, says whether that were all: an
// error means that there is no snapshot. One Write at a time works in a directory.
//
//	remove temporary files
//	create dir/name.tmp
//	write header, blocks, footer
//	sync
//	read it back and verify
//	rename dir/name.tmp dir/name      the commit point
//	syncdir dir
func Write(fsys durable.FS, dir string, h Header, entries iter.Seq2[[]byte, []byte], complete func() error) (Info, error) {
	if len(h.Extra) > maxExtra {
		return Info{}, fmt.Errorf("snapshot: %d extra bytes, at most %d", len(h.Extra), maxExtra)
	}
	path := filepath.Join(dir, name(h.From, h.LSN))
	temp := path + durable.TempSuffix
	if err := removeTemps(fsys, dir); err != nil {
		return Info{}, fmt.Errorf("snapshot: %w", err)
	}
	info, err := writeTemp(fsys, temp, h, entries, complete)
	if err != nil {
		return Info{}, fmt.Errorf("snapshot: write %s: %w", path, errors.Join(err, removeIfThere(fsys, temp)))
	}
	if err := durable.Move(fsys, temp, path); err != nil {
		return Info{}, fmt.Errorf("snapshot: %w", err)
	}
	info.Path = path
	return info, nil
}

func removeIfThere(fsys durable.FS, path string) error {
	if err := fsys.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func removeTemps(fsys durable.FS, dir string) error {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), durable.TempSuffix) {
			if err := fsys.Remove(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

func writeTemp(fsys durable.FS, temp string, h Header, entries iter.Seq2[[]byte, []byte], complete func() error) (Info, error) {
	f, err := fsys.Create(temp)
	if err != nil {
		return Info{}, err
	}
	w := &writer{file: f}
	err = w.writeAll(&h, entries)
	if err == nil && complete != nil {
		err = complete()
	}
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return Info{}, err
	}
	info, err := Verify(fsys, temp, h.ID)
	if err == nil && (info.Entries != w.entries || info.Bytes != w.bytes) {
		err = fmt.Errorf("read back %d entries in %d bytes, wrote %d in %d", info.Entries, info.Bytes, w.entries, w.bytes)
	}
	return info, err
}

// writer writes one file front to back.
type writer struct {
	file     durable.File
	encoder  *zstd.Encoder
	checksum uint64
	blocks   uint64
	entries  uint64
	bytes    int64

	content []byte // of the block being filled
	count   uint32
	out     []byte
}

func (w *writer) writeAll(h *Header, entries iter.Seq2[[]byte, []byte]) error {
	var err error
	w.encoder, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	defer w.encoder.Close()
	var head []byte
	head, w.checksum = appendHeader(nil, h)
	if err := w.write(head); err != nil {
		return err
	}
	for key, value := range entries {
		w.content = binary.AppendUvarint(w.content, uint64(len(key)))
		w.content = append(w.content, key...)
		w.content = binary.AppendUvarint(w.content, uint64(len(value)))
		w.content = append(w.content, value...)
		w.count++
		if len(w.content) >= blockContent {
			if err := w.block(); err != nil {
				return err
			}
		}
	}
	if w.count > 0 {
		if err := w.block(); err != nil {
			return err
		}
	}
	return w.footer()
}

func (w *writer) write(b []byte) error {
	n, err := w.file.Write(b)
	w.bytes += int64(n)
	return err
}

func (w *writer) block() error {
	if len(w.content) > maxContent {
		return fmt.Errorf("an entry of %d bytes, at most %d", len(w.content), maxContent)
	}
	le := binary.LittleEndian
	w.out = w.encoder.EncodeAll(w.content, append(w.out[:0], make([]byte, blockHeader)...))
	le.PutUint32(w.out, uint32(len(w.content)))
	le.PutUint32(w.out[4:], uint32(len(w.out)-blockHeader))
	le.PutUint32(w.out[8:], w.count)
	w.checksum = sum(w.checksum, w.out[:12], w.out[blockHeader:])
	le.PutUint64(w.out[12:], w.checksum)
	w.blocks++
	w.entries += uint64(w.count)
	w.content, w.count = w.content[:0], 0
	return w.write(w.out)
}

func (w *writer) footer() error {
	b := make([]byte, footerSize)
	binary.LittleEndian.PutUint64(b[4:], w.blocks)
	binary.LittleEndian.PutUint64(b[12:], w.entries)
	binary.LittleEndian.PutUint64(b[20:], sum(w.checksum, b[:20]))
	return w.write(b)
}
