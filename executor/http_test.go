package executor

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// deadURL is a URL at which nobody listens.
func deadURL(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return "http://" + l.Addr().String()
}

type tripperFunc func(*http.Request) (*http.Response, error)

func (f tripperFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestRoundTripperProves: only a request of which no byte can have been written is
// NotApplied.
func TestRoundTripperProves(t *testing.T) {
	dead := deadURL(t)
	hangUp := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }))
	defer hangUp.Close()
	ok := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer ok.Close()
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }))
	defer broken.Close()
	away := httptest.NewServer(http.RedirectHandler(dead, http.StatusTemporaryRedirect))
	defer away.Close()
	for _, c := range []struct {
		name    string
		urls    []string // requests of one attempt, one after another
		next    http.RoundTripper
		cancel  bool
		proven  bool
		answers bool
	}{
		{name: "nobody listens", urls: []string{dead}, proven: true},
		{name: "no such name", urls: []string{"http://no-such-name.invalid/"}, proven: true},
		{name: "the context has ended before", urls: []string{ok.URL}, cancel: true, proven: true},
		{name: "the server hangs up", urls: []string{hangUp.URL}},
		{name: "an answer is an answer", urls: []string{broken.URL}, answers: true},
		{name: "a redirect to where nobody listens", urls: []string{away.URL}},
		{name: "a second request of the attempt", urls: []string{ok.URL, dead}},
		{name: "a second request after one that hung up", urls: []string{hangUp.URL, dead}},
		{name: "a second request after one that was not written", urls: []string{dead, dead}, proven: true},
		{name: "a transport that calls no trace", urls: []string{ok.URL},
			next: tripperFunc(func(*http.Request) (*http.Response, error) { return nil, errBroken })},
	} {
		t.Run(c.name, func(t *testing.T) {
			next := c.next
			if next == nil {
				transport := &http.Transport{}
				defer transport.CloseIdleConnections()
				next = transport
			}
			client := &http.Client{Transport: RoundTripper(next)}
			ctx, cancel := context.WithCancel(withProof(t.Context()))
			defer cancel()
			if c.cancel {
				cancel()
			}
			var err error
			for _, url := range c.urls {
				var req *http.Request
				if req, err = http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("body")); err != nil {
					t.Fatal(err)
				}
				var resp *http.Response
				if resp, err = client.Do(req); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					if err := resp.Body.Close(); err != nil {
						t.Fatal(err)
					}
				}
			}
			if (err == nil) != c.answers {
				t.Fatalf("error %v", err)
			}
			var notApplied *NotAppliedError
			if got := errors.As(err, &notApplied); got != c.proven {
				t.Errorf("proven not written: %v, want %v: %v", got, c.proven, err)
			}
			if _, ok := wordOf(err).(*NotAppliedError); ok != c.proven {
				t.Errorf("as a whole it says %v", wordOf(err))
			}
		})
	}
}
