package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/smtp"
	"strings"
	"time"

	"github.com/oncelog/oncelog/executor"
	"github.com/oncelog/oncelog/ledger"
)

// The watchers, and the names of their queues.
const (
	naive   = "naive"
	guarded = "oncelog"
)

// places is where a watcher finds the others.
type places struct {
	backend string // URL
	smtp    string // address
	sent    string // URL of the mail server's own records
}

func (p places) pending(ctx context.Context, watcher string) ([]lead, error) {
	resp, err := call(ctx, http.MethodGet, p.backend+"/queue/"+watcher)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var all []lead
	in := bufio.NewScanner(resp.Body)
	for in.Scan() {
		var l lead
		if err := json.Unmarshal(in.Bytes(), &l); err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, in.Err()
}

func (p places) done(ctx context.Context, watcher, lead string) error {
	resp, err := call(ctx, http.MethodPut, p.backend+"/done/"+watcher+"/"+lead)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// call is one request that must be answered with 200.
func call(ctx context.Context, method, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.Join(&statusError{resp.StatusCode, url}, resp.Body.Close())
	}
	return resp, nil
}

type statusError struct {
	code int
	url  string
}

func (e *statusError) Error() string { return fmt.Sprintf("%s: %d", e.url, e.code) }

func (p places) send(watcher, id string, m mail) error {
	text := fmt.Sprintf("From: %s@example.com\r\nTo: %s\r\nSubject: %s\r\n\r\nHello %s!\r\n", watcher, m.To, m.Subject, id)
	return smtp.SendMail(p.smtp, nil, watcher+"@example.com", []string{m.To}, []byte(text))
}

// pollEvery stands for the five minutes of the story.
const pollEvery = 150 * time.Millisecond

// watchNaively does what most watchers do: whatever is pending is sent, then
// marked as done.
func watchNaively(ctx context.Context, p places, log io.Writer) error {
	for ctx.Err() == nil {
		leads, err := p.pending(ctx, naive)
		if err != nil {
			fmt.Fprintf(log, "poll: %v\n", err)
		}
		for _, l := range leads {
			if err := p.send(naive, l.ID, l.Input); err != nil {
				fmt.Fprintf(log, "send %s: %v\n", l.ID, err)
				continue
			}
			if err := p.done(ctx, naive, l.ID); err != nil {
				fmt.Fprintf(log, "done %s: %v\n", l.ID, err)
			}
		}
		time.Sleep(pollEvery)
	}
	return nil
}

// watchGuarded is the same with oncelog.
func watchGuarded(ctx context.Context, p places, dir string) error {
	l, err := ledger.Open(dir, ledger.Options{Create: true, LockWait: 5 * time.Second})
	if err != nil {
		return err
	}
	x := executor.New(l, executor.Options{DrainEvery: 100 * time.Millisecond})
	send, err := executor.Register(x, executor.Effect[mail, string]{
		Name: "send-email",
		Run: func(_ context.Context, c executor.Call, m mail) (string, error) {
			return "sent", p.send(guarded, c.Key.Item, m)
		},
		Check: func(ctx context.Context, c executor.Call, _ mail) (executor.Verdict, string, error) {
			return p.wasSent(ctx, c.Key.Item)
		},
		// A mail whose sender is gone may still be taken for a moment.
		Settle:    500 * time.Millisecond,
		KeepInput: true,
		Confirm: func(ctx context.Context, c executor.Call, _ executor.Outcome[string]) error {
			return p.done(ctx, guarded, c.Key.Item)
		},
	})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	_, err = send.Watch(ctx, queue(p), executor.WatchOptions[string]{Every: pollEvery})
	return errors.Join(err, x.Close(context.WithoutCancel(ctx)), l.Close())
}

// wasSent asks the mail server's own records.
func (p places) wasSent(ctx context.Context, lead string) (executor.Verdict, string, error) {
	resp, err := call(ctx, http.MethodGet, p.sent+"/sent/"+guarded+"/"+lead)
	var status *statusError
	switch {
	case err == nil:
		return executor.Landed, "the mail server has it", resp.Body.Close()
	case errors.As(err, &status) && status.code == http.StatusNotFound:
		return executor.NotLanded, "the mail server has no record of it", nil
	}
	return executor.Unknown, "", err
}

// queue is the backend's queue as a source.
type queue places

// Items implements executor.Source.
func (q queue) Items(ctx context.Context) iter.Seq2[executor.Item, error] {
	return func(yield func(executor.Item, error) bool) {
		leads, err := places(q).pending(ctx, guarded)
		if err != nil {
			yield(executor.Item{}, err)
			return
		}
		for _, l := range leads {
			input, err := json.Marshal(l.Input)
			if err != nil {
				err = &executor.BadItemError{Where: l.ID, Err: err}
			}
			if !yield(executor.Item{ID: l.ID, Input: input}, err) {
				return
			}
		}
	}
}

// Part runs one of the demo's processes, as its arguments say, until the context
// ends: "backend LEADS", "naive BACKEND SMTP SENT" or "oncelog BACKEND SMTP SENT
// DIR".
func Part(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	switch {
	case len(args) == 2 && args[0] == "backend":
		return serveBackend(ctx, args[1], stdout)
	case len(args) == 4 && args[0] == naive:
		return watchNaively(ctx, places{args[1], args[2], args[3]}, stderr)
	case len(args) == 5 && args[0] == guarded:
		return watchGuarded(ctx, places{args[1], args[2], args[3]}, args[4])
	}
	return fmt.Errorf("demo: no part %q", strings.Join(args, " "))
}
