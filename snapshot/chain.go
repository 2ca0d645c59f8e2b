package snapshot

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/oncelog/oncelog/internal/durable"
)

// A File is a snapshot as its name tells.
type File struct {
	Path string
	From uint64 // 0: a base
	LSN  uint64
}

// A Chain is a base and the deltas that follow it, each from where the one before
// ends.
type Chain []File

// End is the LSN up to which the chain reaches; 0 for none.
func (c Chain) End() uint64 {
	if len(c) == 0 {
		return 0
	}
	return c[len(c)-1].LSN
}

const (
	basePrefix  = "base-"
	deltaPrefix = "delta-"
	suffix      = ".snap"
	digits      = 20
)

func name(from, lsn uint64) string {
	if from == 0 {
		return fmt.Sprintf("%s%0*d%s", basePrefix, digits, lsn, suffix)
	}
	return fmt.Sprintf("%s%0*d-%0*d%s", deltaPrefix, digits, from, digits, lsn, suffix)
}

// parseName is the reverse of name.
func parseName(base string) (f File, ok bool) {
	if numbers, found := strings.CutPrefix(strings.TrimSuffix(base, suffix), deltaPrefix); found {
		from, to, _ := strings.Cut(numbers, "-")
		f.From, f.LSN = number(from), number(to)
		return f, f.From < f.LSN && base == name(f.From, f.LSN)
	}
	f.LSN = number(strings.TrimSuffix(strings.TrimPrefix(base, basePrefix), suffix))
	return f, base == name(0, f.LSN)
}

// number is 0 for what is none; the caller compares what it makes of that.
func number(digits string) uint64 {
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// List finds the snapshots of a directory by their names, the newest first, of two
// that end together the base, and does not look into them.
func List(fsys durable.FS, dir string) ([]File, error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	var found []File
	for _, e := range entries {
		if f, ok := parseName(e.Name()); ok {
			f.Path = filepath.Join(dir, e.Name())
			found = append(found, f)
		}
	}
	slices.SortFunc(found, func(a, b File) int {
		if a.LSN != b.LSN {
			return compare(b.LSN, a.LSN)
		}
		return compare(a.From, b.From)
	})
	return found, nil
}

func compare(a, b uint64) int {
	if a < b {
		return -1
	}
	return 1
}

// Chains puts files that List found together: a chain for every base, the newest base
// first. Where two deltas begin at one LSN, because one was made to take the place
// of the other, the chain goes on with the one that reaches further.
func Chains(files []File) []Chain {
	var all []Chain
	for _, base := range files {
		if base.From != 0 {
			continue
		}
		c := Chain{base}
		for more := true; more; {
			more = false
			for _, f := range files { // newest first
				if f.From == c.End() && f.From != 0 {
					c, more = append(c, f), true
					break
				}
			}
		}
		all = append(all, c)
	}
	return all
}

// Newest is the chain that reaches furthest, of two that reach as far the one with the
// newer base; empty where there is no base.
func Newest(files []File) Chain {
	var best Chain
	for _, c := range Chains(files) {
		if best == nil || c.End() > best.End() {
			best = c
		}
	}
	return best
}
