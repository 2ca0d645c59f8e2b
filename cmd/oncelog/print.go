package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/oncelog/oncelog/journal"
)

// keyJSON is a key as every command prints it for machines. Item ids are bytes:
// one that is not UTF-8 comes in base64 as item_base64 instead of item.
type keyJSON struct {
	Effect     string `json:"effect"`
	Item       string `json:"item,omitempty"`
	ItemBase64 []byte `json:"item_base64,omitempty"`
}

func jsonKey(k journal.Key) keyJSON {
	if utf8.ValidString(k.Item) {
		return keyJSON{Effect: k.Effect, Item: k.Item}
	}
	return keyJSON{Effect: k.Effect, ItemBase64: []byte(k.Item)}
}

// entryJSON is a key's state as every command prints it for machines.
type entryJSON struct {
	keyJSON
	State      string  `json:"state"`
	Attempt    uint32  `json:"attempt"`
	Since      string  `json:"since"`
	Settled    bool    `json:"settled"`
	Generation uint32  `json:"generation"`
	Conflict   bool    `json:"conflict,omitempty"`
	Cause      string  `json:"cause,omitempty"`
	Reason     string  `json:"reason,omitempty"`
	Result     *string `json:"result,omitempty"`
	Note       string  `json:"note,omitempty"`
}

// stateName is a state as printed: a permanent failure shows as failed.
func stateName(s journal.State, failed bool) string {
	if s.Done() && failed {
		return "failed"
	}
	return s.String()
}

func jsonEntry(k journal.Key, e *journal.Entry, s journal.State) entryJSON {
	j := entryJSON{
		keyJSON: jsonKey(k), State: stateName(s, e.Failed), Attempt: e.Attempt, Since: stamp(e.Since),
		Settled: s.Settled(), Generation: e.Generation + 1, Conflict: e.Conflict, Reason: e.Reason, Cause: e.Cause.String(),
	}
	if s.Done() && !e.Failed && !e.NoResult {
		r := string(e.Result)
		j.Result = &r
	}
	if n := len(e.History); n > 0 {
		j.Note = e.History[n-1].Note
	}
	return j
}

// stamp is a time in ms since 1970 as printed.
func stamp(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// size is a number of bytes for people.
func size(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	v, exp := float64(n)/unit, 0
	for v >= unit && exp < 4 {
		v, exp = v/unit, exp+1
	}
	return fmt.Sprintf("%.1f %ciB", v, "KMGTP"[exp])
}
