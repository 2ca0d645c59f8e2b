package main

import (
	"os"
	"sync"

	"github.com/hashicorp/raft"
	raftwal "github.com/hashicorp/raft-wal"
	tidwall "github.com/tidwall/wal"
	etcdwal "go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

// logs keep records in order and find none by key. Alone each record has its own sync;
// with "grouped" the same plain group commit is in front as in front of the limits.
var logs = []peer{
	{name: "tidwall/wal", most: 256, note: "a log; Write, synced", open: openTidwall(false)},
	{name: "tidwall/wal, grouped", note: "WriteBatch, synced", open: openTidwall(true)},
	{name: "hashicorp/raft-wal, grouped", note: "a log; StoreLogs", open: openRaftWAL},
	{name: "etcd wal, grouped", note: "a log; Save", open: openEtcdWAL},
}

// one is a store that takes one record at a time.
type one struct {
	mu      sync.Mutex
	append  func(i int) error
	closing func() error
}

func (o *one) put(i int) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.append(i)
}

func (o *one) close() error { return o.closing() }

func openTidwall(group bool) func(string) (store, error) {
	return func(dir string) (store, error) {
		l, err := tidwall.Open(dir, &tidwall.Options{})
		if err != nil {
			return nil, err
		}
		next := uint64(1)
		if !group {
			return &one{closing: l.Close, append: func(i int) error {
				key, value := record(i)
				next++
				return l.Write(next-1, append(key, value...))
			}}, nil
		}
		var batch tidwall.Batch
		return newGrouped(func(b []byte, _ int) error {
			batch.Clear()
			for ; len(b) > 0; b = b[recordBytes:] {
				batch.Write(next, b[:recordBytes])
				next++
			}
			return l.WriteBatch(&batch)
		}, l.Close), nil
	}
}

func openRaftWAL(dir string) (store, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	w, err := raftwal.Open(dir)
	if err != nil {
		return nil, err
	}
	next := uint64(1)
	var entries []*raft.Log
	return newGrouped(func(b []byte, _ int) error {
		entries = entries[:0]
		for ; len(b) > 0; b = b[recordBytes:] {
			entries = append(entries, &raft.Log{Index: next, Term: 1, Data: b[:recordBytes]})
			next++
		}
		return w.StoreLogs(entries)
	}, w.Close), nil
}

func openEtcdWAL(dir string) (store, error) {
	w, err := etcdwal.Create(zap.NewNop(), dir, nil)
	if err != nil {
		return nil, err
	}
	next := uint64(1)
	var entries []raftpb.Entry
	return newGrouped(func(b []byte, _ int) error {
		entries = entries[:0]
		for ; len(b) > 0; b = b[recordBytes:] {
			entries = append(entries, raftpb.Entry{Index: next, Term: 1, Data: b[:recordBytes]})
			next++
		}
		// A Save that changes no term syncs only for entries, which there are.
		return w.Save(raftpb.HardState{Term: 1, Commit: next - 1}, entries)
	}, w.Close), nil
}
