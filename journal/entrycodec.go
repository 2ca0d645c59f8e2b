package journal

import (
	"encoding/binary"
	"fmt"
	"math"
)

// The entry codec, for the index and the snapshots. A first byte holds the state
// in its low three bits and these flags:
const (
	entryFailed    = 1 << 3
	entryNoResult  = 1 << 4
	entryConflict  = 1 << 5
	entryRich      = 1 << 6 // the fields after the result follow
	entryNoFp      = 1 << 7 // no fingerprint
	entryStateMask = 7
)

// AppendTo appends the entry's encoding: the first byte, then LSN, accepted,
// executed minus accepted and since minus executed as varints, the fingerprint in
// 8 bytes, the length of the result and the result; for other than plainly
// settled keys then attempt, first of generation, generation, epoch, cause,
// input, reason, dropped and the history. A plainly settled key, which is one
// that went straight ([Entry.Events]) to a success, so costs 22 to 26 bytes
// beyond its result.
func (e *Entry) AppendTo(dst []byte) []byte {
	rich := !e.plain()
	dst = append(dst, e.firstByte(rich))
	dst = binary.AppendUvarint(dst, e.LSN)
	dst = binary.AppendVarint(dst, e.AcceptedAt)
	dst = binary.AppendVarint(dst, e.ExecutedAt-e.AcceptedAt)
	dst = binary.AppendVarint(dst, e.Since-e.ExecutedAt)
	if e.Fingerprint != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, e.Fingerprint)
	}
	dst = appendBytes(dst, e.Result)
	if !rich {
		return dst
	}
	for _, v := range [...]uint64{uint64(e.Attempt), uint64(e.FirstOf), uint64(e.Generation), e.Epoch} {
		dst = binary.AppendUvarint(dst, v)
	}
	dst = append(dst, byte(e.Cause))
	dst = appendBytes(dst, e.Input)
	dst = appendBytes(dst, e.Reason)
	dst = binary.AppendUvarint(dst, uint64(e.Dropped))
	dst = binary.AppendUvarint(dst, uint64(len(e.History)))
	for i := range e.History {
		dst = e.History[i].appendTo(dst)
	}
	return dst
}

func (e *Entry) firstByte(rich bool) byte {
	b := byte(e.State)
	for _, f := range [...]struct {
		set bool
		bit byte
	}{
		{e.Failed, entryFailed}, {e.NoResult, entryNoResult}, {e.Conflict, entryConflict},
		{rich, entryRich}, {e.Fingerprint == 0, entryNoFp},
	} {
		if f.set {
			b |= f.bit
		}
	}
	return b
}

func (ev *Event) appendTo(dst []byte) []byte {
	dst = append(dst, byte(ev.Kind), byte(ev.Cause), ev.flags())
	dst = binary.AppendUvarint(dst, ev.LSN)
	dst = binary.AppendUvarint(dst, uint64(ev.Attempt))
	dst = binary.AppendVarint(dst, ev.Time)
	return appendBytes(dst, ev.Note)
}

func (ev *Event) flags() byte {
	var f byte
	if ev.Failed {
		f |= 1
	}
	if ev.Landed {
		f |= 2
	}
	return f
}

// DecodeEntry reads what AppendTo wrote, which must fill b. It never panics; its
// errors wrap [ErrBadRecord]. The entry's bytes and strings alias b.
func DecodeEntry(b []byte) (e Entry, err error) {
	err = e.Decode(b)
	return e, err
}

// Decode is [DecodeEntry] in place, for who decodes millions. e must be the zero
// Entry, and is of no use after an error.
func (e *Entry) Decode(b []byte) error {
	if e.decodePlain(b) {
		return nil
	}
	*e = Entry{}
	d := decoder{b: b}
	first := d.byte()
	e.State = State(first & entryStateMask)
	e.Failed = first&entryFailed != 0
	e.NoResult = first&entryNoResult != 0
	e.Conflict = first&entryConflict != 0
	if e.State >= numStates {
		d.fail("unknown %v", e.State)
	}
	e.LSN = d.uvarint()
	e.AcceptedAt = d.varint()
	e.ExecutedAt = e.AcceptedAt + d.varint()
	e.Since = e.ExecutedAt + d.varint()
	if first&entryNoFp == 0 {
		if e.Fingerprint = d.uint64(); e.Fingerprint == 0 {
			d.fail("fingerprint 0 where one is due")
		}
	}
	e.Result = d.bytes()
	if first&entryRich != 0 {
		d.rich(e)
	} else {
		e.Attempt, e.FirstOf, e.Cause = 1, 1, Run
	}
	if d.err == nil && len(d.b) > 0 {
		d.fail("%d bytes too many", len(d.b))
	}
	if d.err == nil && e.plain() != (first&entryRich == 0) {
		d.fail("the entry is not in its shortest form")
	}
	if d.err != nil {
		return fmt.Errorf("journal: entry: %w", d.err)
	}
	return nil
}

// decodePlain is Decode for a settled key that went straight, which nearly all
// are, at half the cost. It reports false, with e in any state, for all others and
// for whatever it is not sure of.
func (e *Entry) decodePlain(b []byte) bool {
	if len(b) < 14 || b[0]&^entryNoResult != byte(Confirmed) {
		return false
	}
	var accepted, executed, since, result uint64
	var ok [5]bool
	i := 1
	e.LSN, i, ok[0] = plainUvarint(b, i)
	accepted, i, ok[1] = plainUvarint(b, i)
	executed, i, ok[2] = plainUvarint(b, i)
	since, i, ok[3] = plainUvarint(b, i)
	if len(b)-i < 8 {
		return false
	}
	e.Fingerprint = binary.LittleEndian.Uint64(b[i:])
	result, i, ok[4] = plainUvarint(b, i+8)
	if ok != [5]bool{true, true, true, true, true} || e.Fingerprint == 0 || result != uint64(len(b)-i) {
		return false
	}
	e.State, e.NoResult = Confirmed, b[0]&entryNoResult != 0
	e.AcceptedAt = unzigzag(accepted)
	e.ExecutedAt = e.AcceptedAt + unzigzag(executed)
	e.Since = e.ExecutedAt + unzigzag(since)
	e.Attempt, e.FirstOf, e.Cause = 1, 1, Run
	if result > 0 {
		e.Result = b[i:len(b):len(b)]
	}
	return true
}

// plainUvarint reads a minimal uvarint of at most 63 bits at b[i:].
func plainUvarint(b []byte, i int) (v uint64, next int, ok bool) {
	for shift := 0; i < len(b) && shift < 63; shift += 7 {
		c := b[i]
		i++
		if c < 0x80 {
			return v | uint64(c)<<shift, i, c != 0 || shift == 0
		}
		v |= uint64(c&0x7f) << shift
	}
	return 0, i, false
}

func unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

func (d *decoder) rich(e *Entry) {
	e.Attempt, e.FirstOf, e.Generation = d.uint32(), d.uint32(), d.uint32()
	e.Epoch = d.uvarint()
	e.Cause = d.anyCause()
	e.Input = d.bytes()
	e.Reason = d.str()
	e.Dropped = d.uint32()
	n := d.uvarint()
	if n > MaxHistory {
		d.fail("a history of %d events, want at most %d", n, MaxHistory)
		return
	}
	if n > 0 && d.err == nil {
		e.History = make([]Event, 0, n)
	}
	for range n {
		if d.err != nil {
			return
		}
		e.History = append(e.History, d.event())
	}
}

func (d *decoder) event() Event {
	ev := Event{Kind: Kind(d.byte())}
	if d.err == nil && !ev.Kind.HasKey() {
		d.fail("an event of %v", ev.Kind)
	}
	ev.Cause = d.anyCause()
	f := d.flags(3)
	ev.Failed, ev.Landed = f&1 != 0, f&2 != 0
	ev.LSN, ev.Attempt, ev.Time = d.uvarint(), d.uint32(), d.varint()
	ev.Note = d.str()
	return ev
}

func (d *decoder) anyCause() Cause {
	return d.cause(func(c Cause) bool { return c < numCauses })
}

func (d *decoder) uint32() uint32 {
	v := d.uvarint()
	if v > math.MaxUint32 {
		d.fail("%d does not fit in 32 bits", v)
		return 0
	}
	return uint32(v)
}

func (d *decoder) varint() int64 {
	u := d.uvarint()
	return int64(u>>1) ^ -int64(u&1)
}
