package wal

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/oncelog/oncelog/internal/durable"
	"github.com/oncelog/oncelog/internal/simdisk"
)

// FuzzParseBlock: no bytes make it panic or read past their end, and what it
// takes for a block is one.
func FuzzParseBlock(f *testing.F) {
	f.Add(goldenBlock())
	f.Add(goldenBlock()[:45])
	f.Add(bytes.Repeat([]byte{0}, 100))
	f.Add(append([]byte("OLB\x01"), bytes.Repeat([]byte{0xff}, 60)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, reason := parseBlock(goldenID, b)
		if reason != "" {
			return
		}
		again := bytes.Clone(b[:h.size()])
		if sum := finishBlock(goldenID, again, h.count, h.first, h.previous); sum != h.checksum || !bytes.Equal(again, b[:h.size()]) {
			t.Errorf("%x is taken for a block and is none", b)
		}
	})
}

// FuzzScan: any bytes as the tail of a log are refused as corrupt, or the log
// opens with what was acknowledged, can be appended to, and opens again with the
// same records.
func FuzzScan(f *testing.F) {
	o := simOptions()
	l, err := Create(o, 0, record(1))
	if err != nil {
		f.Fatal(err)
	}
	path := l.store.list()[0].path
	if err := l.Close(); err != nil {
		f.Fatal(err)
	}
	whole, err := durable.ReadFile(o.FS, path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole, false)
	f.Add(whole[:len(whole)-1], true)
	f.Add(append(bytes.Clone(whole), whole...), true)
	f.Add([]byte{}, true)
	f.Fuzz(func(t *testing.T, b []byte, watermark bool) {
		o := simOptions()
		if err := durable.WriteFile(o.FS, path, b); err != nil {
			t.Fatal(err)
		}
		if watermark {
			if err := durable.WriteFile(o.FS, o.Watermark, mark{lsn: 1}.encode(o.ID)); err != nil {
				t.Fatal(err)
			}
		}
		l, _, err := Open(o, nil)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("open fails with %v", err)
			}
			return
		}
		last := l.Durable()
		ticket, err := l.Append([]byte("one more"), 0)
		if err == nil {
			err = ticket.Wait()
		}
		if err != nil {
			t.Fatal(err)
		}
		before := all(t, l)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if l, _, err = Open(o, nil); err != nil {
			t.Fatalf("it opened once and then says %v", err)
		}
		if after := all(t, l); len(after) != len(before) || l.Durable() != last+1 {
			t.Errorf("%d records before and %d after", len(before), len(after))
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func simOptions() Options {
	fs := simdisk.New(rand.New(rand.NewPCG(1, 2))).FS()
	o := Options{FS: fs, Dir: "/wal", Quarantine: "/quarantine", Watermark: "/durable", ID: goldenID, Store: StoreDirect, SegmentSize: 1 << 10}
	if err := durable.MkdirAll(fs, o.Dir); err != nil {
		panic(err)
	}
	return o
}

func all(t *testing.T, l *Log) (records []string) {
	for r, err := range l.Records(l.First()) {
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, string(r.Data))
	}
	return records
}
