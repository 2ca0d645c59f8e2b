package journal

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const goldenKey = "0a 73656e642d656d61696c 6f726465722f3137" // 10, send-email, order/17

// goldenRecords are the samples' bytes. They are the disk format: a change here
// makes existing ledgers unreadable.
var goldenRecords = []string{
	"01 ac02 80d0eab6b733 8827 05 686f737431",
	"02 13 " + goldenKey + " 01 ac02 80d0eab6b733 0102030405060708 02 696e",
	"03 13 " + goldenKey + " 01 81d0eab6b733 01 02 02 6f6b 00 01 6e",
	"03 13 " + goldenKey + " c801 81d0eab6b733 07 05 00 04 676f6e65 00",
	"04 13 " + goldenKey + " 01 82d0eab6b733",
	"05 13 " + goldenKey + " 01 82d0eab6b733 03 03 343034",
	"06 13 " + goldenKey + " 01 82d0eab6b733 09 03 333073",
	"07 13 " + goldenKey + " 01 83d0eab6b733 01 04 6c617465",
	"08 13 " + goldenKey + " 84d0eab6b733 0a 616e6e3a20616761696e",
	"09 01 80d0eab6b733 08 726573746f726564",
	"0a 80d0eab6b733 e807 64 c801",
}

func TestRecordGolden(t *testing.T) {
	seen := map[Kind]bool{}
	for i, r := range samples() {
		seen[r.Kind] = true
		want := compact(goldenRecords[i])
		if got := hex.EncodeToString(r.AppendTo(nil)); got != want {
			t.Errorf("%v record:\ngot  %s\nwant %s", r.Kind, got, want)
		}
		b, err := hex.DecodeString(want)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := DecodeRecord(b); err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("%s decodes to %+v, %v\nwant %+v", want, got, err, r)
		}
	}
	for k := KindEpoch; k < numKinds; k++ {
		if !seen[k] {
			t.Errorf("no sample of %v", k)
		}
	}
}

var goldenEntries = map[string]string{
	"plain": "04 80ade204 80a0d5edee66 f403 ac02 0102030405060708 02 6f6b",
	"rich": "7b 4d 80a0d5edee66 0a 00 0100000000000000 01 72 03 02 01 09 06 02 696e 03 776879 02 02" +
		" 02 00 00 46 02 80a0d5edee66 00  03 06 03 4d 03 8aa0d5edee66 04 7365656e",
	"absent": "c0 00 00 00 00 00 00 00 00 00 00 00 00 00 00",
}

func TestEntryGolden(t *testing.T) {
	for name, e := range sampleEntries() {
		want := compact(goldenEntries[name])
		if got := hex.EncodeToString(e.AppendTo(nil)); got != want {
			t.Errorf("%s entry:\ngot  %s\nwant %s", name, got, want)
		}
		b, err := hex.DecodeString(want)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := DecodeEntry(b); err != nil || !reflect.DeepEqual(got, e) {
			t.Errorf("%s decodes to %+v, %v\nwant %+v", want, got, err, e)
		}
	}
}

func TestRecordRoundTrip(t *testing.T) {
	for k := KindEpoch; k < numKinds; k++ {
		t.Run(k.String(), rapid.MakeCheck(func(t *rapid.T) {
			want := genRecord(k).Draw(t, "record")
			b := want.AppendTo(nil)
			got, err := DecodeRecord(b)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("got  %+v, %v\nwant %+v", got, err, want)
			}
			if again := got.AppendTo(nil); !bytes.Equal(again, b) {
				t.Fatalf("encoded again %x\nwant %x", again, b)
			}
			clone := got.Clone()
			clear(b)
			if !reflect.DeepEqual(clone, want) {
				t.Fatalf("the clone changed with the buffer: %+v\nwant %+v", clone, want)
			}
		}))
	}
}

func TestEntryRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := genEntry.Draw(t, "entry")
		if rapid.Bool().Draw(t, "walked") {
			want, _ = walk(t, 12)
		}
		b := want.AppendTo(nil)
		got, err := DecodeEntry(b)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("got  %+v, %v\nwant %+v", got, err, want)
		}
		if again := got.AppendTo(nil); !bytes.Equal(again, b) {
			t.Fatalf("encoded again %x\nwant %x", again, b)
		}
		clone := got.Clone()
		clear(b)
		if !reflect.DeepEqual(clone, want) {
			t.Fatalf("the clone changed with the buffer: %+v\nwant %+v", clone, want)
		}
	})
}

func TestDecodeRecordRefuses(t *testing.T) {
	for name, b := range map[string]string{
		"nothing":              "",
		"kind 0":               "00",
		"unknown kind":         "0a 00",
		"unknown kind 127":     "7f",
		"key cut off":          "04 13 0a 73",
		"empty item":           "04 02 01 65 01 00",
		"empty effect":         "04 02 00 69 01 00",
		"effect with a slash":  "04 04 02 652f 69 01 00",
		"attempt 0":            "04 03 01 65 69 00 00",
		"attempt of 33 bits":   "04 03 01 65 69 8080808010 00",
		"time of 64 bits":      "04 03 01 65 69 01 ffffffffffffffffff01",
		"long varint":          "04 03 01 65 69 8100 00",
		"a byte too many":      "04 03 01 65 69 01 00 00",
		"unknown flag":         "07 03 01 65 69 01 00 02 00",
		"cause of another":     "05 03 01 65 69 01 00 01 00", // run does not release
		"unknown cause":        "06 03 01 65 69 01 00 0f 00",
		"note longer than all": "08 03 01 65 69 00 7f 61",
		"half a fingerprint":   "02 03 01 65 69 01 01 00 01020304",
	} {
		raw, err := hex.DecodeString(compact(b))
		if err != nil {
			t.Fatal(err)
		}
		r, err := DecodeRecord(raw)
		if !errors.Is(err, ErrBadRecord) || !strings.HasPrefix(err.Error(), "journal: ") {
			t.Errorf("%s: %v, want ErrBadRecord", name, err)
		}
		if !reflect.DeepEqual(r, Record{}) {
			t.Errorf("%s: refused, and gives %+v", name, r)
		}
	}
}

func TestDecodeEntryRefuses(t *testing.T) {
	plain, rich := compact(goldenEntries["plain"]), compact(goldenEntries["rich"])
	for name, b := range map[string]string{
		"nothing":               "",
		"unknown state":         "06" + plain[2:],
		"plain and not settled": "03" + plain[2:],
		"plain with a conflict": "24" + plain[2:],
		"a byte too many":       plain + "00",
		"rich, a byte too many": rich + "00",
		"fingerprint 0":         strings.Replace(plain, "0102030405060708", "0000000000000000", 1),
		"rich and plain enough": "c4 01 00 00 00 00 01 01 00 00 01 00 00 00 00",
		"129 events":            "c0 00 00 00 00 00 00 00 00 00 00 00 00 00 8101",
		"an event of epoch":     "c0 00 00 00 00 00 00 00 00 00 00 00 00 00 01 01 00 00 00 00 00 00",
	} {
		raw, err := hex.DecodeString(compact(b))
		if err != nil {
			t.Fatal(err)
		}
		if e, err := DecodeEntry(raw); !errors.Is(err, ErrBadRecord) {
			t.Errorf("%s: %+v, %v, want ErrBadRecord", name, e, err)
		}
	}
	for n := range len(rich) / 2 {
		raw, _ := hex.DecodeString(rich[:2*n])
		if _, err := DecodeEntry(raw); !errors.Is(err, ErrBadRecord) {
			t.Errorf("the first %d bytes of the rich entry: %v, want ErrBadRecord", n, err)
		}
	}
}

// A newer version's records that may be skipped keep their bytes.
func TestSkippableRecord(t *testing.T) {
	want := []byte{0x82, 1, 2, 3}
	r, err := DecodeRecord(want)
	if err != nil || r.Kind.Known() || r.Kind.HasKey() {
		t.Fatalf("%+v, %v: want an unknown kind", r, err)
	}
	if got := r.AppendTo(nil); !bytes.Equal(got, want) {
		t.Errorf("encoded again %x, want %x", got, want)
	}
	var e Entry
	if err := e.Apply(&r, 1); !errors.Is(err, ErrRefused) {
		t.Errorf("applied: %v, want ErrRefused", err)
	}
}

// A clock before 1970 must not make a log that cannot be replayed.
func TestTimeBefore1970(t *testing.T) {
	for _, r := range samples() {
		r.Time, r.Open = -1, -1
		got, err := DecodeRecord(r.AppendTo(nil))
		if err != nil || got.Time != 0 || got.Open != 0 {
			t.Errorf("%v record: time %d, open %d, %v; want 0, 0", r.Kind, got.Time, got.Open, err)
		}
	}
}

func FuzzDecodeRecord(f *testing.F) {
	for _, r := range samples() {
		f.Add(r.AppendTo(nil))
	}
	f.Add([]byte{0x80})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := DecodeRecord(b)
		if err != nil {
			if !errors.Is(err, ErrBadRecord) {
				t.Fatalf("%v does not wrap ErrBadRecord", err)
			}
			return
		}
		if got := r.AppendTo(nil); !bytes.Equal(got, b) {
			t.Fatalf("accepted %x\nencodes to %x", b, got)
		}
	})
}

func FuzzDecodeEntry(f *testing.F) {
	for _, e := range sampleEntries() {
		f.Add(e.AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := DecodeEntry(b)
		if err != nil {
			if !errors.Is(err, ErrBadRecord) {
				t.Fatalf("%v does not wrap ErrBadRecord", err)
			}
			return
		}
		if got := e.AppendTo(nil); !bytes.Equal(got, b) {
			t.Fatalf("accepted %x\nencodes to %x", b, got)
		}
		e.Events()
		for _, r := range samples() {
			c := e.Clone()
			_ = c.Apply(&r, e.LSN+1) // whatever was accepted can be gone on with
		}
	})
}
