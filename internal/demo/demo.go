package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/ledger"
)

// A Count is what one watcher sent, by the mail server's count.
type Count struct {
	Sent   int `json:"sent"`
	Double int `json:"double"` // mails beyond the first of a lead
	Lost   int `json:"lost"`   // leads without one
}

// A Report is how the story ended.
type Report struct {
	Items   int   `json:"items"`
	Naive   Count `json:"naive"`
	Oncelog struct {
		Count
		InDoubt int `json:"in_doubt"` // leads that were held for a person at the end
	} `json:"oncelog"`
	Leads []Lead `json:"leads"`
}

// A Lead is what each watcher sent to one lead.
type Lead struct {
	ID      string `json:"id"`
	Naive   int    `json:"naive"`
	Oncelog int    `json:"oncelog"`
}

const (
	leads    = 20
	oneMail  = 20 * time.Millisecond
	outage   = 2 * time.Second
	patience = 15 * time.Second // for both queues to become empty after the outage
)

// Leads during whose mail the watcher is killed: before the mail is taken, and
// when it is taken and the sender does not know yet.
var killBefore, killAfter = leadID(7), leadID(12)

// Run tells the story. self starts this program with arguments for Part; what
// happens is told to log, line by line.
func Run(ctx context.Context, self []string, log io.Writer) (*Report, error) {
	dir, err := os.MkdirTemp("", "oncelog-demo-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) // only temporary files
	s := &story{self: self, log: log, dir: dir, killed: map[string]bool{}, watchers: map[string]*exec.Cmd{}}
	defer s.end()
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	if err := s.tell(ctx); err != nil {
		return nil, err
	}
	return s.report()
}

// story is the demo under way.
type story struct {
	self     []string
	log      io.Writer
	dir      string
	places   places
	receiver *receiver
	closers  []func()

	mu       sync.Mutex // guards the fields below
	killed   map[string]bool
	watchers map[string]*exec.Cmd
	over     bool
}

func (s *story) say(format string, args ...any) { fmt.Fprintf(s.log, format+"\n", args...) }

// start starts the mail server here, and the backend and the watchers as
// processes.
func (s *story) start(ctx context.Context) error {
	s.receiver = &receiver{took: oneMail, during: s.during}
	server, address, err := s.receiver.serve()
	if err != nil {
		return err
	}
	s.closers = append(s.closers, func() { _ = server.Close() }) // the demo is over
	records := httptest.NewServer(s.receiver)
	s.closers = append(s.closers, records.Close)
	s.places = places{smtp: address, sent: records.URL}
	if s.places.backend, err = s.startBackend(ctx); err != nil {
		return err
	}
	s.say("a backend with %d leads in each of two queues, a mail server, and two watchers, each a process", leads)
	for _, w := range []string{naive, guarded} {
		if err := s.startWatcher(w); err != nil {
			return err
		}
	}
	return nil
}

func (s *story) command(args ...string) *exec.Cmd {
	all := append(append([]string(nil), s.self[1:]...), args...)
	return exec.Command(s.self[0], all...)
}

func (s *story) startBackend(ctx context.Context) (string, error) {
	c := s.command("backend", strconv.Itoa(leads))
	out, err := c.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := c.Start(); err != nil {
		return "", fmt.Errorf("demo: backend: %w", err)
	}
	s.closers = append(s.closers, func() {
		_ = c.Process.Kill() // the demo is over
		_ = c.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("demo: backend: %w", errors.Join(err, ctx.Err()))
	}
	return strings.TrimSpace(line), nil
}

func (s *story) startWatcher(w string) error {
	args := []string{w, s.places.backend, s.places.smtp, s.places.sent}
	if w == guarded {
		args = append(args, filepath.Join(s.dir, "state"))
	}
	file, err := os.OpenFile(filepath.Join(s.dir, w+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close() // the child has its own
	c := s.command(args...)
	c.Stderr = file
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return nil
	}
	if err := c.Start(); err != nil {
		return fmt.Errorf("demo: %s watcher: %w", w, err)
	}
	s.watchers[w] = c
	return nil
}

// during kills a watcher in the middle of its mail, once for each of two leads,
// and starts it again.
func (s *story) during(watcher, lead string, taken bool) error {
	if !(lead == killBefore && !taken || lead == killAfter && taken) {
		return nil
	}
	s.mu.Lock()
	c := s.watchers[watcher]
	if s.killed[watcher+lead] || c == nil {
		s.mu.Unlock()
		return nil
	}
	s.killed[watcher+lead] = true
	delete(s.watchers, watcher)
	s.mu.Unlock()
	_ = c.Process.Kill() // SIGKILL; one that is dead already is as good
	_ = c.Wait()
	when := "before the mail was taken"
	if taken {
		when = "after the mail was taken, before the watcher knew"
	}
	s.say("kill -9: the %s watcher, sending to %s, %s", watcher, lead, when)
	if err := s.startWatcher(watcher); err != nil {
		return err
	}
	return errSenderGone
}

var errSenderGone = errors.New("the sender is gone")

// tell is the outage and the recovery.
func (s *story) tell(ctx context.Context) error {
	if err := wait(ctx, 4*time.Second, func() bool { return s.sentOf(naive, 3) && s.sentOf(guarded, 3) }); err != nil {
		return fmt.Errorf("demo: the watchers do not start: %w", err)
	}
	if err := s.down(ctx, true); err != nil {
		return err
	}
	s.say("OUTAGE: the backend answers 500 to every completion")
	if err := wait(ctx, outage, nil); err != nil {
		return err
	}
	if err := s.down(ctx, false); err != nil {
		return err
	}
	s.say("the backend is back")
	if err := wait(ctx, patience, func() bool { return s.empty(ctx, naive) && s.empty(ctx, guarded) }); err != nil {
		return fmt.Errorf("demo: the queues did not become empty: %w", err)
	}
	s.say("both queues are empty")
	return s.stopWatchers()
}

func (s *story) sentOf(watcher string, n int) bool {
	sent := 0
	for i := range leads {
		sent += s.receiver.count(watcher, leadID(i))
	}
	return sent >= n
}

func (s *story) empty(ctx context.Context, watcher string) bool {
	left, err := s.places.pending(ctx, watcher)
	return err == nil && len(left) == 0
}

func (s *story) down(ctx context.Context, down bool) error {
	resp, err := call(ctx, http.MethodPut, s.places.backend+"/down/"+strconv.FormatBool(down))
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// wait waits until cond holds, or, without one, the whole time.
func wait(ctx context.Context, most time.Duration, cond func() bool) error {
	end := time.After(most)
	for {
		if cond != nil && cond() {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-end:
			if cond == nil {
				return nil
			}
			return fmt.Errorf("after %v", most)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// stopWatchers ends the watchers properly.
func (s *story) stopWatchers() error {
	s.mu.Lock()
	s.over = true
	running := s.watchers
	s.watchers = map[string]*exec.Cmd{}
	s.mu.Unlock()
	for _, c := range running {
		if err := c.Process.Signal(os.Interrupt); err != nil {
			_ = c.Process.Kill() // no interrupts on this system
		}
		_ = c.Wait() // its exit code tells nothing that the mail server does not
	}
	return nil
}

func (s *story) end() {
	_ = s.stopWatchers() // never fails
	for _, c := range s.closers {
		c()
	}
}

// report counts what the mail server took.
func (s *story) report() (*Report, error) {
	r := &Report{Items: leads}
	for i := range leads {
		l := Lead{ID: leadID(i), Naive: s.receiver.count(naive, leadID(i)), Oncelog: s.receiver.count(guarded, leadID(i))}
		r.Naive.add(l.Naive)
		r.Oncelog.add(l.Oncelog)
		r.Leads = append(r.Leads, l)
	}
	v, err := ledger.OpenView(filepath.Join(s.dir, "state"), ledger.Options{})
	if err != nil {
		return nil, err
	}
	for _, e := range v.Unsettled() {
		if v.State(&e) == journal.InDoubt {
			r.Oncelog.InDoubt++
		}
	}
	return r, nil
}

func (c *Count) add(sent int) {
	c.Sent += sent
	c.Double += max(sent-1, 0)
	if sent == 0 {
		c.Lost++
	}
}

// serveBackend serves the backend and prints its URL.
func serveBackend(ctx context.Context, leads string, stdout io.Writer) error {
	n, err := strconv.Atoi(leads)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: newBackend(n), ReadHeaderTimeout: 5 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() }) // the demo is over
	if _, err := fmt.Fprintf(stdout, "http://%s\n", listener.Addr()); err != nil {
		return err
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
