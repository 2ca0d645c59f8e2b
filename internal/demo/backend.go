package demo

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
)

// backend is an HTTP queue and a key-value store of what is done. While it is
// down, every write answers 500; reads go on.
type backend struct {
	mu   sync.Mutex // guards the fields below
	down bool
	done map[string]map[string]string // by queue and lead: the value put
}

// lead is what the queue lists.
type lead struct {
	ID    string `json:"id"`
	Input mail   `json:"input"`
}

// mail is the input of the effect.
type mail struct {
	To      string `json:"to"`
	Subject string `json:"subject"`
}

func leadID(i int) string { return fmt.Sprintf("lead-%02d", i+1) }

func newBackend(leads int) http.Handler {
	b := &backend{done: map[string]map[string]string{naive: {}, guarded: {}}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /queue/{watcher}", func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		defer b.mu.Unlock()
		e := json.NewEncoder(w)
		for i := range leads {
			if _, ok := b.done[r.PathValue("watcher")][leadID(i)]; ok {
				continue
			}
			if e.Encode(lead{leadID(i), mail{leadID(i) + "@example.com", "Welcome"}}) != nil {
				return // the reader is gone
			}
		}
	})
	mux.HandleFunc("PUT /done/{watcher}/{lead}", func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		defer b.mu.Unlock()
		queue, ok := b.done[r.PathValue("watcher")]
		switch {
		case b.down:
			http.Error(w, "the database is down", http.StatusInternalServerError)
		case !ok:
			http.NotFound(w, r)
		default:
			queue[r.PathValue("lead")] = r.Header.Get("Message-Id")
		}
	})
	mux.HandleFunc("PUT /down/{down}", func(_ http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.down = slices.Contains([]string{"true", "1"}, r.PathValue("down"))
	})
	return mux
}
