package executor

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/ledger"
)

// listed is a source that lists items and errors.
type listed func(poll int) []any

type listedSource struct {
	list  listed
	polls atomic.Int64
}

func (s *listedSource) Items(context.Context) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for _, v := range s.list(int(s.polls.Add(1))) {
			var ok bool
			switch v := v.(type) {
			case string:
				ok = yield(Item{ID: v, Input: []byte(`"input"`)}, nil)
			case Item:
				ok = yield(v, nil)
			case error:
				ok = yield(Item{}, v)
			}
			if !ok {
				return
			}
		}
	}
}

func TestWatch(t *testing.T) {
	b := newBench(t, Options{})
	b.orphan(Options{}, "left")
	var mu sync.Mutex
	runs := map[string]int{}
	var running, most atomic.Int64
	h := register(b, Effect[string, string]{
		Check: answer(Landed, "there", nil),
		Run: func(_ context.Context, c Call, _ string) (string, error) {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			mu.Lock()
			defer mu.Unlock()
			runs[c.Key.Item]++
			switch c.Key.Item {
			case "fails":
				return "", Permanent(errBroken)
			case "doubt":
				return "", errBroken
			}
			return "done", nil
		}})
	ctx, cancel := context.WithCancel(t.Context())
	src := &listedSource{list: func(poll int) []any {
		switch poll {
		case 1:
			b.is("left", journal.Confirmed) // drained before the queue is asked
			return []any{"a", "b", "a", &BadItemError{Where: "queue:3", Err: errBroken}, Item{ID: "c", Input: []byte("{")}, "fails", "d"}
		case 2:
			return []any{"a", errors.New("the queue is down"), "never"}
		case 3:
			return []any{"a", "b", "e", Item{ID: "a", Input: []byte(`"other"`)}, ""}
		}
		cancel()
		return nil
	}}
	var polls []string
	r, err := h.Watch(ctx, src, WatchOptions[string]{Every: time.Millisecond, Concurrency: 3,
		Polled: func(_ WatchReport, err error) { polls = append(polls, fmt.Sprint(err != nil)) }})
	if err != nil {
		t.Error(err)
	}
	want := map[string]int{"a": 1, "b": 1, "d": 1, "e": 1, "fails": 1}
	if !maps.Equal(runs, want) {
		t.Errorf("runs %v, want %v", runs, want)
	}
	if r.Executed != 4 || r.Failed != 1 || r.Bad != 3 || r.Replayed != 4 || r.Refused != 1 {
		t.Errorf("%+v", r)
	}
	if fmt.Sprint(polls[:3]) != "[false true false]" {
		t.Errorf("polls failed: %v", polls)
	}
	if most.Load() > 3 {
		t.Errorf("%d at once", most.Load())
	}
}

func TestWatchOnce(t *testing.T) {
	b := newBench(t, Options{})
	h := register(b, Effect[string, string]{Run: func(context.Context, Call, string) (string, error) { return "", nil }})
	down := errors.New("the queue is down")
	if _, err := h.Watch(t.Context(), &listedSource{list: func(int) []any { return []any{"a", down} }}, WatchOptions[string]{Once: true}); !errors.Is(err, down) {
		t.Errorf("a poll that fails: %v", err)
	}
	b.is("a", journal.Confirmed)
	if r, err := h.Watch(t.Context(), &listedSource{list: func(int) []any { return []any{"a", "b"} }}, WatchOptions[string]{Once: true}); err != nil || r.Polls != 1 || r.Executed != 1 || r.Replayed != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestWatchEndsWithTheLedger: a watcher must not poll on for ever on a ledger that
// has stopped.
func TestWatchEndsWithTheLedger(t *testing.T) {
	b := newBench(t, Options{})
	h := register(b, Effect[string, string]{Run: func(context.Context, Call, string) (string, error) { return "", nil }})
	_, err := h.Watch(t.Context(), &listedSource{list: func(int) []any {
		if err := b.l.Close(); err != nil {
			t.Error(err)
		}
		return []any{"a"}
	}}, WatchOptions[string]{Every: time.Hour})
	if !errors.Is(err, ledger.ErrClosed) {
		t.Errorf("watch ends with %v", err)
	}
	if err := b.x.Close(t.Context()); err != nil {
		t.Error(err)
	}
	b.x = nil
}
