package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// results are all measurements of a run.
type results struct {
	peers   []peer
	callers []int
	rounds  int
	length  time.Duration
	of      map[string]map[int]*measurement
}

// median is the median over the rounds of one measurement; false for none.
func (m *measurement) median(of func(*round) float64) (float64, bool) {
	if m == nil || len(m.rounds) == 0 || m.failed != nil {
		return 0, false
	}
	values := make([]float64, len(m.rounds))
	for i := range m.rounds {
		values[i] = of(&m.rounds[i])
	}
	slices.Sort(values)
	return values[len(values)/2], true
}

func rate(r *round) float64   { return r.Rate() }
func p50(r *round) float64    { return float64(r.Waits.Quantile(0.5)) }
func p99(r *round) float64    { return float64(r.Waits.Quantile(0.99)) }
func cpu(r *round) float64    { return float64(r.cpu) }
func allocs(r *round) float64 { return r.allocs }

// write writes the report, and the plots where there is a directory for them.
func (r *results) write(dir string) error {
	text := r.text(dir != "")
	if dir == "" {
		_, err := os.Stdout.Write(text)
		return err
	}
	if err := r.plot("Durable records a second", "records/s", rate, filepath.Join(dir, "peers-rate.svg")); err != nil {
		return err
	}
	if err := r.plot("What 99 of 100 callers wait at most", "ms", func(m *round) float64 { return p99(m) / 1e6 }, filepath.Join(dir, "peers-p99.svg")); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "PEERS.md"), text, 0o644)
}

func (r *results) text(plots bool) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Beside others\n\nMade by `make peers` on %d cores (%s/%s): %d rounds of %v each, all peers in turn, the median of the rounds.\n",
		runtime.GOMAXPROCS(0), runtime.GOOS, runtime.GOARCH, r.rounds, r.length)
	b.WriteString(preface)
	if plots {
		b.WriteString("\n![records a second](peers-rate.svg)\n\n![p99](peers-p99.svg)\n")
	}
	first := r.peers[0].name
	r.table(&b, "Durable records a second (÷ the first row)", func(p peer, c int) string {
		v, ok := r.of[p.name][c].median(rate)
		if !ok {
			return r.why(p, c)
		}
		if limit, ok := r.of[first][c].median(rate); ok {
			return fmt.Sprintf("%s (%.2f)", count(v), v/limit)
		}
		return count(v)
	})
	r.table(&b, "A caller waits, median / p99", func(p peer, c int) string {
		m := r.of[p.name][c]
		half, ok := m.median(p50)
		if !ok {
			return r.why(p, c)
		}
		most, _ := m.median(p99)
		return fmt.Sprintf("%s / %s", wait(half), wait(most))
	})
	r.table(&b, "Processor time and allocations a record, in the caller's process", func(p peer, c int) string {
		m := r.of[p.name][c]
		v, ok := m.median(cpu)
		if !ok {
			return r.why(p, c)
		}
		n, _ := m.median(allocs)
		return fmt.Sprintf("%.1f µs, %.1f", v/1e3, n)
	})
	b.WriteString("\n## What each of them does\n\n")
	for _, p := range r.peers {
		fmt.Fprintf(&b, "- **%s**: %s.\n", p.name, p.note)
	}
	for _, p := range r.peers {
		for _, c := range r.callers {
			if m := r.of[p.name][c]; m != nil && m.failed != nil {
				fmt.Fprintf(&b, "\nNot measured: %s: %v.\n", p.name, m.failed)
				break
			}
		}
	}
	return b.Bytes()
}

const preface = `
Every caller waits until its own record, a key of 36 bytes and a value of 64, is on disk; every system syncs for that. *Grouped* is a plain group
commit of ours in front of a system that has none. The limits do what a log cannot do without and nothing else. The systems differ in what they do
besides: oncelog decides whether the key is fresh, keeps an index of all keys in memory, and has both records of an effect; the logs only append; the
engines find keys that memory does not hold; the servers serve other processes.
`

// why there is no figure.
func (r *results) why(p peer, callers int) string {
	if m := r.of[p.name][callers]; m != nil && m.failed != nil {
		return "failed"
	}
	return "–"
}

func (r *results) table(b *bytes.Buffer, title string, cell func(peer, int) string) {
	fmt.Fprintf(b, "\n## %s\n\n| callers |", title)
	for _, c := range r.callers {
		fmt.Fprintf(b, " %d |", c)
	}
	b.WriteString("\n|---|")
	for range r.callers {
		b.WriteString("---|")
	}
	b.WriteString("\n")
	for _, p := range r.peers {
		name := p.name
		if p.ours {
			name = "**" + name + "**"
		}
		fmt.Fprintf(b, "| %s |", name)
		for _, c := range r.callers {
			fmt.Fprintf(b, " %s |", cell(p, c))
		}
		b.WriteString("\n")
	}
}

// count is a number of records for people.
func count(v float64) string {
	if v >= 10_000 {
		return fmt.Sprintf("%.0fk", v/1000)
	}
	return fmt.Sprintf("%.1fk", v/1000)
}

// wait is a duration in ns for people.
func wait(ns float64) string {
	if ns >= 1e6 {
		return fmt.Sprintf("%.1f ms", ns/1e6)
	}
	return fmt.Sprintf("%.0f µs", ns/1e3)
}

// plot draws a line for each peer over the callers, both axes logarithmic.
func (r *results) plot(title, unit string, of func(*round) float64, path string) error {
	p := plot.New()
	p.Title.Text = title
	p.X.Label.Text = "callers"
	p.Y.Label.Text = unit
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker = plot.ConstantTicks(ticks(r.callers))
	p.Y.Tick.Marker = plot.LogTicks{Prec: -1}
	p.Legend.Left, p.Legend.Top = false, false
	p.Add(plotter.NewGrid())
	shown := slices.Clone(r.peers)
	slices.SortStableFunc(shown, func(x, y peer) int { return cmp.Compare(b2i(y.ours), b2i(x.ours)) })
	for i, peer := range shown {
		var points plotter.XYs
		for _, c := range r.callers {
			if v, ok := r.of[peer.name][c].median(of); ok && v > 0 {
				points = append(points, plotter.XY{X: float64(c), Y: v})
			}
		}
		if len(points) == 0 {
			continue
		}
		line, marks, err := plotter.NewLinePoints(points)
		if err != nil {
			return err
		}
		line.Color, line.Dashes = plotutil.Color(i), plotutil.Dashes(i/7)
		marks.Color, marks.Shape = line.Color, plotutil.Shape(i)
		line.Width = vg.Points(1)
		if peer.ours {
			line.Width = vg.Points(3)
		}
		p.Add(line, marks)
		p.Legend.Add(peer.name, line, marks)
	}
	p.X.Max = float64(slices.Max(r.callers)) * 40 // room for the legend
	return p.Save(26*vg.Centimeter, 16*vg.Centimeter, path)
}

func ticks(callers []int) (all []plot.Tick) {
	for _, c := range callers {
		all = append(all, plot.Tick{Value: float64(c), Label: fmt.Sprint(c)})
	}
	return all
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
