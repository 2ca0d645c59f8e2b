package simdisk

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"

	"github.com/oncelog/oncelog/internal/durable"
)

// Errors of the disk.
var (
	// ErrPowerCut: the power is off, or the file is of an earlier life of the
	// process.
	ErrPowerCut = errors.New("simdisk: power cut")
	// ErrIO: an operation was made to fail.
	ErrIO = errors.New("simdisk: input/output error")
)

// sector is what a power cut leaves whole: old or new.
const sector = 512

// A Disk is a simulated disk. Its methods may be called concurrently.
type Disk struct {
	mu       sync.Mutex
	rng      *rand.Rand
	journal  bool
	capacity int64 // bytes; 0 for no limit
	life     int   // of the process; files of an earlier one are dead
	off      bool  // the power is off
	ops      int   // operations that change something, in this life
	plan     map[int]Event
	happened map[string]int // operations by name, over all lives
	root     *dir
	locks    map[string]*handle
}

// An Event is what happens at an operation.
type Event int

// The events. Lost and Persisted are two forms of a failure: the caller hears of
// it in both.
const (
	Cut           Event = iota + 1 // the power goes off before the operation
	CutAfter                       // the power goes off when the operation is done, before anybody hears
	FailLost                       // it fails and did nothing; a sync also forgets what it should have written
	FailPersisted                  // it fails and did everything
	FailShort                      // it fails half done: half a write; other operations do nothing
	FailFull                       // like FailShort, with ErrNoSpace
)

// An Option of a disk.
type Option func(*Disk)

// Journal makes a sync of any file also make all names durable.
func Journal(d *Disk) { d.journal = true }

// Capacity limits the bytes of all files.
func Capacity(bytes int64) Option { return func(d *Disk) { d.capacity = bytes } }

// New returns an empty disk. rng decides what becomes of what was not synced.
func New(rng *rand.Rand, options ...Option) *Disk {
	d := &Disk{rng: rng, plan: map[int]Event{}, happened: map[string]int{}, root: newDir(), locks: map[string]*handle{}}
	for _, set := range options {
		set(d)
	}
	return d
}

// node is what a name leads to.
type node struct {
	file *file
	dir  *dir
}

// file keeps what readers see apart from what is on the platter.
type file struct {
	cache []byte
	disk  []byte
	dirty []write // since the last sync, in order
}

// write is one that the platter may lack. One without data sets the size.
type write struct {
	off  int
	data []byte
}

// dir likewise.
type dir struct {
	cache map[string]node
	disk  map[string]node
	dirty []rename // since the last sync, in order
}

// rename is a change of a directory: from, if it is not empty, is taken away; to,
// if it is not empty, leads to the node.
type rename struct {
	from, to string
	node     node
}

func newDir() *dir { return &dir{cache: map[string]node{}, disk: map[string]node{}} }

func (r rename) apply(names map[string]node) {
	if r.from != "" {
		delete(names, r.from)
	}
	if r.to != "" {
		names[r.to] = r.node
	}
}

func (d *dir) change(r rename) {
	r.apply(d.cache)
	d.dirty = append(d.dirty, r)
}

func (d *dir) sync() {
	for _, r := range d.dirty {
		r.apply(d.disk)
	}
	d.dirty = nil
}

func (w write) apply(b []byte) []byte {
	if w.data == nil {
		if w.off <= len(b) {
			return b[:w.off:w.off]
		}
		return append(b, make([]byte, w.off-len(b))...)
	}
	if end := w.off + len(w.data); end > len(b) {
		b = append(b, make([]byte, end-len(b))...)
	}
	copy(b[w.off:], w.data)
	return b
}

func (f *file) change(w write) {
	f.cache = w.apply(f.cache)
	f.dirty = append(f.dirty, w)
}

func (f *file) sync() {
	for _, w := range f.dirty {
		f.disk = w.apply(f.disk)
	}
	f.dirty = nil
}

// At plans an event for the k-th operation of this life that changes something,
// from 0.
func (d *Disk) At(k int, e Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.plan[k] = e
}

// Ops is how many operations of this life changed something.
func (d *Disk) Ops() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ops
}

// Happened counts the operations of all lives by name: create, write, sync, …
func (d *Disk) Happened(op string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.happened[op]
}

// Off reports whether the power is off.
func (d *Disk) Off() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.off
}

// SetCapacity changes the limit; others may fill the disk, or make room.
func (d *Disk) SetCapacity(bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.capacity = bytes
}

// Used is how many bytes the files have.
func (d *Disk) Used() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.used(d.root)
}

// Kill ends the process: its files are dead and its locks free; what was written
// is still in the cache.
func (d *Disk) Kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.endLife()
}

func (d *Disk) endLife() {
	d.life++
	d.ops = 0
	d.plan = map[int]Event{}
	d.locks = map[string]*handle{}
	d.off = false
}

// Crash cuts the power, if it is not off, and turns it on again: what was not
// synced is kept, lost, torn, reordered or zeroed at random.
func (d *Disk) Crash() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.endLife()
	d.survive(d.root)
}

// survive leaves of a directory what a cut leaves.
func (d *Disk) survive(x *dir) {
	for i, keep := range d.choose(len(x.dirty)) {
		if keep {
			x.dirty[i].apply(x.disk)
		}
	}
	x.dirty = nil
	x.cache = map[string]node{}
	for name, n := range x.disk {
		x.cache[name] = n
		if n.dir != nil {
			d.survive(n.dir)
		} else {
			d.surviveFile(n.file)
		}
	}
}

// choose says which of n changes survive: all, none, a beginning, or any.
func (d *Disk) choose(n int) []bool {
	keep := make([]bool, n)
	first := d.rng.IntN(n + 1)
	how := d.rng.IntN(4)
	for i := range keep {
		switch how {
		case 0:
			keep[i] = true
		case 1: // none
		case 2:
			keep[i] = i < first
		case 3:
			keep[i] = d.journal && i < first || !d.journal && d.rng.IntN(2) == 0
		}
	}
	return keep
}

// surviveFile applies what survives of the unsynced writes, some of them in part.
func (d *Disk) surviveFile(f *file) {
	keep := make([]bool, len(f.dirty))
	first, how := d.rng.IntN(len(f.dirty)+1), d.rng.IntN(4)
	for i, w := range f.dirty {
		switch how {
		case 0:
			keep[i] = true
		case 1: // none
		case 2:
			keep[i] = i < first
		case 3:
			keep[i] = d.rng.IntN(2) == 0
		}
		if keep[i] || w.data == nil {
			if keep[i] {
				f.disk = w.apply(f.disk)
			}
			continue
		}
		if how != 1 {
			d.tear(f, w)
		}
	}
	f.dirty = nil
	f.cache = append([]byte(nil), f.disk...)
}

// tear applies some sectors of a write: a beginning, any, or the size alone.
func (d *Disk) tear(f *file, w write) {
	how := d.rng.IntN(4)
	if how == 0 {
		return
	}
	end := w.off + len(w.data)
	if how == 1 { // the size without the bytes
		if end > len(f.disk) {
			f.disk = write{off: end}.apply(f.disk)
		}
		return
	}
	cut := w.off + d.rng.IntN(len(w.data)+1)
	for off := w.off; off < end; {
		next := min((off/sector+1)*sector, end)
		keep := d.rng.IntN(2) == 0
		if how == 2 {
			keep = next <= cut
		}
		if keep {
			f.disk = write{off: off, data: w.data[off-w.off : next-w.off]}.apply(f.disk)
		}
		off = next
	}
}

// operate counts an operation that changes something, and does it, unless an
// event is planned for it. half does half of it.
func (d *Disk) operate(op, path string, do func() error, half, forget func()) error {
	if d.off {
		return &fs.PathError{Op: op, Path: path, Err: ErrPowerCut}
	}
	e := d.plan[d.ops]
	d.ops++
	d.happened[op]++
	fail := func(err error) error { return &fs.PathError{Op: op, Path: path, Err: err} }
	switch e {
	case Cut:
		d.off = true
		return fail(ErrPowerCut)
	case FailLost:
		if forget != nil {
			forget()
		}
		return fail(ErrIO)
	case FailShort, FailFull:
		if half != nil {
			half()
		}
		if e == FailFull {
			return fail(durable.ErrNoSpace)
		}
		return fail(ErrIO)
	}
	if err := do(); err != nil {
		return fail(err)
	}
	switch e {
	case CutAfter:
		d.off = true
		return fail(ErrPowerCut)
	case FailPersisted:
		return fail(ErrIO)
	}
	return nil
}

// used is how many bytes the files have.
func (d *Disk) used(x *dir) int64 {
	var n int64
	for _, c := range x.cache {
		if c.dir != nil {
			n += d.used(c.dir)
		} else {
			n += int64(len(c.file.cache))
		}
	}
	return n
}

// room is how many more bytes fit.
func (d *Disk) room() int64 {
	if d.capacity == 0 {
		return 1 << 40
	}
	return max(d.capacity-d.used(d.root), 0)
}

// find walks to a node.
func (d *Disk) find(path string) (node, error) {
	n := node{dir: d.root}
	for _, name := range split(path) {
		if n.dir == nil {
			return node{}, fs.ErrNotExist
		}
		next, ok := n.dir.cache[name]
		if !ok {
			return node{}, fs.ErrNotExist
		}
		n = next
	}
	return n, nil
}

func split(path string) []string {
	path = strings.Trim(filepath.ToSlash(filepath.Clean(path)), "/")
	if path == "" || path == "." {
		return nil
	}
	return strings.Split(path, "/")
}

// parent finds a path's directory and its name in it.
func (d *Disk) parent(path string) (*dir, string, error) {
	n, err := d.find(filepath.Dir(path))
	if err != nil {
		return nil, "", err
	}
	if n.dir == nil {
		return nil, "", fmt.Errorf("%s is no directory", filepath.Dir(path))
	}
	return n.dir, filepath.Base(path), nil
}

// syncNames makes all names durable.
func syncNames(x *dir) {
	x.sync()
	for _, n := range x.cache {
		if n.dir != nil {
			syncNames(n.dir)
		}
	}
}
