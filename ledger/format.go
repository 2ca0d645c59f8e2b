package ledger

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/cespare/xxhash/v2"

	"github.com/oncelog/oncelog/internal/durable"
	"github.com/oncelog/oncelog/wal"
)

// formatVersion is the version of the directory's layout.
const formatVersion = 1

// format is the content of the FORMAT file: one line of JSON, written once when
// the ledger is created. Sum is xxhash64 over the line without it, in hex.
type format struct {
	Version int           `json:"format"`
	ID      string        `json:"id"`            // 128 random bits in hex
	Store   wal.StoreKind `json:"store"`         // the segment store
	Seed    string        `json:"seed"`          // 64 random bits in hex, of the index's hash
	Log     string        `json:"log,omitempty"` // directory of the log: empty for wal/, or wal2/ after a migration
	Sum     string        `json:"sum,omitempty"`
}

func newFormat(store wal.StoreKind) format {
	var random [24]byte
	rand.Read(random[:]) // never fails, see crypto/rand
	return format{
		Version: formatVersion,
		ID:      hex.EncodeToString(random[:16]),
		Store:   store,
		Seed:    hex.EncodeToString(random[16:]),
	}
}

func (f format) id() (id [16]byte) {
	hex.Decode(id[:], []byte(f.ID)) // parseFormat has checked it
	return id
}

// logName is the directory of the log.
func (f format) logName() string { return cmp.Or(f.Log, walName) }

// migrated is the format after a migration to another store.
func (f format) migrated(to wal.StoreKind) format {
	f.Store = to
	if f.Log == "" {
		f.Log = otherWalName
	} else {
		f.Log = ""
	}
	return f
}

func (f format) seed() uint64 {
	var b [8]byte
	hex.Decode(b[:], []byte(f.Seed)) // parseFormat has checked it
	return binary.BigEndian.Uint64(b[:])
}

func (f format) sum() string {
	f.Sum = ""
	line, err := json.Marshal(f)
	if err != nil {
		panic(err) // strings and numbers always marshal
	}
	return fmt.Sprintf("%016x", xxhash.Sum64(line))
}

func (f format) encode() []byte {
	f.Sum = f.sum()
	line, err := json.Marshal(f)
	if err != nil {
		panic(err) // strings and numbers always marshal
	}
	return append(line, '\n')
}

// parseFormat accepts exactly what encode writes.
func parseFormat(path string, b []byte) (format, error) {
	var f format
	if err := json.Unmarshal(b, &f); err != nil {
		return f, damaged(path, "it does not parse: %v", err)
	}
	if f.Version != formatVersion {
		return f, fmt.Errorf("ledger: %s says format %d, this oncelog reads %d: %w", path, f.Version, formatVersion, ErrCorrupt)
	}
	if !bytes.Equal(b, f.encode()) {
		return f, damaged(path, "its checksum is %q, its content's is %q", f.Sum, f.sum())
	}
	if f.Log != "" && f.Log != otherWalName {
		return f, damaged(path, "its log is in %q", f.Log)
	}
	for _, h := range [...]struct {
		name, hex string
		bytes     int
	}{{"id", f.ID, 16}, {"seed", f.Seed, 8}} {
		if b, err := hex.DecodeString(h.hex); err != nil || len(b) != h.bytes {
			return f, damaged(path, "%s %q is not %d bytes in hex", h.name, h.hex, h.bytes)
		}
	}
	return f, nil
}

func damaged(path, why string, args ...any) error {
	return fmt.Errorf("ledger: %s is damaged: %s; put back the copy of a backup: %w", path, fmt.Sprintf(why, args...), ErrCorrupt)
}

// The names in a ledger's directory.
const (
	lockName       = "LOCK"
	formatName     = "FORMAT"
	newFormatName  = "FORMAT.new" // of a ledger whose creation is under way
	walName        = "wal"
	otherWalName   = "wal2" // the log's directory after a migration, and after the next one wal again
	snapshotsName  = "snapshots"
	quarantineName = "quarantine"
	watermarkName  = "durable"
	reserveName    = "reserve"
	repairName     = "REPAIR" // while a repair has not said yet what was lost
)

// readFormat reads FORMAT. ErrNoLedger where there is none and nothing that a
// ledger would have left.
func readFormat(fsys durable.FS, dir string) (format, error) {
	path := filepath.Join(dir, formatName)
	b, err := durable.ReadFile(fsys, path)
	switch {
	case err == nil:
		return parseFormat(path, b)
	case !errors.Is(err, fs.ErrNotExist):
		if info, statErr := fsys.Stat(dir); statErr == nil && !info.IsDir() {
			return format{}, fmt.Errorf("ledger: %s is no directory, and a ledger is one: %w: %w", dir, err, ErrNoLedger)
		}
		return format{}, fmt.Errorf("ledger: %w", err)
	}
	if err := checkUnused(fsys, dir); err != nil {
		return format{}, err
	}
	return format{}, fmt.Errorf("ledger: %s holds none; `oncelog init --dir %s` creates one: %w", dir, dir, ErrNoLedger)
}

// checkUnused makes sure that a directory without FORMAT is not a ledger that
// has lost it. What an interrupted creation left, FORMAT.new beside it, is no
// ledger: nothing was ever accepted there.
func checkUnused(fsys durable.FS, dir string) error {
	if backup, err := isBackup(fsys, dir); err != nil {
		return fmt.Errorf("ledger: %w", err)
	} else if backup {
		return fmt.Errorf("ledger: %s holds a backup; `oncelog restore --from %s --dir DIR` makes a ledger of it: %w", dir, dir, ErrNoLedger)
	}
	if _, err := fsys.Stat(filepath.Join(dir, newFormatName)); err == nil {
		return nil
	}
	for _, name := range []string{walName, otherWalName, snapshotsName} {
		left, err := fsys.ReadDir(filepath.Join(dir, name))
		if err == nil && len(left) > 0 {
			return fmt.Errorf("ledger: %s has no %s but %s/ holds %d files, %s first: a ledger has lost its %s; "+
				"put back the copy of a backup: %w", dir, formatName, name, len(left), left[0].Name(), formatName, ErrCorrupt)
		}
	}
	return nil
}
