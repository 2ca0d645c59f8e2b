package index

import (
	"bytes"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// masks force collisions: of everything, of the tag, of the bucket, of the
// shard.
var masks = map[string]uint64{
	"true hashes":     ^uint64(0),
	"all equal":       0,
	"one shard":       1<<shardShift - 1,
	"one table":       1<<dirShift - 1,
	"one bucket":      0xff,
	"one tag":         ^uint64(0xff),
	"three tag bits":  ^uint64(0xf8),
	"shard and 3 bit": 7<<shardShift | 7,
}

// A model is an index beside the map that it must equal.
type model struct {
	x    *Index
	want map[string][]byte
	held map[string][]byte // values that Get returned once, and their copies
}

func (m *model) put(key string, value []byte) {
	m.x.Put([]byte(key), value)
	m.want[key] = bytes.Clone(value)
}

func (m *model) get(t *rapid.T, key string) {
	got, ok := m.x.Get([]byte(key))
	want, has := m.want[key]
	if ok != has || !bytes.Equal(got, want) {
		t.Fatalf("Get(%.40q) = %d bytes, %v; want %d bytes, %v", key, len(got), ok, len(want), has)
	}
	if ok {
		if cap(got) != len(got) {
			t.Fatalf("Get(%.40q): an append to the value would overwrite its neighbour", key)
		}
		m.held[string(got)] = got
	}
}

func (m *model) delete(t *rapid.T, key string) {
	_, has := m.want[key]
	if got := m.x.Delete([]byte(key)); got != has {
		t.Fatalf("Delete(%.40q) = %v, want %v", key, got, has)
	}
	delete(m.want, key)
}

func (m *model) check(t *rapid.T) {
	if got := m.x.Len(); got != len(m.want) {
		t.Fatalf("Len = %d, want %d", got, len(m.want))
	}
	seen := map[string]bool{}
	for s := range m.x.Shards() {
		m.x.Range(s, func(key, value []byte) bool {
			if want, ok := m.want[string(key)]; !ok || seen[string(key)] || !bytes.Equal(value, want) {
				t.Fatalf("Range: %.40q with %d bytes; in the model %v with %d bytes, seen before %v",
					key, len(value), ok, len(want), seen[string(key)])
			}
			seen[string(key)] = true
			return true
		})
	}
	if len(seen) != len(m.want) {
		t.Fatalf("Range showed %d entries of %d", len(seen), len(m.want))
	}
	for key := range m.want {
		m.get(t, key)
	}
	for want, got := range m.held {
		if string(got) != want {
			t.Fatalf("a value that Get returned has changed: %.40q, was %.40q", got, want)
		}
	}
	m.checkAccounts(t)
}

// checkAccounts recounts what the slabs and tables say of themselves.
func (m *model) checkAccounts(t *rapid.T) {
	for i := range m.x.shards {
		s := &m.x.shards[i]
		v := s.view.Load()
		if v == nil {
			continue
		}
		live, allocated := make([]int, len(v.chunks)), 0
		for tab := range v.tables() {
			n := 0
			tab.refs(func(r ref) {
				n++
				live[r.chunk()] += v.record(r).size
			})
			if n != tab.count {
				t.Fatalf("shard %d: a table of %d entries counts %d", i, n, tab.count)
			}
		}
		sum := 0
		for id, u := range s.slab.use {
			if int(u.live) != live[id] || u.used < u.live || int(u.used) > len(v.chunks[id]) {
				t.Fatalf("shard %d chunk %d: account %+v, live %d, size %d", i, id, u, live[id], len(v.chunks[id]))
			}
			sum += live[id]
			allocated += len(v.chunks[id])
		}
		if s.slab.live != sum || s.slab.allocated != allocated {
			t.Fatalf("shard %d: live %d, allocated %d; recounted %d, %d", i, s.slab.live, s.slab.allocated, sum, allocated)
		}
		if g, limit := s.slab.garbage(), s.slab.live/garbageShare+garbageMin+chunkMax; g > limit {
			t.Fatalf("shard %d: garbage %d, live %d", i, g, s.slab.live)
		}
	}
}

// TestModel compares random sequences of operations with a map, with true
// hashes and with forced collisions of every part of the hash.
func TestModel(t *testing.T) {
	for name, mask := range masks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				m := &model{newIndex(hasher{rapid.Uint64().Draw(t, "seed"), mask}), map[string][]byte{}, map[string][]byte{}}
				key := rapid.Custom(func(t *rapid.T) string {
					return fmt.Sprintf("%0*d", rapid.SampledFrom([]int{1, 1, 1, 30, 200}).Draw(t, "width"), rapid.IntRange(0, 300).Draw(t, "n"))
				})
				size := rapid.SampledFrom([]int{0, 1, 20, 100, 127, 128, 1000, ownChunk, ownChunk + 1})
				t.Repeat(map[string]func(*rapid.T){
					"put": func(t *rapid.T) {
						value := bytes.Repeat([]byte{rapid.Byte().Draw(t, "fill")}, size.Draw(t, "size"))
						m.put(key.Draw(t, "key"), value)
					},
					"put many": func(t *rapid.T) {
						n := rapid.IntRange(1, 200).Draw(t, "many")
						fill := rapid.Byte().Draw(t, "fill")
						for i := range n {
							m.put(fmt.Sprint(i), bytes.Repeat([]byte{fill, byte(i)}, i%40))
						}
					},
					"delete many": func(t *rapid.T) {
						for i := range rapid.IntRange(1, 200).Draw(t, "many") {
							m.delete(t, fmt.Sprint(i))
						}
					},
					"get":     func(t *rapid.T) { m.get(t, key.Draw(t, "key")) },
					"delete":  func(t *rapid.T) { m.delete(t, key.Draw(t, "key")) },
					"compact": func(t *rapid.T) { m.x.Compact(rapid.IntRange(0, shards-1).Draw(t, "shard")) },
					"check":   m.check,
				})
				m.check(t)
			})
		})
	}
}
