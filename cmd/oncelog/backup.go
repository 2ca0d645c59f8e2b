package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/oncelog/oncelog/ledger"
)

func (a *app) backupCommand() *cobra.Command {
	var to string
	c := &cobra.Command{
		Use:   "backup --to DIR",
		Short: "Copy a ledger, which may be in use, to a directory that `restore` makes a ledger of again",
		Long: `Copy a ledger to a directory that restore makes a ledger of again. The ledger may be in
use meanwhile, and does not wait. Everything is read, checked, and read back. The backup
that the directory held is replaced in one step at the end: what both have is not written
again, and neither is it when a backup that was cut off is repeated.`,
		Example: "  oncelog backup --dir state --to /mnt/other-disk/state-backup",
		Args:    args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := a.needDir(); err != nil {
				return err
			}
			if to == "" {
				return usagef("where to? Say --to DIR")
			}
			var m ledger.Manifest
			var far meter
			err := progress(c.ErrOrStderr(), "backing up "+a.dir, far.show, func() (err error) {
				m, err = ledger.Backup(a.dir, to, ledger.Options{LockWait: a.lockWait, Progress: far.tell})
				return err
			})
			if err != nil {
				return err
			}
			return a.printManifest(c, "backed up", &m)
		},
	}
	c.Flags().StringVar(&to, "to", "", "directory of the backup: empty, or an earlier backup of this ledger (required)")
	return c
}

func (a *app) restoreCommand() *cobra.Command {
	var from, reason string
	c := &cobra.Command{
		Use:   "restore --from DIR --reason WHY",
		Short: "Make a ledger of a backup; keys that the backup does not know are in doubt from then on",
		Long: `Make a ledger of a backup, in a directory that holds none. What happened after the backup
is lost, so the restored ledger begins with an amnesia: a key that it does not know is in
doubt instead of fresh, until the effect's check or a person decides; see amnesia.`,
		Example: "  oncelog restore --from /mnt/other-disk/state-backup --dir state --reason 'disk sdb died'",
		Args:    args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := a.needDir(); err != nil {
				return err
			}
			if from == "" {
				return usagef("from where? Say --from DIR")
			}
			if reason == "" {
				return usagef("say why with --reason")
			}
			var m ledger.Manifest
			var far meter
			err := progress(c.ErrOrStderr(), "restoring "+a.dir, far.show, func() (err error) {
				m, err = ledger.Restore(from, a.dir, ledger.Options{LockWait: a.lockWait, Progress: far.tell}, decidedBy(reason))
				return err
			})
			if err != nil {
				return err
			}
			if err := a.printManifest(c, "restored", &m); err != nil || a.json {
				return err
			}
			_, err = fmt.Fprintln(c.ErrOrStderr(), "What happened after it is lost: keys that it does not know are in doubt until they are checked or decided.\n"+
				"When all items of the lost time are through, say `oncelog amnesia --end`.")
			return err
		},
	}
	c.Flags().StringVar(&from, "from", "", "directory of the backup (required)")
	c.Flags().StringVar(&reason, "reason", "", "why, for the log (required)")
	return c
}

func (a *app) printManifest(c *cobra.Command, did string, m *ledger.Manifest) error {
	if a.json {
		return printJSON(c.OutOrStdout(), map[string]any{"lsn": m.LSN, "time": m.Time, "host": m.Host, "ledger": m.Ledger, "files": len(m.Files), "bytes": m.Bytes()})
	}
	_, err := fmt.Fprintf(c.OutOrStdout(), "%s %v: %d files, %s\n", did, m, len(m.Files), size(m.Bytes()))
	return err
}
