package journal

import (
	"fmt"
	"reflect"
	"testing"
)

const testTime = 1_767_225_600_000 // 2026-01-01

// fold applies records to a key that was never seen, with LSNs from 101 on.
func fold(t testing.TB, recs ...Record) Entry {
	t.Helper()
	var e Entry
	for i := range recs {
		if err := e.Apply(&recs[i], uint64(101+i)); err != nil {
			t.Fatalf("record %d: %v", i, err)
		}
	}
	return e
}

func acceptedRec(attempt uint32, at int64) Record {
	return Record{Kind: KindAccepted, Attempt: attempt, Epoch: 4, Time: at, Fingerprint: 9}
}

func executedRec(attempt uint32, at int64) Record {
	return Record{Kind: KindExecuted, Attempt: attempt, Time: at, Cause: Run, Result: []byte("ok")}
}

// A key that goes straight keeps no list, and its events lose what Events says
// and nothing else.
func TestEventsOfStraightKey(t *testing.T) {
	accepted, executed := acceptedRec(1, testTime), executedRec(1, testTime+5)
	settled, failed := executed, executed
	settled.Settles = true
	failed.Failed, failed.Result, failed.Reason = true, nil, "no such address"
	confirmed := Record{Kind: KindConfirmed, Attempt: 1, Time: testTime + 9}
	for name, recs := range map[string][]Record{
		"accepted":         {accepted},
		"executed":         {accepted, executed},
		"settled":          {accepted, settled},
		"confirmed":        {accepted, executed, confirmed},
		"failed":           {accepted, failed},
		"failed confirmed": {accepted, failed, confirmed},
	} {
		e := fold(t, recs...)
		if e.History != nil {
			t.Errorf("%s: the entry keeps %+v", name, e.History)
		}
		want := eventsOf(recs)
		for i := range want[:len(want)-1] {
			want[i].LSN = 0
		}
		if got := e.Events(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: events\ngot  %+v\nwant %+v", name, got, want)
		}
	}
}

// eventsOf is what fold's entry should remember of the records.
func eventsOf(recs []Record) []Event {
	var evs []Event
	for i, r := range recs {
		evs = append(evs, Event{LSN: uint64(101 + i), Kind: r.Kind, Attempt: r.Attempt, Time: r.Time, Cause: r.Cause,
			Failed: r.Failed, Landed: r.Landed, Note: r.Note})
	}
	return evs
}

// The documented loss: a confirmation in the millisecond of the outcome.
func TestEventsConfirmedAtOnce(t *testing.T) {
	e := fold(t, acceptedRec(1, testTime), executedRec(1, testTime), Record{Kind: KindConfirmed, Attempt: 1, Time: testTime})
	evs := e.Events()
	if len(evs) != 2 || evs[1].Kind != KindExecuted || evs[1].LSN != 103 {
		t.Errorf("events %+v, want accepted and executed, the last of LSN 103", evs)
	}
}

// A key that leaves the straight way remembers how it came there, also when it
// was encoded meanwhile.
func TestHistoryAfterStraight(t *testing.T) {
	straight := []Record{acceptedRec(1, testTime), executedRec(1, testTime+5), {Kind: KindConfirmed, Attempt: 1, Time: testTime + 9}}
	for n := 1; n <= len(straight); n++ {
		e := fold(t, straight[:n]...)
		decoded, err := DecodeEntry(e.AppendTo(nil))
		if err != nil {
			t.Fatal(err)
		}
		forgotten := Record{Kind: KindForgotten, Time: testTime + 20, Note: "ann: again"}
		for _, e := range []Entry{e, decoded} {
			if err := e.Apply(&forgotten, 200); err != nil {
				t.Fatal(err)
			}
			if got := len(e.History); got != n+1 {
				t.Errorf("after %d records and a forgetting the history has %d events: %+v", n, got, e.History)
			}
			want := Event{LSN: 200, Kind: KindForgotten, Attempt: 1, Time: testTime + 20, Note: "ann: again"}
			if last := e.History[len(e.History)-1]; last != want {
				t.Errorf("the last event is %+v, want %+v", last, want)
			}
			if e.State != Absent || e.Generation != 1 || e.Attempt != 1 || e.Result != nil || e.Fingerprint != 0 {
				t.Errorf("forgotten, the entry is %+v", e)
			}
		}
	}
}

func TestMaxHistory(t *testing.T) {
	e := fold(t, acceptedRec(1, testTime))
	const doubts = MaxHistory + 50
	for i := range doubts {
		r := Record{Kind: KindDoubt, Attempt: 1, Time: testTime + 1 + int64(i), Cause: Unknown, Note: fmt.Sprint(i)}
		shared := e
		if err := e.Apply(&r, uint64(200+i)); err != nil {
			t.Fatal(err)
		}
		if n := len(shared.History); n > 1 && shared.History[1].Note == e.History[1].Note && e.Dropped > shared.Dropped {
			t.Fatal("dropping an event changed a copy of the entry")
		}
	}
	if len(e.History) != MaxHistory || e.Dropped != doubts+1-MaxHistory {
		t.Fatalf("%d events and %d dropped, want %d and %d", len(e.History), e.Dropped, MaxHistory, doubts+1-MaxHistory)
	}
	if first := e.History[0]; first.Kind != KindAccepted {
		t.Errorf("the first event is %+v, want the marker", first)
	}
	for i, ev := range e.History[1:] {
		if want := fmt.Sprint(doubts - (MaxHistory - 1) + i); ev.Note != want {
			t.Fatalf("event %d has the note %q, want %q", i+1, ev.Note, want)
		}
	}
	if e.Since != testTime+1 {
		t.Errorf("in doubt since %d, want %d: a doubt that is confirmed is no change", e.Since, testTime+1)
	}
	if got, err := DecodeEntry(e.AppendTo(nil)); err != nil || !reflect.DeepEqual(got, e) {
		t.Errorf("the round trip of a full history: %v", err)
	}
}

// Two copies of an entry go different ways without seeing each other.
func TestCopiesDoNotShareHistory(t *testing.T) {
	e := fold(t, acceptedRec(1, testTime), Record{Kind: KindDoubt, Attempt: 1, Cause: TimedOut, Note: "a"},
		Record{Kind: KindDoubt, Attempt: 1, Cause: Unknown, Note: "b"})
	one, two := e, e
	for i, c := range []*Entry{&one, &two} {
		if err := c.Apply(&Record{Kind: KindObserved, Attempt: 1, Note: fmt.Sprint(i)}, 300); err != nil {
			t.Fatal(err)
		}
	}
	if one.History[3].Note != "0" || two.History[3].Note != "1" || len(e.History) != 3 {
		t.Errorf("histories %+v and %+v share memory", one.History, two.History)
	}
}

// Apply keeps nothing of the record's buffer.
func TestApplyCopies(t *testing.T) {
	var e Entry
	recs := []Record{
		{Kind: KindAccepted, Attempt: 1, Epoch: 1, Time: 1, Input: []byte("input")},
		{Kind: KindDoubt, Attempt: 1, Time: 2, Cause: Failed, Note: "evidence"},
		{Kind: KindExecuted, Attempt: 1, Time: 3, Cause: Landed, Result: []byte("result"), Reason: "reason", Note: "note"},
	}
	for i := range recs {
		recs[i].Key = Key{Effect: "e", Item: "i"}
		b := recs[i].AppendTo(nil)
		r, err := DecodeRecord(b)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Apply(&r, uint64(i+1)); err != nil {
			t.Fatal(err)
		}
		clear(b)
	}
	if string(e.Input) != "input" || string(e.Result) != "result" || e.Reason != "reason" ||
		e.History[1].Note != "evidence" || e.History[2].Note != "note" {
		t.Errorf("the entry changed with the buffer: %+v", e)
	}
}

func TestStateIn(t *testing.T) {
	for s := range numStates {
		for _, owner := range []uint64{4, 5} {
			e := Entry{State: s, Epoch: 4, Attempt: 1}
			want := s
			if s == Accepted && owner == 5 {
				want = InDoubt
			}
			if got := e.StateIn(owner); got != want {
				t.Errorf("%v of epoch 4, seen in %d: %v, want %v", s, owner, got, want)
			}
		}
	}
}

// A later attempt without a fingerprint does not make the key match everything.
func TestFingerprintIsKept(t *testing.T) {
	second := acceptedRec(2, testTime+9)
	second.Fingerprint = 0
	e := fold(t, acceptedRec(1, testTime), Record{Kind: KindReleased, Attempt: 1, Cause: NotApplied}, second)
	if e.Fingerprint != 9 {
		t.Errorf("the fingerprint is %d, want 9", e.Fingerprint)
	}
}

// What is late contradicts what was decided, or does not.
func TestConflict(t *testing.T) {
	landed := func(attempt uint32) Record { return Record{Kind: KindObserved, Attempt: attempt, Landed: true} }
	notLanded := func(attempt uint32) Record { return Record{Kind: KindObserved, Attempt: attempt} }
	released := func(c Cause) Record { return Record{Kind: KindReleased, Attempt: 1, Cause: c} }
	doubt := Record{Kind: KindDoubt, Attempt: 1, Cause: TimedOut}
	failed := Record{Kind: KindExecuted, Attempt: 1, Cause: Exhausted, Failed: true, Reason: "r"}
	forgotten := Record{Kind: KindForgotten}
	first, second, done := acceptedRec(1, 1), acceptedRec(2, 2), executedRec(1, 3)
	for _, c := range []struct {
		name string
		want bool
		recs []Record
	}{
		{"released by a check, landed before the next attempt", true, []Record{first, doubt, released(NotLanded), landed(1)}},
		{"released by a check, run again, landed", true, []Record{first, doubt, released(NotLanded), second, landed(1)}},
		{"released by an operator, run again, landed", true, []Record{first, doubt, released(Operator), second, landed(1)}},
		{"run again on the far side's word, landed", false, []Record{first, doubt, released(Idempotent), second, landed(1)}},
		{"run again, the earlier one did not land", false, []Record{first, doubt, released(NotLanded), second, notLanded(1)}},
		{"the running attempt landed", false, []Record{first, landed(1)}},
		{"done, and heard again", false, []Record{first, done, landed(1)}},
		{"done, and did not land", true, []Record{first, done, notLanded(1)}},
		{"failed, and landed", true, []Record{first, failed, landed(1)}},
		{"failed, and did not land", false, []Record{first, failed, notLanded(1)}},
		{"done, forgotten, heard again", false, []Record{first, done, forgotten, landed(1)}},
		{"done, forgotten, run again, heard again", false, []Record{first, done, forgotten, second, landed(1)}},
		{"in doubt, forgotten, landed", true, []Record{first, doubt, forgotten, landed(1)}},
		{"in doubt, forgotten, run again, landed", true, []Record{first, doubt, forgotten, second, landed(1)}},
		{"a conflict outlives a forgetting", true, []Record{first, done, notLanded(1), forgotten}},
	} {
		if e := fold(t, c.recs...); e.Conflict != c.want {
			t.Errorf("%s: conflict %v, want %v", c.name, e.Conflict, c.want)
		}
	}
}

// A key that went straight to a success costs at most 26 bytes beyond its own and
// its result's, at LSN 10 million and with a quarter of an hour between its steps.
func TestPlainEntrySize(t *testing.T) {
	const quarter = 15 * 60 * 1000
	var e Entry
	recs := []Record{acceptedRec(1, testTime), executedRec(1, testTime+quarter), {Kind: KindConfirmed, Attempt: 1, Time: testTime + 2*quarter}}
	recs[0].Fingerprint = Fingerprint([]byte("input"))
	recs[0].Input = []byte("input, which is let go")
	for i := range recs {
		if err := e.Apply(&recs[i], 10_000_000); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(e.AppendTo(nil)) - len(e.Result); got > 26 {
		t.Errorf("%d bytes beyond the result, want at most 26", got)
	}
}
