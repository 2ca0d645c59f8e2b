package wal

import (
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"
)

// Limits of the format.
const (
	// MaxRecord is the most bytes that a record may have.
	MaxRecord = 4 << 20
	// blockPayload is how many bytes of payload a block is filled up to; one
	// record may go over it.
	blockPayload = 4 << 20
	maxPayload   = blockPayload + MaxRecord + binary.MaxVarintLen32
)

// headerSize and the offsets below are part of the disk format, see the package
// comment.
const (
	headerSize  = 40
	offFlags    = 4
	offLength   = 8
	offCount    = 12
	offFirst    = 16
	offPrevious = 24
	offChecksum = 32
)

var magic = [4]byte{'O', 'L', 'B', 1}

// header is a block's header, decoded.
type header struct {
	length   int    // of the payload in bytes
	count    int    // of records
	first    uint64 // LSN of the first record
	previous uint64 // checksum of the block before; 0 for the first of the log
	checksum uint64
}

func (h header) last() uint64 { return h.first + uint64(h.count) - 1 }
func (h header) size() int    { return headerSize + h.length }

// finishBlock fills in the header of a block whose payload is in place, and
// returns its checksum.
func finishBlock(id [16]byte, block []byte, count int, first, previous uint64) uint64 {
	copy(block, magic[:])
	le := binary.LittleEndian
	le.PutUint32(block[offFlags:], 0)
	le.PutUint32(block[offLength:], uint32(len(block)-headerSize))
	le.PutUint32(block[offCount:], uint32(count))
	le.PutUint64(block[offFirst:], first)
	le.PutUint64(block[offPrevious:], previous)
	sum := checksum(id, block)
	le.PutUint64(block[offChecksum:], sum)
	return sum
}

// checksum is xxhash64 over header and payload but for the checksum itself, with
// the ledger's id in front. It is never 0, which stands for no block.
func checksum(id [16]byte, block []byte) uint64 {
	var d xxhash.Digest
	d.ResetWithSeed(binary.LittleEndian.Uint64(id[:8]) ^ binary.LittleEndian.Uint64(id[8:]))
	d.Write(id[:])
	d.Write(block[:offChecksum])
	d.Write(block[headerSize:])
	return max(d.Sum64(), 1)
}

// parseBlock reads the sound block at the front of b. The reason says why there
// is none. It believes no length before it is bounded.
func parseBlock(id [16]byte, b []byte) (h header, reason string) {
	if len(b) < headerSize {
		return h, fmt.Sprintf("%d bytes where a header of %d is due", len(b), headerSize)
	}
	le := binary.LittleEndian
	if [4]byte(b) != magic {
		return h, fmt.Sprintf("magic %x, want %x", b[:4], magic)
	}
	if flags := le.Uint32(b[offFlags:]); flags != 0 {
		return h, fmt.Sprintf("flags %#x, want 0", flags)
	}
	length, count := le.Uint32(b[offLength:]), le.Uint32(b[offCount:])
	if length > maxPayload || int(length) > len(b)-headerSize {
		return h, fmt.Sprintf("a payload of %d bytes where %d are left", length, len(b)-headerSize)
	}
	if count == 0 || count > length {
		return h, fmt.Sprintf("%d records in %d bytes", count, length)
	}
	h = header{length: int(length), count: int(count), first: le.Uint64(b[offFirst:]),
		previous: le.Uint64(b[offPrevious:]), checksum: le.Uint64(b[offChecksum:])}
	if sum := checksum(id, b[:h.size()]); sum != h.checksum {
		return h, fmt.Sprintf("checksum %016x, want %016x", h.checksum, sum)
	}
	if h.first == 0 || h.last() < h.first {
		return h, fmt.Sprintf("LSN %d", h.first)
	}
	return h, ""
}

// nextRecord takes one framed record off a payload.
func nextRecord(payload []byte) (record, rest []byte, ok bool) {
	n, w := binary.Uvarint(payload)
	if w <= 0 || n > MaxRecord || uint64(len(payload)-w) < n {
		return nil, nil, false
	}
	end := w + int(n)
	return payload[w:end:end], payload[end:], true
}
