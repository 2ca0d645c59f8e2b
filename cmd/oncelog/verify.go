package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/oncelog/oncelog/ledger"
	"github.com/oncelog/oncelog/snapshot"
	"github.com/oncelog/oncelog/wal"
)

// problemJSON is one place that is damaged.
type problemJSON struct {
	File   string `json:"file,omitempty"`
	Offset int64  `json:"offset"`
	LSN    uint64 `json:"lsn,omitempty"`
	Reason string `json:"reason"`
}

func jsonProblem(err error) problemJSON {
	var log *wal.CorruptError
	var snap *snapshot.CorruptError
	switch {
	case errors.As(err, &log):
		return problemJSON{log.Path, log.Offset, log.LSN, log.Reason}
	case errors.As(err, &snap):
		return problemJSON{snap.Path, snap.Offset, 0, snap.Reason}
	}
	return problemJSON{Reason: err.Error()}
}

// verdictJSON is what verify prints for machines.
type verdictJSON struct {
	OK        bool          `json:"ok"`
	Keys      int           `json:"keys"`
	Unsettled int           `json:"unsettled"`
	FirstLSN  uint64        `json:"first_lsn"`
	LastLSN   uint64        `json:"last_lsn"`
	Snapshots int           `json:"snapshots"`
	TornBytes int64         `json:"torn_bytes"`
	Problems  []problemJSON `json:"problems"`
	Conflicts []keyJSON     `json:"conflicts"`
}

func (a *app) verifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "verify",
		Short: "Read everything, check every checksum and the chain; change nothing",
		Long: `Read everything: FORMAT, every snapshot, every block of the log. Check every checksum, the
chain, and every key's transitions. Change nothing; the ledger may be in use.

The exit code is 20 for damage, 15 for a conflict (an effect is known to contradict what
was decided), 0 if all is sound. A torn tail is what a crash leaves, and no damage.`,
		Example: "  oncelog verify --dir state",
		Args:    args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := a.needDir(); err != nil {
				return err
			}
			var v ledger.Verdict
			err := progress(c.ErrOrStderr(), "verifying "+a.dir, nil, func() (err error) {
				v, err = ledger.Verify(a.dir, ledger.Options{})
				return err
			})
			if err != nil {
				return err
			}
			return a.verdict(c, &v)
		},
	}
}

func (a *app) verdict(c *cobra.Command, v *ledger.Verdict) error {
	j := verdictJSON{OK: len(v.Problems) == 0, Snapshots: len(v.Snapshots), Problems: []problemJSON{}, Conflicts: []keyJSON{}}
	for _, p := range v.Problems {
		j.Problems = append(j.Problems, jsonProblem(p))
	}
	if v.View != nil {
		s, err := v.View.Stat()
		if err != nil {
			return err
		}
		r := v.View.Report()
		j.Keys, j.Unsettled, j.FirstLSN, j.LastLSN, j.TornBytes = s.Keys, s.Unsettled, s.Log.First, s.Log.Durable, r.Log.TornBytes
		conflicts, err := v.View.InConflict()
		if err != nil {
			return err
		}
		for _, k := range conflicts {
			j.Conflicts = append(j.Conflicts, jsonKey(k.Key))
		}
	}
	if err := a.printVerdict(c, v, &j); err != nil {
		return err
	}
	switch {
	case len(v.Problems) > 0:
		return silentExit(exitLedger)
	case len(j.Conflicts) > 0:
		return silentExit(exitConflict)
	}
	return nil
}

func (a *app) printVerdict(c *cobra.Command, v *ledger.Verdict, j *verdictJSON) error {
	if a.json {
		return printJSON(c.OutOrStdout(), j)
	}
	out := c.OutOrStdout()
	for _, p := range v.Problems {
		fmt.Fprintf(out, "DAMAGED   %v\n", p)
	}
	for _, k := range j.Conflicts {
		fmt.Fprintf(out, "CONFLICT  %s/%s%s; `oncelog show` tells how\n", k.Effect, k.Item, k.ItemBase64)
	}
	if j.TornBytes > 0 {
		fmt.Fprintf(out, "torn      %d bytes at the log's end were never acknowledged; the next open cuts them\n", j.TornBytes)
	}
	if v.View != nil {
		fmt.Fprintf(out, "sound     LSN %d to %d, %d keys, %d of them unsettled, %d snapshots\n", j.FirstLSN, j.LastLSN, j.Keys, j.Unsettled, j.Snapshots)
	}
	return nil
}
