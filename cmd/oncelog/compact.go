package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncelog/oncelog/ledger"
)

func (a *app) compactCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "compact",
		Short: "Take a snapshot now, let go of old keys if asked to, and drop the log that is needless then",
		Example: "  oncelog compact --dir state\n" +
			"  oncelog compact --dir state --keep 2160h --keep-results 168h",
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.with(func(l *ledger.Embedded) error {
				var s ledger.SnapshotStat
				err := progress(c.ErrOrStderr(), "compacting "+a.dir, shareWritten(l), func() (err error) {
					s, err = l.Compact()
					return err
				})
				if err != nil {
					return err
				}
				if a.json {
					return printJSON(c.OutOrStdout(), map[string]any{
						"lsn": s.LSN, "entries": s.Entries, "bytes": s.Bytes, "seconds": s.Took.Seconds()})
				}
				_, err = fmt.Fprintf(c.OutOrStdout(), "snapshot of %d keys at LSN %d, %s, in %v\n",
					s.Entries, s.LSN, size(s.Bytes), s.Took.Round(time.Millisecond))
				return err
			})
		},
	}
	a.keepFlags(c)
	return c
}

// shareWritten shows how much of the snapshot under way is written.
func shareWritten(l *ledger.Embedded) func(time.Duration) string {
	return func(time.Duration) string {
		s := l.SnapshotStat()
		return bar(float64(s.Written) / float64(max(s.Due, s.Written, 1)))
	}
}

func (a *app) statCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "stat",
		Short:   "Show sizes, LSNs, counts and ages",
		Example: "  oncelog stat --dir state --json",
		Args:    args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.view(c, func(v *ledger.View) error { return a.stat(c, v) })
		},
	}
}

func (a *app) stat(c *cobra.Command, l *ledger.View) error {
	s, err := l.Stat()
	if err != nil {
		return err
	}
	var oldest int64
	states := map[string]int{}
	for _, e := range l.Unsettled() {
		states[stateName(l.State(&e), e.Failed)]++
		if oldest == 0 || e.Since < oldest {
			oldest = e.Since
		}
	}
	if a.json {
		return printJSON(c.OutOrStdout(), map[string]any{
			"epoch": s.Epoch, "keys": s.Keys, "unsettled": s.Unsettled, "states": states, "conflicts": s.Conflicts,
			"amnesia": s.Amnesia, "oldest_unsettled": oldest, "log_bytes": s.Log.Bytes, "log_segments": s.Log.Segments,
			"first_lsn": s.Log.First, "durable_lsn": s.Log.Durable, "open_seconds": s.Open.Seconds(),
			"keys_from_lsn": s.KeysFrom, "results_from_lsn": s.ResultsFrom,
			"snapshot_lsn": s.Snapshots.LSN, "snapshot_entries": s.Snapshots.Entries, "snapshot_bytes": s.Snapshots.Bytes,
			"snapshot_deltas": s.Snapshots.Deltas,
			"index_bytes":     s.Index.Allocated + s.Index.Tables, "index_live_bytes": s.Index.Live,
		})
	}
	out := c.OutOrStdout()
	fmt.Fprintf(out, "epoch       %d\nkeys        %d known, %d unsettled %v, %d settled with a conflict\n",
		s.Epoch, s.Keys, s.Unsettled, states, s.Conflicts)
	if oldest != 0 {
		fmt.Fprintf(out, "oldest      unsettled for %s\n", age(oldest))
	}
	fmt.Fprintf(out, "log         LSN %d to %d, %s in %d segments\n", s.Log.First, s.Log.Durable, size(s.Log.Bytes), s.Log.Segments)
	if n := s.Snapshots.Deltas; n > 0 {
		fmt.Fprintf(out, "snapshots   a base and %d deltas to LSN %d, the last one %d entries, %s\n", n, s.Snapshots.LSN, s.Snapshots.Entries, size(s.Snapshots.Bytes))
	} else if s.Snapshots.LSN > 0 {
		fmt.Fprintf(out, "snapshots   a base at LSN %d, %d entries, %s\n", s.Snapshots.LSN, s.Snapshots.Entries, size(s.Snapshots.Bytes))
	}
	fmt.Fprintf(out, "memory      %s for settled keys, %s of it keys and results\n", size(int64(s.Index.Allocated+s.Index.Tables)), size(int64(s.Index.Live)))
	fmt.Fprintf(out, "open        for %s so far\n", s.Open.Round(time.Minute))
	if s.KeysFrom > 0 {
		fmt.Fprintf(out, "let go      of settled keys without a record from LSN %d on\n", s.KeysFrom)
	}
	if s.ResultsFrom > s.KeysFrom {
		fmt.Fprintf(out, "let go      of results before LSN %d\n", s.ResultsFrom)
	}
	if s.Amnesia {
		fmt.Fprintf(out, "AMNESIA     acknowledged records are lost (%s): unknown keys are in doubt\n", s.Reason)
	}
	return nil
}
