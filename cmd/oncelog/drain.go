package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/oncelog/oncelog/executor"
	"github.com/oncelog/oncelog/ledger"
)

func (a *app) drainCommand() *cobra.Command {
	var f commandFlags
	c := &cobra.Command{
		Use:   "drain --effect E [--check CMD] [--confirm CMD]",
		Short: "One pass over the journal: check what is in doubt, confirm what is executed",
		Long: `One pass over the journal's keys of an effect: what is in doubt is checked, what is
executed confirmed, what did not happen released. It runs no effect: the next do or run
does. Keys that were executed under a --confirm stay in the journal without one.

The exit code is 10 while keys are in doubt, else 0.`,
		Example: "  oncelog drain --dir state --effect send-email --check ./was-sent.sh --confirm ./mark-done.sh",
		Args:    args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			effect, err := f.effectOf(nil, c.ErrOrStderr())
			if err != nil {
				return err
			}
			effect.Run = nil
			return a.withExecutor(c.Context(), effect, executor.Options{DrainEvery: -1},
				func(_ *ledger.Embedded, x *executor.Executor, _ *executor.Handle[[]byte, []byte]) error {
					return a.drain(c, x)
				})
		},
	}
	f.register(c)
	return c
}

func (a *app) drain(c *cobra.Command, x *executor.Executor) error {
	r, err := x.Drain(c.Context())
	if err != nil {
		return err
	}
	if a.json {
		err = printJSON(c.OutOrStdout(), map[string]int{"confirmed": r.Confirmed, "landed": r.Landed, "released": r.Released,
			"in_doubt": r.Held, "unconfirmed": r.Unconfirmed, "in_flight": r.InFlight, "other_effects": r.Unknown})
	} else {
		_, err = fmt.Fprintf(c.OutOrStdout(), "%d confirmed, %d landed, %d released, %d in doubt, %d not confirmed, %d of other effects\n",
			r.Confirmed, r.Landed, r.Released, r.Held, r.Unconfirmed, r.Unknown)
	}
	if err == nil && r.Held > 0 {
		return silentExit(exitInDoubt)
	}
	return err
}
