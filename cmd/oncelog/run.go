package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/oncelog/oncelog/executor"
	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/ledger"
)

func (a *app) runCommand() *cobra.Command {
	var f commandFlags
	var queue string
	var o executor.WatchOptions[[]byte]
	c := &cobra.Command{
		Use:   "run --effect E --queue SRC [flags] -- CMD [ARG ...]",
		Short: "Watch a queue: drain the journal, then poll and do every pending item once",
		Long: `Watch a queue: drain the journal, then poll SRC and do every pending item, once each,
whatever is listed again.

SRC is a file of JSON lines such as {"id":"lead-17","input":{"to":"a@example.com"}}, read
again at every poll, or - for stdin, read once; or an http(s) URL that answers with such
lines or an array of such objects. A line that cannot be used is reported with its number
and skipped; the others are done.

Each item that was run, failed or is in doubt is a line on stdout; those done before are
counted on stderr. With --once the exit code is that of the worst item.`,
		Example: "  oncelog run --dir state --create --effect greet --queue queue.jsonl --once -- sh -c 'echo hello $ONCELOG_ITEM'\n" +
			"  oncelog run --dir state --effect send-email --queue https://crm.example/pending --every 5m -c 4 \\\n" +
			"    --check ./was-sent.sh --confirm ./mark-done.sh -- ./send.sh",
		Args: args(cobra.MinimumNArgs(1)),
		RunE: func(c *cobra.Command, words []string) error {
			if queue == "" {
				return usagef("which queue? Say --queue FILE, --queue - or --queue URL")
			}
			if o.Concurrency < 1 {
				return usagef("-c %d, want 1 or more items at a time", o.Concurrency)
			}
			if o.Every <= 0 {
				return usagef("--every %v, want a time over zero", o.Every)
			}
			return a.run(c, &f, words, queue, o)
		},
	}
	f.register(c)
	a.keepFlags(c)
	a.snapshotFlags(c)
	c.Flags().Int64Var(&a.memory, "max-memory", 0, "bytes that settled keys may take in memory before new ones are refused (default: no limit)")
	c.Flags().StringVar(&queue, "queue", "", "JSON-lines file, - for stdin, or http(s) URL (required)")
	c.Flags().DurationVar(&o.Every, "every", 5*time.Minute, "time between polls")
	c.Flags().BoolVar(&o.Once, "once", false, "poll once, then end")
	c.Flags().IntVarP(&o.Concurrency, "concurrency", "c", 1, "how many items at a time")
	return c
}

func (a *app) run(c *cobra.Command, f *commandFlags, words []string, queue string, o executor.WatchOptions[[]byte]) error {
	effect, err := f.effectOf(words, c.ErrOrStderr())
	if err != nil {
		return err
	}
	o.Once = o.Once || queue == "-"
	return a.withExecutor(c.Context(), effect, executor.Options{}, func(l *ledger.Embedded, _ *executor.Executor, h *executor.Handle[[]byte, []byte]) error {
		p := &itemPrinter{app: a, effect: f.effect, ledger: l, out: c.OutOrStdout(), log: c.ErrOrStderr()}
		o.Each, o.Polled = p.item, p.polled
		_, err := h.Watch(c.Context(), queueSource(queue, c.InOrStdin()), o)
		if errors.Is(err, fs.ErrNotExist) {
			return usagef("queue: %w", err)
		}
		if err != nil && l.Err() == nil {
			return notPolled{err}
		}
		return errors.Join(err, p.failed(), p.verdict(o.Once))
	})
}

// notPolled is a queue that did not answer: nothing was applied.
type notPolled struct{ error }

func (e notPolled) Unwrap() error { return e.error }

// itemPrinter prints what became of each item, and remembers the worst.
type itemPrinter struct {
	app    *app
	effect string
	ledger *ledger.Embedded
	out    io.Writer
	log    io.Writer

	mu    sync.Mutex // one line at a time; guards the fields below
	worst error
	wrote error // why a line could not be printed
}

// badness orders the exit codes of items, worst last.
var badness = []int{exitDone, exitUsage, exitNotApplied, exitMismatch, exitPermanent, exitInFlight, exitInDoubt, exitLedger}

func rank(err error) int {
	code := exitDone
	if err != nil {
		code = exitCode(err)
	}
	for i, c := range badness {
		if c == code {
			return i
		}
	}
	return len(badness)
}

func (p *itemPrinter) item(item executor.Item, r executor.Result[[]byte], err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if rank(err) > rank(p.worst) {
		p.worst = err
	}
	var bad *executor.BadItemError
	if errors.As(err, &bad) || item.ID == "" {
		fmt.Fprintf(p.log, "oncelog: %v (skipped)\n", err)
		return
	}
	key := journal.Key{Effect: p.effect, Item: item.ID}
	e, gerr := p.ledger.Get(key)
	if gerr != nil {
		fmt.Fprintf(p.log, "oncelog: %v: %v\n", key, errors.Join(err, gerr))
		return
	}
	state := p.ledger.State(&e)
	switch {
	case p.app.json:
		p.print(printJSON(p.out, answerOf(key, &e, state, r.Replayed, err)))
	case err != nil && !errors.Is(err, ledger.ErrResultExpired):
		p.print(fmt.Fprintf(p.out, "%v\t%s\t%v\n", key, stateName(state, e.Failed), err))
	case !r.Replayed && err == nil:
		p.print(fmt.Fprintf(p.out, "%v\t%s\t%s\n", key, stateName(state, e.Failed), trimmed(r.Value)))
	}
}

// trimmed is a result on one line.
func trimmed(b []byte) string {
	const most = 200
	if n := len(b); n > most {
		return fmt.Sprintf("%q… (%d bytes)", b[:most], n)
	}
	text := strings.TrimSuffix(string(b), "\n")
	if strings.ContainsFunc(text, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }) {
		return fmt.Sprintf("%q", b)
	}
	return text
}

// print keeps the first error of stdout: its reader is gone.
func (p *itemPrinter) print(args ...any) {
	if err, ok := args[len(args)-1].(error); ok && p.wrote == nil {
		p.wrote = err
	}
}

func (p *itemPrinter) polled(r executor.WatchReport, err error) {
	if err != nil {
		fmt.Fprintf(p.log, "oncelog: %v\n", err)
		return
	}
	fmt.Fprintf(p.log, "oncelog: poll %d: in all %d executed, %d done before, %d failed, %d in doubt, %d not applied, %d not usable, %d refused; %d in the journal\n",
		r.Polls, r.Executed, r.Replayed, r.Failed, r.InDoubt, r.NotApplied, r.Bad, r.Refused, p.ledger.UnsettledCount())
}

func (p *itemPrinter) failed() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wrote != nil {
		return fmt.Errorf("standard output: %w", p.wrote)
	}
	return nil
}

// verdict is the exit code of the worst item, which was told of already.
func (p *itemPrinter) verdict(once bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !once || p.worst == nil || exitCode(p.worst) == exitDone {
		return nil
	}
	return silentExit(exitCode(p.worst))
}
