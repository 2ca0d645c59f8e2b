package executor

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
)

// proof is what is known of the requests of one attempt.
type proof struct {
	written atomic.Bool // one of them may have been written
}

type proofKey struct{}

// withProof begins an attempt's proof.
func withProof(ctx context.Context) context.Context {
	return context.WithValue(ctx, proofKey{}, &proof{})
}

// RoundTripper wraps an http.RoundTripper, http.DefaultTransport where it is nil,
// so that a request of which provably no byte was written fails with
// [NotApplied]: the name did not resolve, nobody listened, the context ended
// before. The proof is net/http/httptrace's: the request asked for a connection
// and was handed none. Once it was handed one, nothing is proven any more. Nor is
// anything by a transport that calls no trace, for a request that follows a
// redirect, or for one that comes, within one attempt of an effect, after another
// that may have been written; give requests Run's context.
//
//	client := &http.Client{Transport: executor.RoundTripper(nil)}
//
// An answer, whatever its status, is an answer: what it proves is up to Run.
func RoundTripper(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = http.DefaultTransport
	}
	return &provingTripper{next}
}

type provingTripper struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t *provingTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	attempt, _ := req.Context().Value(proofKey{}).(*proof)
	if attempt == nil {
		attempt = &proof{}
	}
	// A request that follows a redirect names the answer that caused it.
	if req.Response != nil {
		attempt.written.Store(true)
	}
	before := attempt.written.Load()
	if err := context.Cause(req.Context()); err != nil && !before {
		if req.Body != nil {
			err = errors.Join(err, req.Body.Close())
		}
		return nil, NotApplied(err)
	}
	var asked, handed atomic.Bool
	ctx := httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GetConn: func(string) { asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { handed.Store(true) },
	})
	resp, err := t.next.RoundTrip(req.WithContext(ctx))
	if err != nil && !before && asked.Load() && !handed.Load() {
		return nil, NotApplied(err)
	}
	attempt.written.Store(true)
	return resp, err
}
