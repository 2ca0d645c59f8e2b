package main

import (
	"fmt"
	"os/user"

	"github.com/spf13/cobra"

	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/ledger"
	"github.com/oncelog/oncelog/wal"
)

func (a *app) initCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "init",
		Short:   "Create a ledger; nothing else does, unless --create is given",
		Example: "  oncelog init --dir state",
		Args:    args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := a.needDir(); err != nil {
				return err
			}
			l, err := ledger.Create(a.dir, ledger.Options{LockWait: a.lockWait, Store: wal.StoreKind(a.store)})
			if err != nil {
				return err
			}
			if err := l.Close(); err != nil {
				return err
			}
			fmt.Fprintf(c.ErrOrStderr(), "created a ledger in %s\n", a.dir)
			return nil
		},
	}
	c.Flags().StringVar(&a.store, "store", "", "segment store: tidwall (the default) or direct, which overwrites preallocated segments")
	return c
}

// decidedBy is the note of an operator's decision: who and why.
func decidedBy(reason string) string {
	who := "unknown"
	if u, err := user.Current(); err == nil {
		who = u.Username
	}
	if reason == "" {
		return who
	}
	return who + ": " + reason
}

func (a *app) resolveCommand() *cobra.Command {
	var landed, notLanded bool
	var reason string
	c := &cobra.Command{
		Use:   "resolve KEY",
		Short: "Decide on a key in doubt: it landed, or it did not; recorded with who and why",
		Example: "  oncelog resolve --dir state --landed --reason 'in the sent folder' send-email/lead-17\n" +
			"  oncelog resolve --dir state --not-landed --reason 'not in the sent folder' send-email/lead-18",
		Args: args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, words []string) error {
			key, err := journal.ParseKey(words[0])
			if err != nil {
				return usageError{err}
			}
			if landed == notLanded {
				return usagef("did %v land? Say either --landed or --not-landed", key)
			}
			return a.decide(c, key, func(l *ledger.Embedded) (journal.Entry, error) {
				return l.Resolve(key, landed, decidedBy(reason))
			})
		},
	}
	c.Flags().BoolVar(&landed, "landed", false, "the effect happened")
	c.Flags().BoolVar(&notLanded, "not-landed", false, "the effect did not happen: another attempt may run")
	c.Flags().StringVar(&reason, "reason", "", "why, for the history")
	return c
}

func (a *app) forgetCommand() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:     "forget KEY",
		Short:   "Make a key fresh again, so that its effect may happen again; the history is kept",
		Example: "  oncelog forget --dir state --reason 'the customer asked for a second copy' send-email/lead-17",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, words []string) error {
			key, err := journal.ParseKey(words[0])
			if err != nil {
				return usageError{err}
			}
			if reason == "" {
				return usagef("forgetting %v lets its effect happen again: say why with --reason", key)
			}
			return a.decide(c, key, func(l *ledger.Embedded) (journal.Entry, error) {
				return l.Forget(key, decidedBy(reason))
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for the history (required)")
	return c
}

// decide records an operator's decision and prints what the key is then.
func (a *app) decide(c *cobra.Command, key journal.Key, f func(*ledger.Embedded) (journal.Entry, error)) error {
	return a.with(func(l *ledger.Embedded) error {
		e, err := f(l)
		if err != nil {
			return err
		}
		j := jsonEntry(key, &e, l.State(&e))
		if a.json {
			return printJSON(c.OutOrStdout(), j)
		}
		_, err = fmt.Fprintf(c.OutOrStdout(), "%v is %s\n", key, j.State)
		return err
	})
}

func (a *app) amnesiaCommand() *cobra.Command {
	var begin, end bool
	var reason string
	c := &cobra.Command{
		Use:   "amnesia --begin|--end --reason WHY",
		Short: "Say that the ledger has lost records, so that unknown keys are in doubt, not fresh",
		Long: `Say that the ledger has lost records: a backup was put back, or damage was cut out. From
then on a key that it does not know is in doubt instead of fresh, until the effect's check
or a person decides. --end says that all items of the lost time are through.`,
		Example: "  oncelog amnesia --dir state --begin --reason 'the backup of Tuesday'",
		Args:    args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if begin == end {
				return usagef("does the amnesia begin or end? Say either --begin or --end")
			}
			if reason == "" {
				return usagef("say why with --reason")
			}
			return a.with(func(l *ledger.Embedded) error { return l.SetAmnesia(begin, decidedBy(reason)) })
		},
	}
	c.Flags().BoolVar(&begin, "begin", false, "unknown keys are in doubt from now on")
	c.Flags().BoolVar(&end, "end", false, "unknown keys are fresh again")
	c.Flags().StringVar(&reason, "reason", "", "why, for the log (required)")
	return c
}

func (a *app) repairCommand() *cobra.Command {
	var accept bool
	var reason string
	c := &cobra.Command{
		Use:   "repair --accept-loss --reason WHY",
		Short: "Open a damaged ledger without what is lost; unknown keys are in doubt from then on",
		Long: `Open a ledger that verify calls damaged, without what is lost: the log is cut back to what
is sound before the first damage, or begins anew behind the newest sound snapshot. What is
cut goes to quarantine/. From then on a key that the ledger does not know is in doubt; see
amnesia. A torn tail needs no repair: the next open cuts it.`,
		Example: "  oncelog repair --dir state --accept-loss --reason 'disk sdb died, no copy of that day'",
		Args:    args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := a.needDir(); err != nil {
				return err
			}
			if !accept {
				return usagef("a repair gives up records that were acknowledged: say --accept-loss")
			}
			if reason == "" {
				return usagef("say why with --reason")
			}
			l, loss, err := ledger.Repair(a.dir, ledger.Options{LockWait: a.lockWait}, decidedBy(reason))
			if err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "repaired: records up to LSN %d are left, what was cut is in quarantine/, unknown keys are in doubt\n", loss.LSN)
			return l.Close()
		},
	}
	c.Flags().BoolVar(&accept, "accept-loss", false, "give up what is damaged (required)")
	c.Flags().StringVar(&reason, "reason", "", "why, for the log (required)")
	return c
}

func (a *app) migrateCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "migrate --store STORE",
		Short: "Move the log of a ledger that is not in use to another segment store",
		Long: `Move the log of a ledger that is not in use to another segment store: the same records with
the same LSNs, written anew, read back and compared before the old log goes. It needs room
for a second log. A migration that is cut off leaves the ledger as it was.`,
		Example: "  oncelog migrate --dir state --store direct",
		Args:    args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := a.needDir(); err != nil {
				return err
			}
			to := wal.StoreKind(a.store)
			if to != wal.StoreTidwall && to != wal.StoreDirect {
				return usagef("to which store? Say --store %s or --store %s", wal.StoreTidwall, wal.StoreDirect)
			}
			var m ledger.Migration
			err := progress(c.ErrOrStderr(), "migrating "+a.dir, nil, func() (err error) {
				m, err = ledger.Migrate(a.dir, to, ledger.Options{LockWait: a.lockWait})
				return err
			})
			if err != nil {
				return err
			}
			if a.json {
				return printJSON(c.OutOrStdout(), map[string]any{"from": m.From, "to": m.To, "records": m.Records})
			}
			if m.Records == 0 {
				_, err = fmt.Fprintf(c.OutOrStdout(), "%s has the %s store already\n", a.dir, to)
			} else {
				_, err = fmt.Fprintf(c.OutOrStdout(), "moved %d records from the %s to the %s store\n", m.Records, m.From, m.To)
			}
			return err
		},
	}
	c.Flags().StringVar(&a.store, "store", "", "segment store to move to: tidwall or direct (required)")
	return c
}
