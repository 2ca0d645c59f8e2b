package main

import (
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/ledger"
)

func (a *app) lsCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Short:   "List the journal: what is in doubt or not yet confirmed, and every conflict",
		Example: "  oncelog ls --dir state\n  oncelog ls --dir state --json | jq -r 'select(.state==\"in_doubt\").item'",
		Args:    args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.view(c, func(v *ledger.View) error { return a.ls(c, v) })
		},
	}
}

func (a *app) ls(c *cobra.Command, l *ledger.View) error {
	table := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
	n := 0
	row := func(k journal.Key, e journal.Entry) error {
		j := jsonEntry(k, &e, l.State(&e))
		if a.json {
			return printJSON(c.OutOrStdout(), j)
		}
		if n == 0 {
			fmt.Fprintln(table, "KEY\tSTATE\tATTEMPT\tFOR\tWHY")
		}
		n++
		state := j.State
		if e.Conflict {
			state += " CONFLICT"
		}
		_, err := fmt.Fprintf(table, "%v\t%s\t%d\t%s\t%s\n", k, state, e.Attempt, age(e.Since), why(&e))
		return err
	}
	for k, e := range l.Unsettled() {
		if err := row(k, e); err != nil {
			return err
		}
	}
	conflicts, err := l.Conflicts()
	if err != nil {
		return err
	}
	for _, k := range conflicts {
		if err := row(k.Key, k.Entry); err != nil {
			return err
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if n == 0 && !a.json {
		fmt.Fprintln(c.ErrOrStderr(), "the journal is empty: everything accepted is settled")
	}
	return nil
}

// why is the last word on a key, for people.
func why(e *journal.Entry) string {
	s := e.Cause.String()
	for i := len(e.History) - 1; i >= 0; i-- {
		if note := e.History[i].Note; note != "" {
			return s + ": " + note
		}
	}
	if s == "" && e.State == journal.Accepted {
		return "its owner is gone"
	}
	return s
}

func age(ms int64) string { return time.Since(time.UnixMilli(ms)).Round(time.Second).String() }
