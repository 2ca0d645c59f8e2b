package recovery

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"time"

	"github.com/oncelog/oncelog/index"
	"github.com/oncelog/oncelog/internal/durable"
	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/snapshot"
	"github.com/oncelog/oncelog/wal"
)

// Options say where the parts of a ledger are.
type Options struct {
	FS        durable.FS
	Log       wal.Options // Apply is set by Run
	Snapshots string      // directory
	ID        [16]byte    // of the ledger
	Seed      uint64      // of the index

	Progress func(Progress) // told how far it has got, by one goroutine at a time; may be nil
}

// A Report says what a recovery found and did.
type Report struct {
	Log         *wal.Report
	Chain       []snapshot.Info // snapshots used: a base and its deltas; empty for none
	Snapshot    string          // path of the last of them
	SnapshotLSN uint64          // of that; the log is replayed from the next LSN
	Entries     uint64          // taken from all of them
	Damaged     []error         // snapshots that were not sound and not used
	Records     uint64          // replayed from the log
	InDoubt     int             // accepted attempts whose owner is gone, and keys in doubt
	Unsettled   int             // keys in the journal, those in doubt included
	Epoch       uint64          // of the last owner
	Amnesia     bool            // acknowledged records are known to be lost: unknown keys are in doubt
	Reason      string          // who said so and why
	Elapsed     time.Duration   // of the whole recovery
}

// Run opens the log, which repairs a torn tail, and fills a book. The log goes
// on applying what is appended to the book. The caller holds the directory's
// lock.
func Run(o Options) (*wal.Log, *index.Book, *Report, error) {
	start := time.Now()
	r, t := &Report{}, &tracker{tell: o.Progress}
	book, err := load(o, r, t)
	if err != nil {
		return nil, nil, r, err
	}
	o.Log.Apply = book.Applied
	replay := newReplayer(r, book)
	replay.over(&o.Log, t)
	log, found, err := wal.Open(o.Log, replay.visit)
	r.Log = found
	replayed := replay.finish()
	if err != nil {
		return nil, nil, r, err
	}
	if err := errors.Join(replayed, r.ends(log.Durable())); err != nil {
		return nil, nil, r, errors.Join(err, log.Close())
	}
	r.count(book)
	r.Elapsed = time.Since(start)
	return log, book, r, nil
}

// load fills a book from the chain of sound snapshots that reaches furthest, or leaves
// it empty.
func load(o Options, r *Report, t *tracker) (*index.Book, error) {
	found, err := snapshot.List(o.FS, o.Snapshots)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("recovery: %w", err)
	}
	for {
		chain := snapshot.Newest(found)
		// A fresh book each time: one that a damaged file half filled is thrown away.
		book := index.NewBook(o.Seed)
		r.Chain, r.Snapshot, r.SnapshotLSN, r.Entries = nil, "", 0, 0
		if err := t.begin(o, chain); err != nil {
			return nil, fmt.Errorf("recovery: %w", err)
		}
		damaged, err := r.loadChain(o, book, chain, t)
		if err == nil {
			return book, nil
		}
		r.Damaged = append(r.Damaged, err)
		found = slices.DeleteFunc(found, func(f snapshot.File) bool { return f == damaged })
	}
}

// loadChain fills a book from a chain, and says which file failed it.
func (r *Report) loadChain(o Options, book *index.Book, chain snapshot.Chain, t *tracker) (snapshot.File, error) {
	for _, f := range chain {
		v := snapshot.Visitor{Begin: func(h snapshot.Header) { book.Expect(h.About) }, Entry: book.Load, Read: t.entries}
		if f.From != 0 {
			v.Begin, v.Entry = nil, book.Merge
		}
		info, err := snapshot.Load(o.FS, f.Path, o.ID, runtime.GOMAXPROCS(0), v)
		if err != nil {
			return f, err
		}
		w, err := DecodeLedgerwide(info.Header.Extra)
		if err != nil {
			return f, fmt.Errorf("recovery: %s: %w", f.Path, err)
		}
		r.Chain = append(r.Chain, info)
		r.Snapshot, r.SnapshotLSN = f.Path, info.Header.LSN
		r.Entries += info.Entries
		if f.LSN == chain.End() {
			book.Restore(w)
		}
	}
	return snapshot.File{}, nil
}

// begins makes sure that the log begins where the snapshot ends, or before.
func (r *Report) begins(first uint64) error {
	if first <= r.SnapshotLSN+1 {
		return nil
	}
	return errors.Join(append([]error{fmt.Errorf(
		"recovery: the log begins at LSN %d and the newest sound snapshot ends at %d: records %d to %d are missing; "+
			"`oncelog verify` looks into it: %w", first, r.SnapshotLSN, r.SnapshotLSN+1, first-1, wal.ErrCorrupt)}, r.Damaged...)...)
}

// ends makes sure that the log reaches the snapshot's end.
func (r *Report) ends(last uint64) error {
	if last >= r.SnapshotLSN {
		return nil
	}
	return fmt.Errorf("recovery: snapshot %s holds records up to LSN %d and the log ends at %d: the log has lost records; "+
		"`oncelog verify` looks into it: %w", r.Snapshot, r.SnapshotLSN, last, wal.ErrCorrupt)
}

// Inspect fills a book like Run and changes nothing on disk. The directory may be
// in use: the book is then as of some moment of the call. An error that wraps
// fs.ErrNotExist says that a file was removed meanwhile; Inspect may be called
// again.
func Inspect(o Options) (*index.Book, *Report, error) {
	start := time.Now()
	r, t := &Report{}, &tracker{tell: o.Progress}
	book, err := load(o, r, t)
	if err != nil {
		return nil, r, err
	}
	replay := newReplayer(r, book)
	replay.over(&o.Log, t)
	r.Log, err = wal.Inspect(o.Log, replay.visit)
	if replayed := replay.finish(); err == nil {
		err = replayed
	}
	if err == nil {
		err = r.ends(r.Log.Last)
	}
	if err != nil {
		return nil, r, err
	}
	r.count(book)
	r.Elapsed = time.Since(start)
	return book, r, nil
}

func (r *Report) count(book *index.Book) {
	w := book.Ledgerwide()
	r.Epoch, r.Amnesia, r.Reason = w.Epoch, w.Amnesia, w.Reason
	for _, k := range book.Journal() {
		r.Unsettled++
		if s := k.Entry.StateIn(r.Epoch + 1); s == journal.InDoubt {
			r.InDoubt++
		}
	}
}

// EncodeLedgerwide is the form in which a snapshot's header carries what the
// records without a key add up to.
func EncodeLedgerwide(w index.Ledgerwide) []byte {
	b := binary.AppendUvarint(nil, w.Epoch)
	b = binary.AppendUvarint(b, uint64(w.Open))
	b = binary.AppendUvarint(b, w.Keys)
	b = binary.AppendUvarint(b, w.Results)
	b = binary.AppendUvarint(b, uint64(len(w.Marks)))
	for _, m := range w.Marks {
		b = binary.AppendUvarint(b, m.LSN)
		b = binary.AppendUvarint(b, uint64(m.Open))
	}
	if !w.Amnesia {
		return append(b, 0)
	}
	return append(binary.AppendUvarint(append(b, 1), w.Since), w.Reason...)
}

// DecodeLedgerwide reads what EncodeLedgerwide wrote.
func DecodeLedgerwide(b []byte) (index.Ledgerwide, error) {
	var w index.Ledgerwide
	ok := true
	next := func() uint64 {
		v, n := binary.Uvarint(b)
		if ok = ok && n > 0; !ok {
			return 0
		}
		b = b[n:]
		return v
	}
	w.Epoch, w.Open, w.Keys, w.Results = next(), int64(next()), next(), next()
	for n := next(); n > 0 && ok; n-- {
		w.Marks = append(w.Marks, index.Mark{LSN: next(), Open: int64(next())})
	}
	switch {
	case !ok || len(b) == 0:
		return w, fmt.Errorf("the header's extra bytes do not parse: %w", wal.ErrCorrupt)
	case b[0] == 0:
		return w, nil
	}
	b = b[1:]
	w.Amnesia, w.Since = true, next()
	w.Reason = string(b)
	if !ok {
		return w, fmt.Errorf("the header's amnesia does not parse: %w", wal.ErrCorrupt)
	}
	return w, nil
}
