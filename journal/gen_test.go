package journal

import (
	"math"
	"strings"

	"pgregory.net/rapid"
)

// Generators of what AppendTo can write and DecodeX must give back: empty bytes
// are nil, fields that the kind does not have are zero.

var (
	genBytes = rapid.Custom(func(t *rapid.T) []byte {
		if b := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "bytes"); len(b) > 0 {
			return b
		}
		return nil
	})
	genText = rapid.Custom(func(t *rapid.T) string { return string(genBytes.Draw(t, "text")) })
	genTime = rapid.Int64Range(0, math.MaxInt64)
	genKey  = rapid.Custom(func(t *rapid.T) Key {
		return Key{
			Effect: rapid.StringMatching(`[a-zA-Z0-9._:-]{1,128}`).Draw(t, "effect"),
			Item:   string(rapid.SliceOfN(rapid.Byte(), 1, MaxItem).Draw(t, "item")),
		}
	})
)

func genCause(fits func(Cause) bool) *rapid.Generator[Cause] {
	return rapid.Map(rapid.IntRange(0, int(numCauses)-1), func(c int) Cause { return Cause(c) }).Filter(fits)
}

// genRecord draws a record of a kind that is known.
func genRecord(kind Kind) *rapid.Generator[Record] {
	return rapid.Custom(func(t *rapid.T) Record {
		r := Record{Kind: kind, Time: genTime.Draw(t, "time")}
		if kind.HasKey() {
			r.Key = genKey.Draw(t, "key")
		}
		if kind.HasKey() && kind != KindForgotten {
			r.Attempt = rapid.Uint32Range(1, math.MaxUint32).Draw(t, "attempt")
		}
		if kind != KindAccepted && kind != KindConfirmed && kind != KindAged {
			r.Note = genText.Draw(t, "note")
		}
		switch kind {
		case KindEpoch:
			r.Epoch, r.Open = rapid.Uint64().Draw(t, "epoch"), genTime.Draw(t, "open")
		case KindAccepted:
			r.Epoch, r.Fingerprint = rapid.Uint64().Draw(t, "epoch"), rapid.Uint64().Draw(t, "fingerprint")
			r.Input = genBytes.Draw(t, "input")
		case KindExecuted:
			r.Cause = genCause(Cause.executes).Draw(t, "cause")
			r.Failed, r.Settles = rapid.Bool().Draw(t, "failed"), rapid.Bool().Draw(t, "settles")
			r.NoResult = rapid.Bool().Draw(t, "no result")
			r.Result, r.Reason = genBytes.Draw(t, "result"), genText.Draw(t, "reason")
		case KindReleased:
			r.Cause = genCause(Cause.Releases).Draw(t, "cause")
		case KindDoubt:
			r.Cause = genCause(Cause.doubts).Draw(t, "cause")
		case KindAged:
			r.Open, r.Keys, r.Results = genTime.Draw(t, "open"), rapid.Uint64().Draw(t, "keys"), rapid.Uint64().Draw(t, "results")
		case KindObserved, KindAmnesia:
			r.Landed = rapid.Bool().Draw(t, "landed")
		}
		return r
	})
}

// genEntry draws an entry of any shape, such as no sequence of records makes, too.
var genEntry = rapid.Custom(func(t *rapid.T) Entry {
	e := Entry{
		State:       State(rapid.IntRange(0, int(numStates)-1).Draw(t, "state")),
		Attempt:     rapid.Uint32().Draw(t, "attempt"),
		FirstOf:     rapid.Uint32().Draw(t, "first"),
		Generation:  rapid.Uint32().Draw(t, "generation"),
		Epoch:       rapid.Uint64().Draw(t, "epoch"),
		LSN:         rapid.Uint64().Draw(t, "lsn"),
		AcceptedAt:  rapid.Int64().Draw(t, "accepted at"),
		ExecutedAt:  rapid.Int64().Draw(t, "executed at"),
		Since:       rapid.Int64().Draw(t, "since"),
		Fingerprint: rapid.Uint64().Draw(t, "fingerprint"),
		Input:       genBytes.Draw(t, "input"),
		Cause:       genCause(func(Cause) bool { return true }).Draw(t, "cause"),
		Failed:      rapid.Bool().Draw(t, "failed"),
		NoResult:    rapid.Bool().Draw(t, "no result"),
		Conflict:    rapid.Bool().Draw(t, "conflict"),
		Result:      genBytes.Draw(t, "result"),
		Reason:      genText.Draw(t, "reason"),
		Dropped:     rapid.Uint32().Draw(t, "dropped"),
	}
	for range rapid.IntRange(0, 5).Draw(t, "events") {
		e.History = append(e.History, genEvent.Draw(t, "event"))
	}
	return e
})

var genEvent = rapid.Custom(func(t *rapid.T) Event {
	return Event{
		LSN:     rapid.Uint64().Draw(t, "lsn"),
		Kind:    KindAccepted + Kind(rapid.IntRange(0, int(KindForgotten-KindAccepted)).Draw(t, "kind")),
		Attempt: rapid.Uint32().Draw(t, "attempt"),
		Time:    rapid.Int64().Draw(t, "time"),
		Cause:   genCause(func(Cause) bool { return true }).Draw(t, "cause"),
		Failed:  rapid.Bool().Draw(t, "failed"),
		Landed:  rapid.Bool().Draw(t, "landed"),
		Note:    genText.Draw(t, "note"),
	}
})

// samples is one record of each kind with every field set, for the golden bytes
// and as seeds of the fuzz tests.
func samples() []Record {
	key := Key{Effect: "send-email", Item: "order/17"}
	const at = 1_767_225_600_000 // 2026-01-01
	return []Record{
		{Kind: KindEpoch, Epoch: 300, Time: at, Open: 5000, Note: "host1"},
		{Kind: KindAccepted, Key: key, Attempt: 1, Epoch: 300, Time: at, Fingerprint: 0x0807060504030201, Input: []byte("in")},
		{Kind: KindExecuted, Key: key, Attempt: 1, Time: at + 1, Cause: Run, Settles: true, Result: []byte("ok"), Note: "n"},
		{Kind: KindExecuted, Key: key, Attempt: 200, Time: at + 1, Cause: Exhausted, Failed: true, NoResult: true, Reason: "gone"},
		{Kind: KindConfirmed, Key: key, Attempt: 1, Time: at + 2},
		{Kind: KindReleased, Key: key, Attempt: 1, Time: at + 2, Cause: NotLanded, Note: "404"},
		{Kind: KindDoubt, Key: key, Attempt: 1, Time: at + 2, Cause: TimedOut, Note: "30s"},
		{Kind: KindObserved, Key: key, Attempt: 1, Time: at + 3, Landed: true, Note: "late"},
		{Kind: KindForgotten, Key: key, Time: at + 4, Note: "ann: again"},
		{Kind: KindAmnesia, Landed: true, Time: at, Note: "restored"},
		{Kind: KindAged, Time: at, Open: 1000, Keys: 100, Results: 200},
	}
}

// sampleEntries is a plainly settled entry, one with all fields, and one of a key
// that was never seen.
func sampleEntries() map[string]Entry {
	const at = 1_767_225_600_000
	return map[string]Entry{
		"plain": {State: Confirmed, Attempt: 1, FirstOf: 1, LSN: 10_000_000, AcceptedAt: at, ExecutedAt: at + 250, Since: at + 400,
			Fingerprint: 0x0807060504030201, Cause: Run, Result: []byte("ok")},
		"rich": {State: Executed, Attempt: 3, FirstOf: 2, Generation: 1, Epoch: 9, LSN: 77, AcceptedAt: at, ExecutedAt: at + 5,
			Since: at + 5, Fingerprint: 1, Input: []byte("in"), Cause: Landed, Failed: true, NoResult: true, Conflict: true,
			Result: []byte("r"), Reason: "why", Dropped: 2, History: []Event{
				{LSN: 70, Kind: KindAccepted, Attempt: 2, Time: at},
				{LSN: 77, Kind: KindExecuted, Attempt: 3, Time: at + 5, Cause: Landed, Failed: true, Landed: true, Note: "seen"},
			}},
		"absent": {},
	}
}

func compact(hex string) string { return strings.Join(strings.Fields(hex), "") }
