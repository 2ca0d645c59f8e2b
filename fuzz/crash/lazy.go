package crash

import "github.com/oncelog/oncelog/internal/durable"

// LazyFS is the control of every harness that cuts the power: it says that it has
// synced, and has not. A harness that does not catch a ledger on it is worth nothing.
type LazyFS struct{ durable.FS }

// Create makes a file whose syncs do nothing.
func (f LazyFS) Create(path string) (durable.File, error) { return lazy(f.FS.Create(path)) }

// Open opens a file whose syncs do nothing.
func (f LazyFS) Open(path string) (durable.File, error) { return lazy(f.FS.Open(path)) }

// SyncDir does nothing.
func (LazyFS) SyncDir(string) error { return nil }

func lazy(f durable.File, err error) (durable.File, error) {
	if err != nil {
		return nil, err
	}
	return lazyFile{f}, nil
}

type lazyFile struct{ durable.File }

func (lazyFile) Sync() error     { return nil }
func (lazyFile) Datasync() error { return nil }
