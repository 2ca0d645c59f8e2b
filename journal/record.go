package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// A Kind is the kind of a record. The numbers are part of the disk format.
type Kind byte

// The kinds of records.
const (
	KindEpoch     Kind = 1  // the ledger was opened
	KindAccepted  Kind = 2  // the marker
	KindExecuted  Kind = 3  // the outcome
	KindConfirmed Kind = 4  // the backend has it
	KindReleased  Kind = 5  // the attempt did not happen
	KindDoubt     Kind = 6  // nobody can tell
	KindObserved  Kind = 7  // a late word on an attempt that was decided otherwise
	KindForgotten Kind = 8  // the key is fresh again
	KindAmnesia   Kind = 9  // acknowledged records are known to be lost, or no longer
	KindAged      Kind = 10 // time has passed; what is settled before an LSN is let go
	numKinds      Kind = 11

	// SkipBit is set in kinds that a reader which does not know them may skip.
	SkipBit Kind = 0x80
)

var kindNames = [numKinds]string{
	"", "epoch", "accepted", "executed", "confirmed", "released", "doubt", "observed", "forgotten", "amnesia", "aged",
}

// String is the kind's name as `dump` prints it.
func (k Kind) String() string {
	if k > 0 && k < numKinds {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", byte(k))
}

// ErrBadRecord reports bytes that are not a record, or not one this version may
// read.
var ErrBadRecord = errors.New("bad record")

// A Record is one line of the log. Which fields it has depends on its kind; see
// the package comment. The others are zero and are not written.
type Record struct {
	Kind        Kind
	Key         Key
	Attempt     uint32
	Epoch       uint64 // of the ledger when it wrote an epoch or accepted record
	Time        int64  // ms since 1970 UTC; for people and retention, never for order
	Open        int64  // epoch, aged: ms that the ledger is known to have been open
	Keys        uint64 // aged: settled keys without a record from this LSN on are gone
	Results     uint64 // aged: their results are gone
	Fingerprint uint64 // of the input, see [Fingerprint]; 0 for none
	Input       []byte // accepted: kept for a later attempt where the effect asks for it
	Cause       Cause
	Failed      bool   // executed: a permanent failure
	Settles     bool   // executed: there is nothing to confirm
	NoResult    bool   // executed: the result was too large to keep
	Landed      bool   // observed: the late word is that it happened; amnesia: begins
	Result      []byte // executed: what Run returned
	Reason      string // executed: why it failed
	Note        string // evidence, or who decided and why
	raw         []byte // a skippable record of an unknown kind, whole
}

// Flags of executed, observed and amnesia records.
const (
	flagFailed   = 1 << 0
	flagSettles  = 1 << 1
	flagNoResult = 1 << 2
	flagLanded   = 1 << 0
)

// HasKey reports whether records of this kind are about a key.
func (k Kind) HasKey() bool { return k >= KindAccepted && k <= KindForgotten }

// Known reports whether this version knows the kind.
func (k Kind) Known() bool { return k > 0 && k < numKinds }

// Clone returns a record that shares no memory with the buffer it was decoded
// from.
func (r Record) Clone() Record {
	r.Key = r.Key.Clone()
	r.Input = append([]byte(nil), r.Input...)
	r.Result = append([]byte(nil), r.Result...)
	r.Reason = strings.Clone(r.Reason)
	r.Note = strings.Clone(r.Note)
	r.raw = append([]byte(nil), r.raw...)
	return r
}

// AppendTo appends the record's encoding. Times before 1970 are written as 1970:
// a clock that is off must not make a log that cannot be read. It panics on a
// kind that this version does not know: that is a programmer's error.
func (r *Record) AppendTo(dst []byte) []byte {
	if r.raw != nil {
		return append(dst, r.raw...)
	}
	dst = append(dst, byte(r.Kind))
	if r.Kind.HasKey() {
		dst = binary.AppendUvarint(dst, uint64(r.Key.wireLen()))
		dst = r.Key.AppendTo(dst)
	}
	switch r.Kind {
	case KindEpoch:
		dst = binary.AppendUvarint(dst, r.Epoch)
		dst = appendMS(dst, r.Time)
		dst = appendMS(dst, r.Open)
		return appendBytes(dst, r.Note)
	case KindAccepted:
		dst = binary.AppendUvarint(dst, uint64(r.Attempt))
		dst = binary.AppendUvarint(dst, r.Epoch)
		dst = appendMS(dst, r.Time)
		dst = binary.LittleEndian.AppendUint64(dst, r.Fingerprint)
		return appendBytes(dst, r.Input)
	case KindExecuted:
		dst = r.appendStep(dst)
		dst = append(dst, byte(r.Cause), r.flags())
		dst = appendBytes(dst, r.Result)
		dst = appendBytes(dst, r.Reason)
		return appendBytes(dst, r.Note)
	case KindConfirmed:
		return r.appendStep(dst)
	case KindReleased, KindDoubt:
		dst = r.appendStep(dst)
		dst = append(dst, byte(r.Cause))
		return appendBytes(dst, r.Note)
	case KindObserved:
		dst = r.appendStep(dst)
		dst = append(dst, r.flags())
		return appendBytes(dst, r.Note)
	case KindForgotten:
		dst = appendMS(dst, r.Time)
		return appendBytes(dst, r.Note)
	case KindAmnesia:
		dst = append(dst, r.flags())
		dst = appendMS(dst, r.Time)
		return appendBytes(dst, r.Note)
	case KindAged:
		dst = appendMS(dst, r.Time)
		dst = appendMS(dst, r.Open)
		dst = binary.AppendUvarint(dst, r.Keys)
		return binary.AppendUvarint(dst, r.Results)
	}
	panic(fmt.Sprintf("journal: encoding a record of unknown %v", r.Kind))
}

func (r *Record) appendStep(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(r.Attempt))
	return appendMS(dst, r.Time)
}

func appendMS(dst []byte, ms int64) []byte {
	return binary.AppendUvarint(dst, uint64(max(ms, 0)))
}

func (r *Record) flags() byte {
	var f byte
	if r.Kind == KindExecuted {
		if r.Failed {
			f |= flagFailed
		}
		if r.Settles {
			f |= flagSettles
		}
		if r.NoResult {
			f |= flagNoResult
		}
		return f
	}
	if r.Landed {
		f |= flagLanded
	}
	return f
}

// KeyOf finds the key, in its wire form, in an encoded record without decoding
// the rest; false where it has none, or does not parse.
func KeyOf(record []byte) (wire []byte, ok bool) {
	if len(record) == 0 || !Kind(record[0]).Known() || !Kind(record[0]).HasKey() {
		return nil, false
	}
	d := decoder{b: record[1:]}
	wire = d.bytes()
	return wire, d.err == nil
}

// DecodeRecord reads one record, which must fill b. It never panics, whatever b
// holds, and does not copy: the record's strings and bytes alias b and are valid
// as long as b is unchanged; see [Record.Clone]. Errors wrap [ErrBadRecord]. A
// record of an unknown kind with the skip bit decodes with that kind and nothing
// else.
func DecodeRecord(b []byte) (Record, error) {
	if len(b) == 0 {
		return Record{}, fmt.Errorf("journal: empty record: %w", ErrBadRecord)
	}
	r := Record{Kind: Kind(b[0])}
	if !r.Kind.Known() {
		if r.Kind&SkipBit == 0 {
			return Record{}, fmt.Errorf("journal: record of unknown %v without the skip bit; a newer oncelog wrote it: %w",
				r.Kind, ErrBadRecord)
		}
		r.raw = b
		return r, nil
	}
	d := decoder{b: b[1:]}
	if r.Kind.HasKey() {
		r.Key = d.key()
	}
	d.record(&r)
	if d.err == nil && len(d.b) > 0 {
		d.fail("%d bytes too many", len(d.b))
	}
	if d.err != nil {
		return Record{}, fmt.Errorf("journal: %v record: %w", r.Kind, d.err)
	}
	return r, nil
}

// record reads the fields after the key.
func (d *decoder) record(r *Record) {
	switch r.Kind {
	case KindEpoch:
		r.Epoch, r.Time, r.Open = d.uvarint(), d.ms(), d.ms()
		r.Note = d.str()
	case KindAccepted:
		r.Attempt, r.Epoch, r.Time = d.attempt(), d.uvarint(), d.ms()
		r.Fingerprint = d.uint64()
		r.Input = d.bytes()
	case KindExecuted:
		r.Attempt, r.Time = d.attempt(), d.ms()
		r.Cause = d.cause(Cause.executes)
		f := d.flags(flagFailed | flagSettles | flagNoResult)
		r.Failed, r.Settles, r.NoResult = f&flagFailed != 0, f&flagSettles != 0, f&flagNoResult != 0
		r.Result, r.Reason, r.Note = d.bytes(), d.str(), d.str()
	case KindConfirmed:
		r.Attempt, r.Time = d.attempt(), d.ms()
	case KindReleased:
		r.Attempt, r.Time = d.attempt(), d.ms()
		r.Cause, r.Note = d.cause(Cause.Releases), d.str()
	case KindDoubt:
		r.Attempt, r.Time = d.attempt(), d.ms()
		r.Cause, r.Note = d.cause(Cause.doubts), d.str()
	case KindObserved:
		r.Attempt, r.Time = d.attempt(), d.ms()
		r.Landed, r.Note = d.flags(flagLanded) != 0, d.str()
	case KindForgotten:
		r.Time, r.Note = d.ms(), d.str()
	case KindAmnesia:
		r.Landed = d.flags(flagLanded) != 0
		r.Time, r.Note = d.ms(), d.str()
	case KindAged:
		r.Time, r.Open = d.ms(), d.ms()
		r.Keys, r.Results = d.uvarint(), d.uvarint()
	}
}
