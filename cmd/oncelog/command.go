package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncelog/oncelog/executor"
	"github.com/oncelog/oncelog/ledger"
)

// commandFlags are what `do`, `run` and `drain` say about an effect that is a
// command.
type commandFlags struct {
	effect      string
	check       string
	confirm     string
	onDoubt     string
	timeout     time.Duration
	settle      time.Duration
	window      time.Duration
	maxAttempts int
	notApplied  []int
	permanent   []int
}

func (f *commandFlags) register(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.effect, "effect", "", "name of the effect, such as send-email (required)")
	fl.StringVar(&f.check, "check", "", "shell command that asks whether it landed: exit 0 landed, 1 not landed, anything else unknown")
	fl.StringVar(&f.confirm, "confirm", "", "shell command that tells the backend that the item is done: exit 0 done, anything else tried again")
	fl.StringVar(&f.onDoubt, "on-doubt", "", "what to do in doubt: hold, check (default with --check) or retry (only where the far side deduplicates on ONCELOG_KEY)")
	fl.DurationVar(&f.timeout, "timeout", 0, "end the command after this long; the attempt is then in doubt (default: never)")
	fl.DurationVar(&f.settle, "settle", 0, "how long after doubt began `not landed` counts")
	fl.DurationVar(&f.window, "window", 24*time.Hour, "with --on-doubt retry: how long the far side remembers a key")
	fl.IntVar(&f.maxAttempts, "max-attempts", 5, "attempts, while each is provably not applied, before it is a permanent failure")
	fl.IntSliceVar(&f.notApplied, "not-applied", []int{75}, "exit codes that prove that nothing happened")
	fl.IntSliceVar(&f.permanent, "permanent", []int{65}, "exit codes that mean it will never work")
}

// effectOf is the effect that runs a command for each item. The input goes to
// the command's stdin and its stdout is the result.
func (f *commandFlags) effectOf(words []string, stderr io.Writer) (executor.Effect[[]byte, []byte], error) {
	e := executor.Effect[[]byte, []byte]{
		Name:        f.effect,
		MaxAttempts: f.maxAttempts,
		Timeout:     f.timeout,
		Settle:      f.settle,
		Window:      f.window,
		KeepInput:   true,
	}
	if f.effect == "" {
		return e, usagef("which effect? Say --effect NAME")
	}
	for _, code := range append(slices.Clone(f.notApplied), f.permanent...) {
		if code < 1 || code > 255 {
			return e, usagef("exit code %d cannot be --not-applied or --permanent, want 1 to 255", code)
		}
	}
	e.Run = func(ctx context.Context, call executor.Call, input []byte) ([]byte, error) {
		var out bytes.Buffer
		err := f.classify(execute(ctx, words, call, input, &out, stderr))
		return out.Bytes(), err
	}
	if f.confirm != "" {
		e.Confirm = func(ctx context.Context, call executor.Call, out executor.Outcome[[]byte]) error {
			return execute(ctx, shell(f.confirm), call, out.Value, stderr, stderr)
		}
	}
	if f.check != "" {
		e.Check = func(ctx context.Context, call executor.Call, input []byte) (executor.Verdict, string, error) {
			return checkWith(ctx, f.check, call, input, stderr)
		}
	}
	return e, f.doubtPolicy(&e)
}

func (f *commandFlags) doubtPolicy(e *executor.Effect[[]byte, []byte]) error {
	switch f.onDoubt {
	case "":
		return nil
	case "hold":
		e.Check = nil
	case "check":
		if f.check == "" {
			return usagef("--on-doubt check needs --check CMD")
		}
	case "retry":
		e.Idempotent = true
	default:
		return usagef("--on-doubt %q, want hold, check or retry", f.onDoubt)
	}
	return nil
}

// classify turns how a command ended into what it proves. Only the exit codes
// that the caller named prove anything besides 0; a death by a signal, and every
// other code, do not.
func (f *commandFlags) classify(err error) error {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errNotStarted):
		return executor.NotApplied(err)
	case !errors.As(err, &exit):
		return err
	case slices.Contains(f.notApplied, exit.ExitCode()):
		return executor.NotApplied(err)
	case slices.Contains(f.permanent, exit.ExitCode()):
		return executor.Permanent(err)
	}
	return err
}

// errNotStarted: the command could not be started, so it did nothing.
var errNotStarted = errors.New("the command was not started")

// execute runs a command for one attempt of a key. When the context ends the
// whole process group is killed.
func execute(ctx context.Context, words []string, call executor.Call, input []byte, stdout, stderr io.Writer) error {
	c := exec.CommandContext(ctx, words[0], words[1:]...)
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(input), &limited{w: stdout, left: ledger.MaxResult + 1}, stderr
	c.Env = append(os.Environ(),
		"ONCELOG_KEY="+call.IdempotencyKey,
		"ONCELOG_EFFECT="+call.Key.Effect,
		"ONCELOG_ITEM="+call.Key.Item,
		"ONCELOG_ATTEMPT="+strconv.FormatUint(uint64(call.Attempt), 10),
	)
	// A child that the command leaves behind may hold the pipes open.
	c.WaitDelay = 2 * time.Second
	ownGroup(c)
	if err := c.Start(); err != nil {
		return fmt.Errorf("%s: %w: %w", words[0], errNotStarted, err)
	}
	if err := c.Wait(); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return fmt.Errorf("%s: %w: %w", words[0], cause, err)
		}
		return fmt.Errorf("%s: %w", words[0], err)
	}
	return nil
}

// limited passes on one byte more than a result may have, so that it shows as too
// large, and drops the rest: a command that prints too much must not die of it.
type limited struct {
	w    io.Writer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	n, err := l.w.Write(p[:min(len(p), l.left)])
	l.left -= n
	if err != nil {
		return n, err
	}
	return len(p), nil
}

func checkWith(ctx context.Context, line string, call executor.Call, input []byte, stderr io.Writer) (executor.Verdict, string, error) {
	var out bytes.Buffer
	err := execute(ctx, shell(line), call, input, &out, stderr)
	evidence := strings.TrimSpace(out.String())
	var exit *exec.ExitError
	switch {
	case err == nil:
		return executor.Landed, evidence, nil
	case errors.As(err, &exit) && exit.ExitCode() == 1 && ctx.Err() == nil:
		return executor.NotLanded, evidence, nil
	}
	return executor.Unknown, evidence, err
}
