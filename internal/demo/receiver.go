package demo

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/emersion/go-smtp"
)

// receiver is a mail server that takes a while for each mail, and counts what it
// took. Like a mail provider it can be asked, over HTTP, what was sent.
type receiver struct {
	took time.Duration // for one mail

	// during is called in the middle of a mail: before it is taken, and after,
	// when the sender has no answer yet. An error before means that the sender is
	// gone and the mail is not taken.
	during func(watcher, lead string, taken bool) error

	mu   sync.Mutex // guards sent
	sent map[string]map[string]int
}

func (r *receiver) count(watcher, lead string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sent[watcher][lead]
}

func (r *receiver) take(watcher, lead string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sent == nil {
		r.sent = map[string]map[string]int{}
	}
	if r.sent[watcher] == nil {
		r.sent[watcher] = map[string]int{}
	}
	r.sent[watcher][lead]++
}

// ServeHTTP answers GET /sent/WATCHER/LEAD: 200 if it was sent, 404 if not.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	if len(parts) != 3 || parts[0] != "sent" || r.count(parts[1], parts[2]) == 0 {
		http.NotFound(w, req)
		return
	}
	fmt.Fprintln(w, "sent")
}

// serve takes mail on a port of this machine until the server is closed.
func (r *receiver) serve() (*smtp.Server, string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", fmt.Errorf("demo: mail server: %w", err)
	}
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return &session{receiver: r}, nil }))
	server.Domain = "localhost"
	go server.Serve(listener) // ends with an error when the server is closed
	return server, listener.Addr().String(), nil
}

// session is one connection. The sender's address is watcher@, the recipient's
// lead@.
type session struct {
	receiver      *receiver
	watcher, lead string
}

func local(address string) string {
	name, _, _ := strings.Cut(address, "@")
	return name
}

// Mail implements smtp.Session.
func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	s.watcher = local(from)
	return nil
}

// Rcpt implements smtp.Session.
func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.lead = local(to)
	return nil
}

// Data implements smtp.Session.
func (s *session) Data(body io.Reader) error {
	if _, err := io.Copy(io.Discard, bufio.NewReader(body)); err != nil {
		return err
	}
	time.Sleep(s.receiver.took)
	if err := s.receiver.during(s.watcher, s.lead, false); err != nil {
		return err
	}
	s.receiver.take(s.watcher, s.lead)
	return s.receiver.during(s.watcher, s.lead, true)
}

// Reset implements smtp.Session.
func (s *session) Reset() {}

// Logout implements smtp.Session.
func (s *session) Logout() error { return nil }
