package wal

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"strings"
	"testing"
)

var goldenID = [16]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}

// goldenBlock is a block of two records with LSN 7 and 8.
func goldenBlock() []byte {
	b := append(make([]byte, headerSize), "\x03one\x03two"...)
	finishBlock(goldenID, b, 2, 7, 0x1122334455667788)
	return b
}

// The bytes are part of the disk format.
const golden = "4f4c42010000000008000000020000000700000000000000" +
	"8877665544332211"

const goldenChecksum = 0xff2432eea80f3050

func TestGoldenBlock(t *testing.T) {
	b := goldenBlock()
	if got := hex.EncodeToString(b[:offChecksum]); got != golden {
		t.Errorf("header %s, want %s", got, golden)
	}
	if got := binary.LittleEndian.Uint64(b[offChecksum:]); got != goldenChecksum {
		t.Errorf("checksum %#x, want %#x", got, uint64(goldenChecksum))
	}
	h, reason := parseBlock(goldenID, b)
	if reason != "" || h.first != 7 || h.last() != 8 || h.count != 2 || h.size() != len(b) {
		t.Errorf("parsed as %+v, %s", h, reason)
	}
}

func TestEveryFlippedBitOfABlockShows(t *testing.T) {
	for bit := range len(goldenBlock()) * 8 {
		b := goldenBlock()
		b[bit/8] ^= 1 << (bit % 8)
		if _, reason := parseBlock(goldenID, b); reason == "" {
			t.Errorf("bit %d flipped is not noticed", bit)
		}
	}
	if _, reason := parseBlock([16]byte{1}, goldenBlock()); !strings.HasPrefix(reason, "checksum") {
		t.Errorf("a block of another ledger: %q", reason)
	}
}

// TestNoLengthIsBelieved: lengths and counts are bounded before anything is done
// with them.
func TestNoLengthIsBelieved(t *testing.T) {
	for _, field := range []int{offLength, offCount} {
		for _, v := range []uint32{0, 1 << 16, math.MaxInt32, math.MaxUint32} {
			b := goldenBlock()
			binary.LittleEndian.PutUint32(b[field:], v)
			if _, reason := parseBlock(goldenID, b); reason == "" {
				t.Errorf("%d at byte %d is believed", v, field)
			}
		}
	}
	for n := range len(goldenBlock()) {
		if _, reason := parseBlock(goldenID, goldenBlock()[:n]); reason == "" {
			t.Errorf("the first %d bytes are a block", n)
		}
	}
}

func TestWatermark(t *testing.T) {
	for _, m := range []mark{{}, {lsn: 1}, {lsn: math.MaxUint64, clean: true}} {
		b := m.encode(goldenID)
		if got := parseMark(goldenID, b); got != m {
			t.Errorf("%+v is read as %+v", m, got)
		}
		for bit := range len(b) * 8 {
			b[bit/8] ^= 1 << (bit % 8)
			if got := parseMark(goldenID, b); got != (mark{}) {
				t.Errorf("%+v with bit %d flipped is read as %+v", m, bit, got)
			}
			b[bit/8] ^= 1 << (bit % 8)
		}
		if got := parseMark([16]byte{1}, b); got != (mark{}) {
			t.Errorf("a watermark of another ledger is read as %+v", got)
		}
		if got := parseMark(goldenID, b[:39]); got != (mark{}) {
			t.Errorf("a short watermark is read as %+v", got)
		}
	}
}
