package main

import (
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/oncelog/oncelog/internal/demo"
)

const demoPartName = "demo-part"

func (a *app) demoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "The story, with real processes: a naive watcher and this one, an outage, kill -9",
		Long: `The story, with real processes: a backend with a queue, a mail server, a naive watcher and
one with oncelog. The backend's writes fail for a while, and both watchers are killed with
kill -9 in the middle of a mail, twice. Then the mail server says what each of them sent.

It takes about ten seconds, and exits with 1 if oncelog sent a mail twice or lost one.`,
		Example: "  oncelog demo\n  oncelog demo --json",
		Args:    args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			r, err := demo.Run(c.Context(), []string{self, demoPartName}, c.ErrOrStderr())
			if err != nil {
				return err
			}
			if a.json {
				err = printJSON(c.OutOrStdout(), r)
			} else {
				err = printDemo(c, r)
			}
			if err == nil && r.Oncelog.Double+r.Oncelog.Lost > 0 {
				return silentExit(1)
			}
			return err
		},
	}
}

func printDemo(c *cobra.Command, r *demo.Report) error {
	t := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "\nMAILS TO\tNAIVE WATCHER\tONCELOG")
	for _, l := range r.Leads {
		fmt.Fprintf(t, "%s\t%d\t%d\n", l.ID, l.Naive, l.Oncelog)
	}
	fmt.Fprintf(t, "sent\t%d\t%d\n", r.Naive.Sent, r.Oncelog.Sent)
	fmt.Fprintf(t, "sent twice or more often\t%d\t%d\n", r.Naive.Double, r.Oncelog.Double)
	fmt.Fprintf(t, "lost\t%d\t%d\n", r.Naive.Lost, r.Oncelog.Lost)
	fmt.Fprintf(t, "held in doubt\t-\t%d\n", r.Oncelog.InDoubt)
	return t.Flush()
}

// demoPartCommand is one of the demo's processes.
func demoPartCommand() *cobra.Command {
	return &cobra.Command{
		Use:    demoPartName,
		Hidden: true,
		RunE: func(c *cobra.Command, words []string) error {
			return demo.Part(c.Context(), words, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
}
