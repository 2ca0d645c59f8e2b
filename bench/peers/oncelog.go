package main

import (
	"context"
	"sync"

	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/ledger"
	"github.com/oncelog/oncelog/wal"
)

var oncelogs = []peer{
	{name: "oncelog, direct", ours: true, note: "markers and outcomes in turn: every other call accepts a key, the next executes and settles one", open: openLedger(wal.StoreDirect)},
	{name: "oncelog, tidwall", ours: true, note: "the same with the segment store over tidwall/wal", open: openLedger(wal.StoreTidwall)},
}

// markers is a ledger in whose journal there are as few keys as there are callers.
type markers struct {
	ledger *ledger.Embedded

	mu       sync.Mutex
	accepted []journal.Key // and not executed
}

func openLedger(kind wal.StoreKind) func(string) (store, error) {
	return func(dir string) (store, error) {
		l, err := ledger.Create(dir, ledger.Options{Store: kind})
		return &markers{ledger: l}, err
	}
}

func (m *markers) put(i int) error {
	m.mu.Lock()
	if n := len(m.accepted); n > 0 {
		key := m.accepted[n-1]
		m.accepted = m.accepted[:n-1]
		m.mu.Unlock()
		_, err := m.ledger.Execute(key, 1, ledger.Outcome{Result: valueBytes, Settles: true, Cause: journal.Run})
		return err
	}
	m.mu.Unlock()
	item, _ := record(i)
	key := journal.Key{Effect: "e", Item: string(item)}
	if _, err := m.ledger.Accept(context.Background(), key, ledger.Input{Fingerprint: 7}); err != nil {
		return err
	}
	m.mu.Lock()
	m.accepted = append(m.accepted, key)
	m.mu.Unlock()
	return nil
}

func (m *markers) close() error { return m.ledger.Close() }
