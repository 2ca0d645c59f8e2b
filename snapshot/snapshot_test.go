package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/oncelog/oncelog/internal/durable"
	"github.com/oncelog/oncelog/internal/simdisk"
)

var testID = [16]byte{1, 2, 3, 4}

func disk(seed uint64) (*simdisk.Disk, durable.FS) {
	d := simdisk.New(rand.New(rand.NewPCG(seed, 9)))
	fs := d.FS()
	if err := durable.MkdirAll(fs, "/s"); err != nil {
		panic(err)
	}
	return d, fs
}

func sorted(entries map[string]string) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		for _, k := range slices.Sorted(maps.Keys(entries)) {
			if !yield([]byte(k), []byte(entries[k])) {
				return
			}
		}
	}
}

// contents is what a snapshot holds.
func contents(t interface{ Fatal(...any) }, fs durable.FS, path string, workers int) (map[string]string, Info) {
	got := map[string]string{}
	var mu sync.Mutex
	info, err := Load(fs, path, testID, workers, Visitor{Entry: func(k, v []byte) error {
		mu.Lock()
		defer mu.Unlock()
		if _, again := got[string(k)]; again {
			return fmt.Errorf("key %q comes twice", k)
		}
		got[string(k)] = string(v)
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return got, info
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "entries")
		if rapid.Bool().Draw(t, "large") {
			for i := range 3000 {
				entries[fmt.Sprint(i)] = strings.Repeat(fmt.Sprint(i), 50)
			}
			entries["huge"] = strings.Repeat("x", 3<<20)
		}
		h := Header{ID: testID, LSN: rapid.Uint64().Draw(t, "lsn"), Epoch: 3, Extra: rapid.SliceOf(rapid.Byte()).Draw(t, "extra")}
		_, fs := disk(1)
		wrote, err := Write(fs, "/s", h, sorted(entries), nil)
		if err != nil {
			t.Fatal(err)
		}
		got, info := contents(t, fs, wrote.Path, rapid.IntRange(1, 4).Draw(t, "workers"))
		if !maps.Equal(got, entries) || info.Entries != uint64(len(entries)) || info.Header.LSN != h.LSN ||
			info.Header.Epoch != 3 || !bytes.Equal(info.Header.Extra, h.Extra) {
			t.Errorf("wrote %d entries, read %d: %+v", len(entries), len(got), info)
		}
	})
}

// small is a snapshot of a few entries and its bytes.
func small(t testing.TB) (fs durable.FS, path string, data []byte) {
	t.Helper()
	_, fs = disk(2)
	info, err := Write(fs, "/s", Header{ID: testID, LSN: 7, Extra: []byte("extra")}, sorted(map[string]string{"one": "1", "two": "22", "three": "333"}), nil)
	if err != nil {
		t.Fatal(err)
	}
	if data, err = durable.ReadFile(fs, info.Path); err != nil {
		t.Fatal(err)
	}
	return fs, info.Path, data
}

func TestEveryDamageIsNoticed(t *testing.T) {
	fs, path, data := small(t)
	refused := func(what string, b []byte) {
		t.Helper()
		if err := durable.WriteFile(fs, path, b); err != nil {
			t.Fatal(err)
		}
		_, err := Verify(fs, path, testID)
		var at *CorruptError
		if !errors.Is(err, ErrCorrupt) || !errors.As(err, &at) || at.Path != path {
			t.Errorf("%s: %v", what, err)
		}
	}
	for bit := range len(data) * 8 {
		b := bytes.Clone(data)
		b[bit/8] ^= 1 << (bit % 8)
		refused(fmt.Sprintf("bit %d flipped", bit), b)
	}
	for n := range len(data) {
		refused(fmt.Sprintf("cut at %d", n), data[:n])
	}
	refused("one byte more", append(bytes.Clone(data), 0))
	refused("twice", append(bytes.Clone(data), data...))
	if err := durable.WriteFile(fs, path, data); err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(fs, path, [16]byte{9}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("of another ledger: %v", err)
	}
	renamed := filepath.Join("/s", name(0, 8))
	if err := fs.Rename(path, renamed); err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(fs, renamed, testID); !errors.Is(err, ErrCorrupt) {
		t.Errorf("under the name of another LSN: %v", err)
	}
}

func TestList(t *testing.T) {
	_, fs := disk(3)
	for _, h := range []Header{{LSN: 5}, {LSN: 100}, {LSN: 20}, {From: 20, LSN: 30}, {From: 30, LSN: 31}, {From: 31, LSN: 90},
		{From: 30, LSN: 100}, {From: 6, LSN: 7}} {
		h.ID = testID
		if _, err := Write(fs, "/s", h, sorted(nil), nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"base-7.snap", "base-00000000000000000009.snap.tmp", "notes", "delta-1-2.snap",
		"delta-00000000000000000009-00000000000000000008.snap", "base-00000000000000000001-00000000000000000002.snap"} {
		if err := durable.WriteFile(fs, filepath.Join("/s", name), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	found, err := List(fs, "/s")
	if err != nil {
		t.Fatal(err)
	}
	show := func(files []File) (s string) {
		for _, f := range files {
			s += fmt.Sprintf(" %d-%d", f.From, f.LSN)
		}
		return s
	}
	if got := show(found); got != " 0-100 30-100 31-90 30-31 20-30 0-20 6-7 0-5" {
		t.Errorf("listed%s", got)
	}
	var chains []string
	for _, c := range Chains(found) {
		chains = append(chains, show(c))
	}
	if want := []string{" 0-100", " 0-20 20-30 30-100", " 0-5"}; !slices.Equal(chains, want) {
		t.Errorf("chains %q, want %q", chains, want)
	}
	// Where the one that reaches furthest is gone, the next takes its place.
	for _, gone := range []struct{ file, newest string }{
		{" 0-100", " 0-20 20-30 30-100"},
		{" 30-100", " 0-20 20-30 30-31 31-90"},
		{" 20-30", " 0-20"},
		{" 0-20", " 0-5"},
		{" 0-5", ""},
	} {
		found = slices.DeleteFunc(found, func(f File) bool { return show([]File{f}) == gone.file })
		if got := show(Newest(found)); got != gone.newest {
			t.Errorf("without%s: newest is%s, want%s", gone.file, got, gone.newest)
		}
	}
}

// TestWholeOrNotAtAll: whatever happens at whichever operation, the directory
// holds the older snapshot, sound, and the newer one sound or not at all.
func TestWholeOrNotAtAll(t *testing.T) {
	older, newer := map[string]string{"k": "older"}, map[string]string{"k": "newer", "l": "newer"}
	cuts := 0
	for _, event := range []simdisk.Event{simdisk.Cut, simdisk.CutAfter, simdisk.FailLost, simdisk.FailShort, simdisk.FailFull, simdisk.FailPersisted} {
		for k := 0; ; k++ {
			d, fs := disk(uint64(k))
			if _, err := Write(fs, "/s", Header{ID: testID, LSN: 1}, sorted(older), nil); err != nil {
				t.Fatal(err)
			}
			first := d.Ops()
			d.At(first+k, event)
			_, err := Write(fs, "/s", Header{ID: testID, LSN: 2}, sorted(newer), nil)
			hit := d.Ops() > first+k
			d.Crash()
			fs = d.FS()
			found, lerr := List(fs, "/s")
			if lerr != nil {
				t.Fatal(lerr)
			}
			if len(found) == 0 || found[len(found)-1].LSN != 1 || err == nil && len(found) != 2 {
				t.Fatalf("event %d at operation %d: write says %v, there are %v", event, k, err, found)
			}
			for _, s := range found {
				got, _ := contents(t, fs, s.Path, 1)
				if want := map[uint64]map[string]string{1: older, 2: newer}[s.LSN]; !maps.Equal(got, want) {
					t.Fatalf("event %d at operation %d: %s holds %v", event, k, s.Path, got)
				}
			}
			if !hit {
				break
			}
			cuts++
		}
	}
	if cuts < 30 {
		t.Errorf("only %d events", cuts)
	}
}

// FuzzLoad: no bytes make it panic, or are taken for a snapshot that Write would
// not write.
func FuzzLoad(f *testing.F) {
	_, path, data := small(f)
	f.Add(data)
	f.Add(data[:len(data)-1])
	f.Add(data[:60])
	f.Fuzz(func(t *testing.T, b []byte) {
		_, fs := disk(4)
		if err := durable.WriteFile(fs, path, b); err != nil {
			t.Fatal(err)
		}
		if _, err := Verify(fs, path, testID); err == nil && !bytes.Equal(b, data) {
			got, info := contents(t, fs, path, 2)
			if uint64(len(got)) != info.Entries {
				t.Errorf("%d entries, the footer counts %d", len(got), info.Entries)
			}
		} else if err != nil && !errors.Is(err, ErrCorrupt) {
			t.Errorf("load fails with %v", err)
		}
	})
}
