package journal

import "testing"

// plainWay is what the log holds of a key that is accepted, executed and
// confirmed, with a result of 64 bytes.
func plainWay() [][]byte {
	key := Key{Effect: "send-email", Item: "0190b5a4-8c7e-7c3a-9d52-3f0a7f6b1c2d"}
	accepted, executed := acceptedRec(1, testTime), executedRec(1, testTime+120)
	executed.Result = make([]byte, 64)
	var all [][]byte
	for _, r := range []Record{accepted, executed, {Kind: KindConfirmed, Attempt: 1, Time: testTime + 200}} {
		r.Key = key
		all = append(all, r.AppendTo(nil))
	}
	return all
}

// BenchmarkReplay measures what a replayed key costs here: three records decoded and
// applied, and the entry encoded.
func BenchmarkReplay(b *testing.B) {
	recs := plainWay()
	b.ReportAllocs()
	var buf [256]byte
	for b.Loop() {
		var e Entry
		for i, rec := range recs {
			r, err := DecodeRecord(rec)
			if err != nil {
				b.Fatal(err)
			}
			if err := e.Apply(&r, uint64(1000+i)); err != nil {
				b.Fatal(err)
			}
		}
		e.AppendTo(buf[:0])
	}
}

func BenchmarkDecodeRecord(b *testing.B) {
	for _, rec := range plainWay() {
		b.Run(Kind(rec[0]).String(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := DecodeRecord(rec); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppendRecord(b *testing.B) {
	for _, rec := range plainWay() {
		r, err := DecodeRecord(rec)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(r.Kind.String(), func(b *testing.B) {
			b.ReportAllocs()
			var buf [256]byte
			for b.Loop() {
				r.AppendTo(buf[:0])
			}
		})
	}
}

func BenchmarkEntry(b *testing.B) {
	for name, e := range sampleEntries() {
		encoded := e.AppendTo(nil)
		b.Run("decode/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := DecodeEntry(encoded); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("append/"+name, func(b *testing.B) {
			b.ReportAllocs()
			buf := make([]byte, 0, 256)
			for b.Loop() {
				e.AppendTo(buf)
			}
		})
	}
}

func BenchmarkFingerprint(b *testing.B) {
	for name, input := range map[string]string{
		"json": `{"to":"ann@example.com","subject":"Your order 17","lines":[{"sku":"A-1","n":2},{"sku":"B-7","n":1}]}`,
		"text": "To: ann@example.com\r\nSubject: Your order 17\r\n\r\nThank you for your order of 2 A-1 and 1 B-7.\r\n",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Fingerprint([]byte(input))
			}
		})
	}
}
