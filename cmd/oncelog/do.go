package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/oncelog/oncelog/executor"
	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/ledger"
)

func (a *app) doCommand() *cobra.Command {
	var f commandFlags
	var item, input string
	c := &cobra.Command{
		Use:   "do --effect E --item ID [flags] -- CMD [ARG ...]",
		Short: "Guard one command: marker, run, outcome; a duplicate prints the recorded result and runs nothing",
		Long: `Guard one command. A marker is written to disk before it runs and its outcome after.
A duplicate, now or after any crash, prints the recorded result and runs nothing.

CMD gets ONCELOG_KEY (the same on every attempt: the far side's idempotency key),
ONCELOG_EFFECT, ONCELOG_ITEM, ONCELOG_ATTEMPT and the input on stdin. Its stdout is
the result. Exit 0 is executed; a code of --not-applied or --permanent is that; every
other exit, and a death by a signal, is in doubt.

Only the item's own key is looked at: drain confirms what earlier calls could not.`,
		Example: "  oncelog do --dir state --create --effect send-email --item lead-17 --input mail.json -- ./send.sh\n" +
			"  oncelog do --dir state --effect charge --item order-9 --check './charged.sh' -- ./charge.sh",
		Args: args(cobra.MinimumNArgs(1)),
		RunE: func(c *cobra.Command, words []string) error {
			if item == "" {
				return usagef("which item? Say --item ID, the item's stable id")
			}
			in, err := readInput(input, c.InOrStdin())
			if err != nil {
				return err
			}
			return a.do(c, &f, words, item, in)
		},
	}
	f.register(c)
	c.Flags().StringVar(&item, "item", "", "stable id of the item, never of the run or the attempt (required)")
	c.Flags().StringVar(&input, "input", "", "file whose content is the input, or - for stdin (default: no input)")
	return c
}

// readInput reads the input that --input names.
func readInput(name string, stdin io.Reader) ([]byte, error) {
	var b []byte
	var err error
	switch name {
	case "":
		return nil, nil
	case "-":
		b, err = io.ReadAll(io.LimitReader(stdin, ledger.MaxInput+1))
	default:
		b, err = os.ReadFile(name)
	}
	if err != nil {
		return nil, usagef("input: %w", err)
	}
	if len(b) > ledger.MaxInput {
		return nil, usagef("input %s is over %d bytes: %w", name, ledger.MaxInput, ledger.ErrTooLarge)
	}
	return b, nil
}

func (a *app) do(c *cobra.Command, f *commandFlags, words []string, item string, in []byte) error {
	effect, err := f.effectOf(words, c.ErrOrStderr())
	if err != nil {
		return err
	}
	key := journal.Key{Effect: f.effect, Item: item}
	if err := key.Validate(); err != nil {
		return err
	}
	return a.withExecutor(c.Context(), effect, executor.Options{DrainEvery: -1}, func(l *ledger.Embedded, _ *executor.Executor, h *executor.Handle[[]byte, []byte]) error {
		// No drain: the commands given are for this item. Do looks at its own key.
		res, err := h.Do(c.Context(), item, in, executor.NoRetry())
		return a.answer(c, l, key, res, err)
	})
}

// answer prints what became of a key, and passes the error on for the exit code.
func (a *app) answer(c *cobra.Command, l *ledger.Embedded, key journal.Key, res executor.Result[[]byte], err error) error {
	if !a.json {
		if err == nil {
			_, err = c.OutOrStdout().Write(res.Value)
		}
		return err
	}
	e, gerr := l.Get(key)
	if gerr != nil {
		return errors.Join(err, gerr)
	}
	return errors.Join(err, printJSON(c.OutOrStdout(), answerOf(key, &e, l.State(&e), res.Replayed, err)))
}

// answerJSON is what became of one call, for machines.
type answerJSON struct {
	entryJSON
	Replayed bool   `json:"replayed"`
	Error    string `json:"error,omitempty"`
}

func answerOf(key journal.Key, e *journal.Entry, state journal.State, replayed bool, err error) answerJSON {
	j := answerJSON{entryJSON: jsonEntry(key, e, state), Replayed: replayed}
	if err != nil {
		j.Error = err.Error()
	}
	return j
}

// withExecutor opens the ledger, registers one effect on an executor and closes
// both after f.
func (a *app) withExecutor(ctx context.Context, effect executor.Effect[[]byte, []byte], o executor.Options,
	f func(*ledger.Embedded, *executor.Executor, *executor.Handle[[]byte, []byte]) error) error {
	return a.with(func(l *ledger.Embedded) (err error) {
		x := executor.New(l, o)
		h, err := executor.Register(x, effect)
		if err != nil {
			return fmt.Errorf("effect %q: %w", effect.Name, err)
		}
		defer func() { err = errors.Join(err, x.Close(context.WithoutCancel(ctx))) }()
		return f(l, x, h)
	})
}
