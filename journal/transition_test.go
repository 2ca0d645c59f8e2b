package journal

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// expectations is the transition table as a person would write it: what is not
// here is refused. "last" is the entry's attempt, "next" the one after it.
const expectations = `
state      record     attempt       cause                                       then
absent     accepted   next          -                                           accepted
absent     doubt      next          amnesia                                     in_doubt
absent     observed   last,earlier  -                                           absent
accepted   executed   last          run,operator,landed,exhausted               executed
accepted   released   last          not-applied,not-landed,operator,idempotent  released
accepted   doubt      last          DOUBTS                                      in_doubt
accepted   observed   last,earlier  -                                           accepted
accepted   forgotten  ANY           -                                           absent
in_doubt   executed   last          run,operator,landed,exhausted               executed
in_doubt   released   last          not-applied,not-landed,operator,idempotent  released
in_doubt   doubt      last          DOUBTS                                      in_doubt
in_doubt   observed   last,earlier  -                                           in_doubt
in_doubt   forgotten  ANY           -                                           absent
executed   confirmed  last          -                                           confirmed
executed   released   last          not-landed,operator                         released
executed   observed   last,earlier  -                                           executed
executed   forgotten  ANY           -                                           absent
confirmed  confirmed  last          -                                           confirmed
confirmed  observed   last,earlier  -                                           confirmed
confirmed  forgotten  ANY           -                                           absent
released   accepted   next          -                                           accepted
released   executed   last          run,operator,landed,exhausted               executed
released   doubt      last          amnesia                                     in_doubt
released   observed   last,earlier  -                                           released
released   forgotten  ANY           -                                           absent
`

var attemptWords = []string{"zero", "earlier", "last", "next", "later"}

// expected reads the table into "state record attempt cause" → next state.
func expected(t *testing.T) map[string]string {
	t.Helper()
	r := strings.NewReplacer("DOUBTS", "error,timeout,cancelled,panic,owner-gone,unknown,amnesia",
		"ANY", strings.Join(attemptWords, ","))
	table := map[string]string{}
	for line := range strings.Lines(expectations[strings.Index(expectations, "absent"):]) {
		f := strings.Fields(r.Replace(line))
		if len(f) != 5 {
			t.Fatalf("line %q has %d fields, want 5", line, len(f))
		}
		for attempt := range strings.SplitSeq(f[2], ",") {
			for cause := range strings.SplitSeq(f[3], ",") {
				table[strings.Join([]string{f[0], f[1], attempt, cause}, " ")] = f[4]
			}
		}
	}
	return table
}

// inEveryState is an entry in each state, all of attempt 2 after a released one,
// but for a key that was never seen.
func inEveryState(t *testing.T) map[string]Entry {
	t.Helper()
	first := []Record{
		{Kind: KindAccepted, Attempt: 1, Epoch: 1, Time: 10, Fingerprint: 7, Input: []byte("in")},
		{Kind: KindReleased, Attempt: 1, Time: 20, Cause: NotApplied},
	}
	accepted := Record{Kind: KindAccepted, Attempt: 2, Epoch: 1, Time: 30, Fingerprint: 7}
	executed := Record{Kind: KindExecuted, Attempt: 2, Time: 40, Cause: Run, Result: []byte("out")}
	then := map[string][]Record{
		"never seen": {},
		"absent":     {accepted, executed, {Kind: KindForgotten, Time: 50}},
		"accepted":   {accepted},
		"in_doubt":   {accepted, {Kind: KindDoubt, Attempt: 2, Time: 40, Cause: TimedOut}},
		"executed":   {accepted, executed},
		"confirmed":  {accepted, executed, {Kind: KindConfirmed, Attempt: 2, Time: 50}},
		"released":   {accepted, {Kind: KindReleased, Attempt: 2, Time: 40, Cause: NotLanded}},
	}
	entries := map[string]Entry{}
	for name, recs := range then {
		var e Entry
		if name != "never seen" {
			recs = append(first[:2:2], recs...)
		}
		for i := range recs {
			if err := e.Apply(&recs[i], uint64(i+1)); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if got := e.State.String(); got != name && name != "never seen" {
			t.Fatalf("the entry meant to be %s is %s", name, got)
		}
		entries[name] = e
	}
	return entries
}

func attemptOf(e *Entry, word string) uint32 {
	switch word {
	case "earlier":
		return e.Attempt - 1
	case "last":
		return e.Attempt
	case "next":
		return e.Attempt + 1
	case "later":
		return e.Attempt + 2
	}
	return 0
}

func causeWord(c Cause) string {
	if c == NoCause {
		return "-"
	}
	return c.String()
}

func TestTransitionTable(t *testing.T) {
	want := expected(t)
	hit := map[string]bool{}
	tried := 0
	for name, start := range inEveryState(t) {
		for kind := range Kind(255) {
			for _, word := range attemptWords {
				for c := range numCauses + 2 {
					row := fmt.Sprintf("%v %v %s %s", start.State, kind, word, causeWord(c))
					attempt := attemptOf(&start, word)
					if name == "never seen" && (word == "earlier" || word == "last") {
						continue // there is none
					}
					rec := Record{Kind: kind, Attempt: attempt, Time: 100, Cause: c}
					checkStep(t, name, row, want[row], start, &rec)
					hit[row] = true
					tried++
				}
			}
		}
	}
	for row := range want {
		if !hit[row] {
			t.Errorf("the row %q was never tried", row)
		}
	}
	if tried < 7*255*3*int(numCauses) {
		t.Errorf("only %d steps were tried", tried)
	}
}

// checkStep applies rec to a copy of the entry and compares; next is empty where
// a refusal is due.
func checkStep(t *testing.T, name, row, next string, start Entry, rec *Record) {
	t.Helper()
	e, before := start.Clone(), start.Clone()
	permits := e.Permits(rec)
	err := e.Apply(rec, 1000)
	if (permits == nil) != (err == nil) {
		t.Errorf("%s, %s: Permits says %v, Apply says %v", name, row, permits, err)
	}
	if next == "" {
		if !errors.Is(err, ErrRefused) {
			t.Errorf("%s, %s: Apply gave %v, want ErrRefused", name, row, err)
		}
		if !reflect.DeepEqual(e, before) {
			t.Errorf("%s, %s: refused, and the entry has changed\nfrom %+v\nto   %+v", name, row, before, e)
		}
		return
	}
	switch {
	case err != nil:
		t.Errorf("%s, %s: %v, want %s", name, row, err, next)
	case e.State.String() != next:
		t.Errorf("%s, %s: the state is %v, want %s", name, row, e.State, next)
	case e.LSN != 1000:
		t.Errorf("%s, %s: the entry's LSN is %d, want 1000", name, row, e.LSN)
	case rec.Kind == KindAccepted && e.Attempt != before.Attempt+1:
		t.Errorf("%s, %s: the attempt is %d after %d", name, row, e.Attempt, before.Attempt)
	}
	if !reflect.DeepEqual(start, before) {
		t.Errorf("%s, %s: a copy of the entry has changed", name, row)
	}
	rec.Key = Key{Effect: "e", Item: "i"}
	if _, err := DecodeRecord(rec.AppendTo(nil)); err != nil {
		t.Errorf("%s, %s: permitted, and does not decode: %v", name, row, err)
	}
}

// A key in the last attempt that has a number is not accepted again.
func TestAttemptsRunOut(t *testing.T) {
	e := Entry{State: Released, Attempt: 1<<32 - 1, FirstOf: 1}
	for _, attempt := range []uint32{0, 1, 1<<32 - 1} {
		if err := e.Apply(&Record{Kind: KindAccepted, Attempt: attempt}, 1); !errors.Is(err, ErrRefused) {
			t.Errorf("attempt %d after the last number: %v, want ErrRefused", attempt, err)
		}
	}
}

// walk applies n drawn records, each kind and cause as likely, attempts mostly
// near the entry's, and returns the entry with all that were permitted.
func walk(t *rapid.T, n int) (Entry, []Record) {
	var e Entry
	var done []Record
	for range n {
		r := genRecord(KindAccepted+Kind(rapid.IntRange(0, int(KindForgotten-KindAccepted)).Draw(t, "kind"))).Draw(t, "record")
		r.Attempt = rapid.SampledFrom([]uint32{max(e.Attempt, 1), e.Attempt + 1, max(e.Attempt, 2) - 1}).Draw(t, "attempt")
		before := e.Clone()
		if err := e.Apply(&r, uint64(len(done)+1)); err != nil {
			if !errors.Is(err, ErrRefused) || !reflect.DeepEqual(e, before) {
				t.Fatalf("refused with %v: the entry went\nfrom %+v\nto   %+v", err, before, e)
			}
			continue
		}
		done = append(done, r)
	}
	return e, done
}

// What is decoded goes on as what was never encoded: the fold does not depend on
// where an entry was kept meanwhile.
func TestFoldThroughCodec(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want, recs := walk(t, 30)
		var got Entry
		for i := range recs {
			if err := got.Apply(&recs[i], uint64(i+1)); err != nil {
				t.Fatalf("record %d: %v", i, err)
			}
			var err error
			if got, err = DecodeEntry(got.AppendTo(nil)); err != nil {
				t.Fatalf("record %d: %v", i, err)
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("through the codec %+v\nwithout           %+v", got, want)
		}
	})
}
