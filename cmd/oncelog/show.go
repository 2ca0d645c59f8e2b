package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/ledger"
)

// eventJSON is one step of a key's history as printed for machines.
type eventJSON struct {
	LSN     uint64 `json:"lsn,omitempty"`
	Event   string `json:"event"`
	Attempt uint32 `json:"attempt"`
	Time    string `json:"time"`
	Cause   string `json:"cause,omitempty"`
	Failed  bool   `json:"failed,omitempty"`
	Landed  bool   `json:"landed,omitempty"`
	Note    string `json:"note,omitempty"`
}

func jsonEvent(ev journal.Event) eventJSON {
	return eventJSON{LSN: ev.LSN, Event: ev.Kind.String(), Attempt: ev.Attempt, Time: stamp(ev.Time),
		Cause: ev.Cause.String(), Failed: ev.Failed, Landed: ev.Landed, Note: ev.Note}
}

func (a *app) showCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "show KEY",
		Short:   "Show one key with its whole history",
		Long:    "Show one key with its whole history. KEY is EFFECT/ITEM, the item quoted as `ls` prints it where it is not plain text.",
		Example: "  oncelog show --dir state send-email/lead-17",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, words []string) error {
			key, err := journal.ParseKey(words[0])
			if err != nil {
				return usageError{err}
			}
			return a.view(c, func(v *ledger.View) error { return a.show(c, v, key) })
		},
	}
}

func (a *app) show(c *cobra.Command, l *ledger.View, key journal.Key) error {
	e, err := l.Get(key)
	if err != nil {
		return err
	}
	j := jsonEntry(key, &e, l.State(&e))
	if a.json {
		events := []eventJSON{}
		for _, ev := range e.Events() {
			events = append(events, jsonEvent(ev))
		}
		return printJSON(c.OutOrStdout(), struct {
			entryJSON
			History []eventJSON `json:"history"`
			Dropped uint32      `json:"history_dropped,omitempty"`
		}{j, events, e.Dropped})
	}
	out := c.OutOrStdout()
	if !e.Known() {
		_, err := fmt.Fprintf(out, "%v is absent: it was never accepted\n", key)
		return err
	}
	fmt.Fprintf(out, "%v  %s  attempt %d  generation %d  since %s\n", key, j.State, j.Attempt, j.Generation, j.Since)
	if e.Conflict {
		fmt.Fprintln(out, "CONFLICT: an effect is known to contradict what was decided; the history says how")
	}
	if j.Result != nil {
		fmt.Fprintf(out, "result: %s\n", *j.Result)
	}
	if e.Reason != "" {
		fmt.Fprintf(out, "reason: %s\n", e.Reason)
	}
	return printHistory(c, &e)
}

func printHistory(c *cobra.Command, e *journal.Entry) error {
	table := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TIME\tATTEMPT\tEVENT\tCAUSE\tNOTE")
	for _, ev := range e.Events() {
		what := ev.Kind.String()
		switch {
		case ev.Failed:
			what += " (failed)"
		case ev.Kind == journal.KindObserved && ev.Landed:
			what += " (landed)"
		case ev.Kind == journal.KindObserved:
			what += " (not landed)"
		}
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\n", stamp(ev.Time), ev.Attempt, what, ev.Cause, ev.Note)
	}
	if e.Dropped > 0 {
		fmt.Fprintf(table, "\t\t%d earlier events are no longer kept\t\t\n", e.Dropped)
	}
	return table.Flush()
}
