package main

import (
	"os"

	"github.com/oncelog/oncelog/internal/durable"
	"github.com/oncelog/oncelog/internal/load"
)

// limits are what the disk allows.
var limits = []peer{
	{name: "limit: overwrite + fdatasync, grouped", note: "one preallocated file, overwritten in place; no index, no checksum", open: limit("overwrite")},
	{name: "limit: append + fdatasync, grouped", note: "one file that grows; no index, no checksum", open: limit("append")},
}

func limit(name string) func(string) (store, error) {
	return func(dir string) (store, error) {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, err
		}
		commit, closeFile, err := load.Limits[name](durable.OS, dir)
		return newGrouped(commit, closeFile), err
	}
}

// grouped puts a plain group commit in front of a store that takes several records at
// once.
type grouped struct {
	group   *load.Group
	closing func() error
}

func newGrouped(commit load.Commit, closing func() error) *grouped {
	return &grouped{load.NewGroup(commit), closing}
}

func (g *grouped) put(i int) error {
	key, value := record(i)
	return g.group.Append(append(key, value...))
}

func (g *grouped) close() error { return g.closing() }

// split calls f with each record of a group.
func split(b []byte, f func(key, value []byte) error) error {
	for ; len(b) > 0; b = b[recordBytes:] {
		if err := f(b[:36:36], b[36:recordBytes:recordBytes]); err != nil {
			return err
		}
	}
	return nil
}
