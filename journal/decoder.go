package journal

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"unsafe"
)

// decoder reads fields off the front of b. After the first failure err is set
// and everything reads as zero.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf(format+": %w", append(args, ErrBadRecord)...)
		d.b = nil
	}
}

// uvarint accepts the shortest form only, so that what decodes has one encoding.
func (d *decoder) uvarint() uint64 {
	if len(d.b) > 0 && d.b[0] < 0x80 {
		v := d.b[0]
		d.b = d.b[1:]
		return uint64(v)
	}
	return d.longUvarint()
}

func (d *decoder) longUvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 1 || d.b[n-1] == 0 { // a last byte of 0 adds nothing
		d.fail("no minimal varint where one is due")
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) ms() int64 {
	v := d.uvarint()
	if v > math.MaxInt64 {
		d.fail("time %d does not fit", v)
		return 0
	}
	return int64(v)
}

func (d *decoder) attempt() uint32 {
	v := d.uvarint()
	if v == 0 || v > math.MaxUint32 {
		d.fail("attempt %d, want 1 to %d", v, uint32(math.MaxUint32))
		return 0
	}
	return uint32(v)
}

func (d *decoder) uint64() uint64 {
	if len(d.b) < 8 {
		d.fail("%d bytes where 8 are due", len(d.b))
		return 0
	}
	v := binary.LittleEndian.Uint64(d.b)
	d.b = d.b[8:]
	return v
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.fail("ends where a byte is due")
		return 0
	}
	c := d.b[0]
	d.b = d.b[1:]
	return c
}

func (d *decoder) flags(known byte) byte {
	f := d.byte()
	if f&^known != 0 {
		d.fail("flags %#x, known are %#x", f, known)
		return 0
	}
	return f
}

func (d *decoder) cause(fits func(Cause) bool) Cause {
	c := Cause(d.byte())
	if d.err == nil && !fits(c) {
		d.fail("%v does not fit the kind", c)
	}
	return c
}

func (d *decoder) bytes() []byte {
	n := d.uvarint()
	if n > uint64(len(d.b)) {
		d.fail("a field of %d bytes where %d are left", n, len(d.b))
		return nil
	}
	if n == 0 {
		return nil
	}
	v := d.b[:n:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) str() string { return alias(d.bytes()) }

func (d *decoder) key() Key {
	b := d.bytes()
	if d.err != nil {
		return Key{}
	}
	k, err := DecodeKey(b)
	if err != nil {
		d.fail("%w", err)
	}
	return k
}

// alias is b as a string without a copy: replay decodes millions of records
// whose strings live no longer than the block they stand in.
func alias(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

func appendBytes[T string | []byte](dst []byte, v T) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(v)))
	return append(dst, v...)
}

func uvarintLen(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }
