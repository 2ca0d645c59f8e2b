package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncelog/oncelog/internal/durable"
	"github.com/oncelog/oncelog/internal/load"
	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/ledger"
	"github.com/oncelog/oncelog/wal"
)

// benchCallers are how many callers at once are measured.
var benchCallers = []int{1, 16, 256, 1024}

const benchRounds = 3

func (a *app) benchCommand() *cobra.Command {
	var length time.Duration
	c := &cobra.Command{
		Use:   "bench --dir DIR",
		Short: "Measure what the disk under a directory allows, and what the engine reaches on it",
		Long: `Measure durable markers a second, and how long a caller waits for one, with both segment
stores, beside what the disk allows: the same bytes overwritten in place, and appended to
a file, with one write and one sync for all callers that wait. Everything is synced. The
files are made in a directory of their own inside DIR and removed; a ledger in DIR is
left alone.`,
		Example: "  oncelog bench --dir /var/lib/mail",
		Args:    args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if err := a.needDir(); err != nil {
				return err
			}
			if length < 0 {
				return usagef("--time %v, want a positive duration", length)
			}
			dir, remove, err := load.Scratch(a.dir)
			if err != nil {
				return usageError{err}
			}
			defer func() { err = errors.Join(err, remove()) }()
			b := &benchmark{dir: dir, out: c.OutOrStdout(), json: a.json,
				each: length / time.Duration(len(benchCallers)*len(benchNames)*benchRounds)}
			return b.run(c.Context())
		},
	}
	c.Flags().DurationVar(&length, "time", 45*time.Second, "how long it takes, about")
	return c
}

// benchNames are what is measured, in the order in which it is shown: limits first.
var benchNames = []string{"overwrite", "append", "direct", "tidwall"}

// benchmark is one run of the command.
type benchmark struct {
	dir  string
	out  io.Writer
	json bool
	each time.Duration // of one measurement
}

// contender is something that makes records durable.
type contender struct {
	append  func(i int) error
	close   func() error
	results load.Result
}

func (b *benchmark) run(ctx context.Context) error {
	for _, callers := range benchCallers {
		contenders, err := b.open(callers)
		if err != nil {
			return err
		}
		err = b.measure(ctx, callers, contenders)
		for _, name := range benchNames {
			err = errors.Join(err, contenders[name].close())
		}
		if err == nil {
			err = b.show(callers, contenders)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// measure goes round them, so that what disturbs the machine disturbs all.
func (b *benchmark) measure(ctx context.Context, callers int, contenders map[string]*contender) error {
	at := 0 // numbers are not used twice
	for range benchRounds {
		for _, name := range benchNames {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			c, from := contenders[name], at
			r, err := load.Run(callers, b.each, func(i int) error { return c.append(from + i) })
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			c.results.Add(&r)
			at += r.Records + callers
		}
	}
	return nil
}

func (b *benchmark) open(callers int) (map[string]*contender, error) {
	all := map[string]*contender{}
	for _, name := range benchNames {
		dir := filepath.Join(b.dir, fmt.Sprint(name, callers))
		var c *contender
		var err error
		if limit := load.Limits[name]; limit != nil {
			c, err = openLimit(dir, limit)
		} else {
			c, err = openMarkers(dir, wal.StoreKind(name))
		}
		if err != nil {
			return nil, err
		}
		all[name] = c
	}
	return all, nil
}

func openLimit(dir string, open func(durable.FS, string) (load.Commit, func() error, error)) (*contender, error) {
	if err := durable.OS.Mkdir(dir); err != nil {
		return nil, err
	}
	commit, closeFile, err := open(durable.OS, dir)
	if err != nil {
		return nil, err
	}
	g := load.NewGroup(commit)
	return &contender{append: func(i int) error { return g.Append(benchMarker(i)) }, close: closeFile}, nil
}

func openMarkers(dir string, store wal.StoreKind) (*contender, error) {
	l, err := ledger.Create(dir, ledger.Options{Store: store})
	if err != nil {
		return nil, err
	}
	return &contender{close: l.Close, append: func(i int) error {
		_, err := l.Accept(context.Background(), benchKey(i), ledger.Input{Fingerprint: 7})
		return err
	}}, nil
}

// benchKey has an item of 36 bytes, like a UUID.
func benchKey(i int) journal.Key {
	return journal.Key{Effect: "bench", Item: fmt.Sprintf("%036d", i)}
}

// benchMarker is the marker of a key: the bytes that the limits write.
func benchMarker(i int) []byte {
	r := journal.Record{Kind: journal.KindAccepted, Key: benchKey(i), Attempt: 1, Epoch: 2, Time: time.Now().UnixMilli(), Fingerprint: 7}
	return r.AppendTo(nil)
}

// benchLabels say what is measured.
var benchLabels = map[string]string{
	"overwrite": "disk, overwriting", "append": "disk, appending", "direct": "oncelog, direct store", "tidwall": "oncelog, tidwall store",
}

func (b *benchmark) show(callers int, contenders map[string]*contender) error {
	most := 0.0
	for _, c := range contenders {
		most = max(most, c.results.Rate())
	}
	limit := contenders["overwrite"].results.Rate()
	if !b.json {
		fmt.Fprintf(b.out, "%-24s %10s %9s %9s %9s\n", fmt.Sprint("callers: ", callers), "records/s", "÷ limit", "p50", "p99")
	}
	for _, name := range benchNames {
		r := &contenders[name].results
		p50, p99 := r.Waits.Quantile(0.5), r.Waits.Quantile(0.99)
		var err error
		if b.json {
			err = printJSON(b.out, map[string]any{"callers": callers, "what": name, "records_per_second": r.Rate(), "of_limit": r.Rate() / limit,
				"p50_seconds": p50.Seconds(), "p99_seconds": p99.Seconds(), "p999_seconds": r.Waits.Quantile(0.999).Seconds()})
		} else {
			_, err = fmt.Fprintf(b.out, "%-24s %10.0f %9.2f %9v %9v  %s\n", benchLabels[name], r.Rate(), r.Rate()/limit,
				short(p50), short(p99), strings.Repeat("█", int(32*r.Rate()/most+0.5)))
		}
		if err != nil {
			return err
		}
	}
	if b.json {
		return nil
	}
	_, err := fmt.Fprintln(b.out)
	return err
}

// short is a duration with three digits.
func short(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}
