package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"
)

// ErrCorrupt reports a snapshot that is not sound. errors.As with *CorruptError
// gives the place.
var ErrCorrupt = errors.New("snapshot corrupt")

// A CorruptError says where a snapshot is not sound.
type CorruptError struct {
	Path   string
	Offset int64 // of the part that is not sound
	Reason string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("snapshot: %s is corrupt at byte %d: %s", e.Path, e.Offset, e.Reason)
}

// Unwrap makes errors.Is(err, ErrCorrupt) true.
func (e *CorruptError) Unwrap() error { return ErrCorrupt }

// A Header says what a snapshot holds.
type Header struct {
	ID    [16]byte // of the ledger
	LSN   uint64   // every record up to it is in the entries
	From  uint64   // 0: a base, which holds every key
	Epoch uint64   // of the owner that took it
	About uint64   // about how many entries there are; a hint
	Extra []byte   // the caller's own, at most 64 KiB
}

// Sizes in bytes, part of the format or bounds of it.
const (
	headerFixed  = 60
	headerSum    = 8
	maxExtra     = 64 << 10
	blockHeader  = 20
	footerSize   = 28
	blockContent = 128 << 10 // content that a block is filled up to; one entry may go over it
	maxContent   = 32 << 20
)

var magic = [4]byte{'O', 'L', 'N', 1}

func seedOf(id [16]byte) uint64 {
	return binary.LittleEndian.Uint64(id[:8]) ^ binary.LittleEndian.Uint64(id[8:])
}

// sum chains a part's checksum to the one before it.
func sum(previous uint64, parts ...[]byte) uint64 {
	var d xxhash.Digest
	d.ResetWithSeed(previous)
	for _, p := range parts {
		_, _ = d.Write(p) // never fails
	}
	return d.Sum64()
}

// appendHeader appends the header and returns its checksum.
func appendHeader(dst []byte, h *Header) ([]byte, uint64) {
	start := len(dst)
	le := binary.LittleEndian
	dst = append(dst, magic[:]...)
	dst = le.AppendUint32(dst, 0)
	dst = append(dst, h.ID[:]...)
	dst = le.AppendUint64(dst, h.LSN)
	dst = le.AppendUint64(dst, h.From)
	dst = le.AppendUint64(dst, h.Epoch)
	dst = le.AppendUint64(dst, h.About)
	dst = le.AppendUint32(dst, uint32(len(h.Extra)))
	dst = append(dst, h.Extra...)
	s := sum(seedOf(h.ID), dst[start:])
	return le.AppendUint64(dst, s), s
}

// headerLength is the length of the header that fixed begins, or why it begins
// none.
func headerLength(fixed []byte, id [16]byte) (int, string) {
	le := binary.LittleEndian
	if [4]byte(fixed) != magic {
		return 0, fmt.Sprintf("magic %x, want %x", fixed[:4], magic)
	}
	if flags := le.Uint32(fixed[4:]); flags != 0 {
		return 0, fmt.Sprintf("flags %#x, want 0; a newer oncelog wrote it", flags)
	}
	if [16]byte(fixed[8:]) != id {
		return 0, fmt.Sprintf("it is of ledger %x, not of %x", fixed[8:24], id)
	}
	extra := le.Uint32(fixed[56:])
	if extra > maxExtra {
		return 0, fmt.Sprintf("%d extra bytes, at most %d", extra, maxExtra)
	}
	return headerFixed + int(extra) + headerSum, ""
}

// parseHeader reads a header of the length that headerLength gave.
func parseHeader(b []byte) (h Header, checksum uint64, reason string) {
	le := binary.LittleEndian
	n := len(b) - headerSum
	copy(h.ID[:], b[8:])
	checksum = sum(seedOf(h.ID), b[:n])
	if stored := le.Uint64(b[n:]); stored != checksum {
		return h, 0, fmt.Sprintf("the header's checksum is %016x, want %016x", stored, checksum)
	}
	h.LSN, h.From, h.Epoch, h.About = le.Uint64(b[24:]), le.Uint64(b[32:]), le.Uint64(b[40:]), le.Uint64(b[48:])
	h.Extra = append([]byte(nil), b[headerFixed:n]...)
	return h, checksum, ""
}

// nextEntry takes one entry off a block's content.
func nextEntry(b []byte) (key, value, rest []byte, ok bool) {
	if key, b, ok = nextBytes(b); !ok {
		return nil, nil, nil, false
	}
	value, rest, ok = nextBytes(b)
	return key, value, rest, ok
}

func nextBytes(b []byte) (v, rest []byte, ok bool) {
	n, w := binary.Uvarint(b)
	if w <= 0 || n > uint64(len(b)-w) {
		return nil, nil, false
	}
	end := w + int(n)
	return b[w:end:end], b[end:], true
}
