package ledger

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/oncelog/oncelog/internal/durable"
)

// backupVersion is the version of a backup's layout.
const backupVersion = 1

// The names in a backup's directory.
const (
	manifestName = "BACKUP"
	contentName  = "files" // directory of contents, each named by its SHA-256
)

// A Manifest says what a backup is: the content of its file BACKUP, one line of JSON.
// It names every file that the ledger has when it is restored.
type Manifest struct {
	Version int          `json:"backup"`
	Ledger  string       `json:"ledger"` // its ID in hex
	Host    string       `json:"host"`   // where the backup was made
	Time    time.Time    `json:"time"`   // and when
	LSN     uint64       `json:"lsn"`    // of the last record in it
	Files   []BackupFile `json:"files"`
	Sum     string       `json:"sum,omitempty"` // xxhash64 over the line without it, in hex
}

// A BackupFile is a file of a ledger that is in a backup.
type BackupFile struct {
	Name   string `json:"name"` // in the ledger's directory, with slashes
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // of its content, in hex
}

// Bytes is the size of the whole backup.
func (m *Manifest) Bytes() int64 {
	var n int64
	for _, f := range m.Files {
		n += f.Bytes
	}
	return n
}

// String names the backup for people.
func (m *Manifest) String() string {
	return fmt.Sprintf("the backup of %s on %s, up to LSN %d", m.Time.Format(time.RFC3339), m.Host, m.LSN)
}

func (m Manifest) sum() string {
	m.Sum = ""
	return fmt.Sprintf("%016x", xxhash.Sum64(m.line()))
}

func (m Manifest) line() []byte {
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // strings, numbers and a time of this millennium always marshal
	}
	return b
}

func (m Manifest) encode() []byte {
	m.Sum = m.sum()
	return append(m.line(), '\n')
}

// readManifest reads a backup's BACKUP. fs.ErrNotExist where there is none.
func readManifest(fsys durable.FS, dir string) (Manifest, error) {
	var m Manifest
	at := filepath.Join(dir, manifestName)
	b, err := durable.ReadFile(fsys, at)
	if err != nil {
		return m, fmt.Errorf("ledger: %w", err)
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return m, damaged(at, "it does not parse: %v", err)
	}
	if m.Version != backupVersion {
		return m, fmt.Errorf("ledger: %s says backup format %d, this oncelog reads %d: %w", at, m.Version, backupVersion, ErrCorrupt)
	}
	if !bytes.Equal(b, m.encode()) {
		return m, damaged(at, "its checksum is %q, its content's is %q", m.Sum, m.sum())
	}
	return m, m.check(at)
}

// check makes sure that a backup holds what a ledger has, and nothing that would be
// put anywhere else.
func (m *Manifest) check(at string) error {
	has := map[string]bool{}
	for _, f := range m.Files {
		dir, base := path.Split(f.Name)
		wanted := f.Name == formatName || (dir == walName+"/" || dir == snapshotsName+"/") && base != "" && filepath.IsLocal(base)
		if sum, err := hex.DecodeString(f.SHA256); err != nil || len(sum) != 32 || f.Bytes < 0 || !wanted || has[f.Name] {
			return damaged(at, "no ledger has a file %q of %d bytes with SHA-256 %q", f.Name, f.Bytes, f.SHA256)
		}
		has[f.Name], has[dir] = true, true
	}
	if !has[formatName] || !has[walName+"/"] {
		return damaged(at, "it names no %s or no log", formatName)
	}
	return nil
}

// isBackup reports whether a directory holds a backup and not a ledger.
func isBackup(fsys durable.FS, dir string) (bool, error) {
	_, err := fsys.Stat(filepath.Join(dir, manifestName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
