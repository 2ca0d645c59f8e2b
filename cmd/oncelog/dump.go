package main

import (
	"encoding/base64"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/ledger"
)

// recordJSON is one record of the log. Bytes that are not UTF-8 come in base64
// under a name that says so.
type recordJSON struct {
	LSN  uint64 `json:"lsn"`
	Kind string `json:"kind"`
	*keyJSON
	Attempt      uint32 `json:"attempt,omitempty"`
	Epoch        uint64 `json:"epoch,omitempty"`
	Time         string `json:"time,omitempty"`
	Cause        string `json:"cause,omitempty"`
	Fingerprint  uint64 `json:"fingerprint,omitempty"`
	Failed       bool   `json:"failed,omitempty"`
	Settles      bool   `json:"settles,omitempty"`
	NoResult     bool   `json:"no_result,omitempty"`
	Landed       bool   `json:"landed,omitempty"`
	Input        string `json:"input,omitempty"`
	InputBase64  string `json:"input_base64,omitempty"`
	Result       string `json:"result,omitempty"`
	ResultBase64 string `json:"result_base64,omitempty"`
	Reason       string `json:"reason,omitempty"`
	Note         string `json:"note,omitempty"`
	Open         int64  `json:"open_ms,omitempty"`
	Keys         uint64 `json:"keys_from_lsn,omitempty"`
	Results      uint64 `json:"results_from_lsn,omitempty"`
}

func jsonRecord(lsn uint64, r *journal.Record) recordJSON {
	j := recordJSON{LSN: lsn, Kind: r.Kind.String(), Attempt: r.Attempt, Epoch: r.Epoch, Cause: r.Cause.String(),
		Fingerprint: r.Fingerprint, Failed: r.Failed, Settles: r.Settles, NoResult: r.NoResult, Landed: r.Landed,
		Reason: r.Reason, Note: r.Note, Open: r.Open, Keys: r.Keys, Results: r.Results}
	if r.Time != 0 {
		j.Time = stamp(r.Time)
	}
	if r.Kind.HasKey() {
		k := jsonKey(r.Key)
		j.keyJSON = &k
	}
	j.Input, j.InputBase64 = text(r.Input)
	j.Result, j.ResultBase64 = text(r.Result)
	return j
}

// text is b as it is if it is UTF-8, and otherwise in base64.
func text(b []byte) (plain, encoded string) {
	if utf8.Valid(b) {
		return string(b), ""
	}
	return "", base64.StdEncoding.EncodeToString(b)
}

func (a *app) dumpCommand() *cobra.Command {
	var from uint64
	c := &cobra.Command{
		Use:     "dump",
		Short:   "Print the log as JSON lines, oldest record first",
		Long:    "Print the log as JSON lines, oldest record first. What a compaction has dropped is in the snapshots only; `show` prints it.",
		Example: "  oncelog dump --dir state | jq 'select(.kind==\"executed\")'",
		Args:    args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.view(c, func(l *ledger.View) error {
				for rec, err := range l.Records(from) {
					if err != nil {
						return err
					}
					r, err := journal.DecodeRecord(rec.Data)
					if err != nil {
						return err
					}
					if err := printJSON(c.OutOrStdout(), jsonRecord(rec.LSN, &r)); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	c.Flags().Uint64Var(&from, "from", 0, "first LSN to print")
	return c
}
