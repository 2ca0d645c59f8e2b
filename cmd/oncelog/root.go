package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncelog/oncelog/ledger"
	"github.com/oncelog/oncelog/wal"
)

// app is what all commands share: the flags before them.
type app struct {
	dir      string
	json     bool
	create   bool
	lockWait time.Duration
	store    string
	keep     ledger.Retention
	memory   int64
	every    time.Duration // see snapshotFlags
	records  uint64
}

func newRoot() *cobra.Command {
	a := &app{}
	root := &cobra.Command{
		Use:   "oncelog",
		Short: "Make an effect happen once, whatever is retried, redelivered, killed or cut off",
		Long: `oncelog makes an effect — an email, a payment, a publish, a tool call — happen once.

It writes an acceptance marker to disk before the effect and the outcome after it.
A retry that finds an outcome gets it back; a retry that finds a marker without one
does nothing, and says so.

Exit codes: 0 done now or before, 2 usage, 10 in doubt and held, 11 in flight
elsewhere, 12 same key with another input, 13 permanent failure, 14 not applied and
may be tried again, 15 conflict (verify), 20 ledger trouble.`,
		Example: `  oncelog init --dir state
  oncelog do --dir state --effect send-email --item lead-17 -- ./send.sh lead-17
  oncelog ls --dir state`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(c *cobra.Command, words []string) error {
			if len(words) == 0 {
				return nil
			}
			return usagef("no command %q; `oncelog --help` lists them", words[0])
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	f := root.PersistentFlags()
	f.StringVar(&a.dir, "dir", os.Getenv("ONCELOG_DIR"), "directory of the ledger (or ONCELOG_DIR)")
	f.BoolVar(&a.json, "json", false, "print JSON: one object, or one a line for a list")
	f.BoolVar(&a.create, "create", false, "create the ledger where there is none")
	f.DurationVar(&a.lockWait, "lock-wait", 10*time.Second, "how long to wait for another process that owns the ledger")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(
		a.initCommand(), a.doCommand(), a.runCommand(), a.drainCommand(),
		a.lsCommand(), a.showCommand(), a.statCommand(),
		a.resolveCommand(), a.forgetCommand(), a.amnesiaCommand(), a.repairCommand(), a.verifyCommand(), a.dumpCommand(), a.compactCommand(),
		a.backupCommand(), a.restoreCommand(), a.migrateCommand(), a.benchCommand(),
		a.demoCommand(), demoPartCommand(),
	)
	return root
}

// open opens the ledger of the flags.
func (a *app) open() (*ledger.Embedded, error) {
	if err := a.needDir(); err != nil {
		return nil, err
	}
	if a.every < 0 {
		return nil, usagef("--snapshot-interval %v, want a positive duration", a.every)
	}
	if a.keep.Keys < 0 || a.keep.Results < 0 || a.keep.Count < 0 || a.memory < 0 {
		return nil, usagef("--keep, --keep-count, --keep-results and --max-memory want no negative values")
	}
	var l *ledger.Embedded
	var far meter
	err := progress(os.Stderr, "opening "+a.dir, far.show, func() (err error) {
		l, err = ledger.Open(a.dir, ledger.Options{Create: a.create, LockWait: a.lockWait, Store: wal.StoreKind(a.store), Keep: a.keep,
			MaxMemory: a.memory, SnapshotInterval: a.every, SnapshotRecords: a.records, Progress: far.tell})
		return err
	})
	if err == nil {
		a.explain(l)
	}
	return l, err
}

// explain tells people what an opening found that is not as usual.
func (a *app) explain(l *ledger.Embedded) {
	r := l.Report()
	if r.Log.TornBytes > 0 {
		fmt.Fprintf(os.Stderr, "oncelog: %s: cut %d bytes of a torn write, which was never acknowledged; they are in %s\n", a.dir, r.Log.TornBytes, r.Log.Quarantined)
	}
	for _, err := range r.Damaged {
		fmt.Fprintf(os.Stderr, "oncelog: %s: left out a damaged snapshot, which loses nothing: %v\n", a.dir, err)
	}
	if r.Amnesia {
		fmt.Fprintf(os.Stderr, "oncelog: %s has lost records (%s): keys that it does not know are in doubt until they are checked or decided; "+
			"`oncelog amnesia --end` once all are through\n", a.dir, r.Reason)
	}
}

// keepFlags are those of the commands that may let go of settled keys.
func (a *app) keepFlags(c *cobra.Command) {
	c.Flags().DurationVar(&a.keep.Keys, "keep", 0, "how long settled keys are kept while the ledger is open, such as 2160h; then they are fresh again (default: forever)")
	c.Flags().IntVar(&a.keep.Count, "keep-count", 0, "how many settled keys are kept at least, the newest (default: all)")
	c.Flags().DurationVar(&a.keep.Results, "keep-results", 0, "how long results are kept; a duplicate then hears that it is done (default: as long as the key)")
}

// snapshotFlags are those of the command that works for long.
func (a *app) snapshotFlags(c *cobra.Command) {
	c.Flags().DurationVar(&a.every, "snapshot-interval", 0, "take a snapshot of what has changed after this long, besides those for every 64 MiB of log (default: never)")
	c.Flags().Uint64Var(&a.records, "snapshot-records", 0, "take one after this many records as well (default: any number)")
}

func (a *app) needDir() error {
	if a.dir == "" {
		return usagef("which ledger? Say --dir DIR or set ONCELOG_DIR")
	}
	return nil
}

// with opens the ledger, hands it to f and closes it.
func (a *app) with(f func(*ledger.Embedded) error) (err error) {
	l, err := a.open()
	if err != nil {
		return err
	}
	defer func() {
		if cerr := l.Close(); err == nil {
			err = cerr
		}
	}()
	return f(l)
}

// view reads the ledger of the flags, which another process may own, and hands
// what it held to f.
func (a *app) view(c *cobra.Command, f func(*ledger.View) error) error {
	if err := a.needDir(); err != nil {
		return err
	}
	var v *ledger.View
	var far meter
	err := progress(c.ErrOrStderr(), "reading "+a.dir, far.show, func() (err error) {
		v, err = ledger.OpenView(a.dir, ledger.Options{Progress: far.tell})
		return err
	})
	if err != nil {
		return err
	}
	return f(v)
}

// args makes an argument check of cobra's a usage error.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, words []string) error {
		if err := check(c, words); err != nil {
			return usageError{err}
		}
		return nil
	}
}
