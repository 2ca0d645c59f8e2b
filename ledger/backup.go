package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/oncelog/oncelog/internal/durable"
	"github.com/oncelog/oncelog/snapshot"
	"github.com/oncelog/oncelog/wal"
)

// backupTries is how often a backup looks again at a ledger that changes under it.
const backupTries = 20

// Backup copies the ledger in a directory to another directory, from which Restore
// makes a ledger again. The ledger may be in use, by this process or another, which
// does not wait for it; the backup is the ledger as it was at some moment of the call.
// Everything in it was read whole and is sound, or the backup is refused: ErrCorrupt.
//
// Where there is a backup already the new one takes its place, in one step at the end:
// contents that it has already are read back and not written again. That is also how
// a backup that was cut off goes on when it is repeated. ErrExists where the directory
// holds anything else, a backup of another ledger, or one that reaches further than
// this ledger does.
func Backup(dir, to string, o Options) (Manifest, error) {
	o = o.withDefaults()
	f, err := readFormat(o.FS, dir)
	if err != nil {
		return Manifest{}, err
	}
	if err := repaired(o.FS, dir); err != nil {
		return Manifest{}, err
	}
	if err := apart(dir, to); err != nil {
		return Manifest{}, err
	}
	lock, before, err := takeBackup(to, f, o)
	if err != nil {
		return Manifest{}, err
	}
	b := &backup{fs: o.FS, dir: dir, to: to, format: f, options: o, before: before, durable: map[string]bool{}}
	for _, f := range before.Files {
		b.durable[f.SHA256] = true
	}
	m, err := b.run()
	return m, errors.Join(err, lock.Close())
}

// apart makes sure that a backup is not put into the ledger.
func apart(dir, to string) error {
	from, err := filepath.Abs(dir)
	if err == nil {
		to, err = filepath.Abs(to)
	}
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	if in, err := filepath.Rel(from, to); err == nil && filepath.IsLocal(in) {
		return fmt.Errorf("ledger: %s is in the ledger %s: a backup wants a directory of its own, best on another disk: %w", to, from, ErrExists)
	}
	return nil
}

// takeBackup makes this process the only one that writes into a backup's directory, and
// reads what backup is there, if any: the zero Manifest for none.
func takeBackup(to string, f format, o Options) (lock durable.File, before Manifest, err error) {
	if err := durable.MkdirAll(o.FS, to); err != nil {
		return nil, before, fmt.Errorf("ledger: %w", err)
	}
	there, err := o.FS.ReadDir(to)
	if err != nil {
		return nil, before, fmt.Errorf("ledger: %w", err)
	}
	for _, e := range there {
		if !slices.Contains([]string{manifestName, manifestName + durable.TempSuffix, contentName, lockName}, e.Name()) {
			return nil, before, fmt.Errorf("ledger: %s holds %s: a backup wants an empty directory, or an earlier backup: %w", to, e.Name(), ErrExists)
		}
	}
	if lock, err = waitLock(filepath.Join(to, lockName), o); err != nil {
		return nil, before, err
	}
	before, err = readManifest(o.FS, to)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	case errors.Is(err, ErrCorrupt):
		// It restores nothing any more; a sound one is what it needs.
		before, err = Manifest{}, nil
	case err == nil && before.Ledger != f.ID:
		err = fmt.Errorf("ledger: %s holds a backup of ledger %s, this is %s: %w", to, before.Ledger, f.ID, ErrExists)
	}
	if err == nil {
		err = durable.MkdirAll(o.FS, filepath.Join(to, contentName))
	}
	if err != nil {
		return nil, before, errors.Join(err, lock.Close())
	}
	return lock, before, nil
}

// backup is a backup in the making.
type backup struct {
	fs       durable.FS
	dir, to  string
	format   format
	options  Options
	before   Manifest        // of the backup that was there
	durable  map[string]bool // contents that are known to be durable, by SHA-256
	files    []BackupFile
	progress Progress
	failed   error // writing the backup
}

func (b *backup) run() (Manifest, error) {
	var m Manifest
	var err error
	for try := 1; ; try++ {
		if m, err = b.copy(); err == nil || b.failed != nil || try == backupTries {
			break
		}
		// What is being written, or removed, while it is read is no damage. What
		// was copied is there and is not copied again.
		busy, lockErr := owned(b.fs, b.dir)
		if lockErr != nil {
			return m, lockErr
		}
		if !busy && !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err != nil {
		return m, err
	}
	if b.before.LSN > m.LSN {
		return m, fmt.Errorf("ledger: %s holds %v, and %s is at LSN %d: it is an older state, back it up elsewhere: %w",
			b.to, &b.before, b.dir, m.LSN, ErrExists)
	}
	// Commit point: from here on the directory holds this backup, before it the
	// one from before.
	if err := durable.WriteFile(b.fs, filepath.Join(b.to, manifestName), m.encode()); err != nil {
		return m, fmt.Errorf("ledger: %w", err)
	}
	return m, b.sweep(&m)
}

// copy makes sure that everything a ledger needs is in the backup's directory.
func (b *backup) copy() (Manifest, error) {
	b.files, b.progress = nil, Progress{}
	if err := b.measure(); err != nil {
		return Manifest{}, err
	}
	f := b.format
	f.Log = ""
	if err := b.keep(formatName, f.encode()); err != nil {
		return Manifest{}, err
	}
	// The snapshots come before the log: one that is taken meanwhile lets go of
	// log only behind the chain before it, which is the one that was copied.
	newest, err := b.snapshots()
	if err != nil {
		return Manifest{}, err
	}
	last, err := b.log(newest.Header.LSN)
	if err != nil {
		return Manifest{}, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return Manifest{Version: backupVersion, Ledger: b.format.ID, Host: host, Time: time.Now().UTC().Truncate(time.Second),
		LSN: last, Files: b.files}, nil
}

// measure counts the bytes that are there to be copied.
func (b *backup) measure() error {
	for _, name := range []string{b.format.logName(), snapshotsName} {
		files, err := b.fs.ReadDir(filepath.Join(b.dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("ledger: %w", err)
		}
		for _, f := range files {
			info, err := f.Info()
			if err != nil {
				return fmt.Errorf("ledger: %w", err)
			}
			b.progress.Total += info.Size()
		}
	}
	return nil
}

// snapshots copies the newest sound chain and says how far it reaches.
func (b *backup) snapshots() (snapshot.Info, error) {
	left, err := snapshot.List(b.fs, filepath.Join(b.dir, snapshotsName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return snapshot.Info{}, fmt.Errorf("ledger: %w", err)
	}
	for {
		chain := snapshot.Newest(left)
		newest, damaged, err := lastOf(chain, b.options, b.format)
		if errors.Is(err, snapshot.ErrCorrupt) {
			left = slices.DeleteFunc(left, func(s snapshot.File) bool { return s == damaged })
			continue
		}
		if err != nil {
			return newest, err
		}
		for _, s := range chain {
			if err := b.keepSnapshot(s.Path); err != nil {
				return newest, err
			}
		}
		return newest, nil
	}
}

func (b *backup) keepSnapshot(path string) error {
	f, err := b.fs.OpenRead(path)
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	size, err := f.Size()
	if err == nil {
		err = b.keepFrom(snapshotsName+"/"+filepath.Base(path), f, size)
	}
	return errors.Join(err, f.Close())
}

// log copies what of the log follows a snapshot, and says how far it reaches.
func (b *backup) log(after uint64) (last uint64, err error) {
	var before *wal.Segment // the last one that the snapshot covers
	kept := 0
	found, err := wal.Segments(logOptions(b.dir, b.format, b.options), func(s wal.Segment) error {
		if s.Last <= after {
			before = &s
			return nil
		}
		kept++
		return b.keep(walName+"/"+s.Name, s.Data)
	})
	if err != nil {
		return 0, err
	}
	// The log's last block stays with it: the next one follows on that.
	if kept == 0 {
		err = b.keep(walName+"/"+before.Name, before.Data)
	}
	if err == nil && (found.First > after+1 || found.Last < after) {
		err = fmt.Errorf("ledger: the log has LSN %d to %d and the newest sound snapshot ends at %d: %w", found.First, found.Last, after, ErrCorrupt)
	}
	return found.Last, err
}

func (b *backup) keep(name string, content []byte) error {
	return b.keepFrom(name, bytes.NewReader(content), int64(len(content)))
}

// keepFrom makes sure that the backup has a file.
func (b *backup) keepFrom(name string, from io.ReaderAt, size int64) error {
	sum, err := digest(io.NewSectionReader(from, 0, size))
	if err != nil {
		return fmt.Errorf("ledger: %s: %w", name, err)
	}
	f := BackupFile{Name: name, Bytes: size, SHA256: sum}
	if b.failed = b.write(f, io.NewSectionReader(from, 0, size)); b.failed != nil {
		return b.failed
	}
	b.files = append(b.files, f)
	b.progress.Done += size
	b.progress.Total = max(b.progress.Total, b.progress.Done)
	if b.options.Progress != nil {
		b.options.Progress(b.progress)
	}
	return nil
}

// write makes sure that a content is in the backup, durably.
func (b *backup) write(f BackupFile, from io.Reader) error {
	path := contentPath(b.to, f)
	sound, err := contentIs(b.fs, b.to, f)
	if err != nil {
		return err
	}
	switch {
	case sound && b.durable[f.SHA256]:
		return nil
	case sound:
		// It was synced before it got its name. The name may still be lost, even
		// to a sync that succeeds now after one that has failed: give it anew.
		if err = b.fs.Rename(path, path+durable.TempSuffix); err == nil {
			err = durable.Move(b.fs, path+durable.TempSuffix, path)
		}
	default:
		if err = durable.CopyFile(b.fs, path, from); err == nil {
			sound, err = contentIs(b.fs, b.to, f)
		}
	}
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	if !sound {
		return fmt.Errorf("ledger: %s reads back other than it was written: %w", path, ErrCorrupt)
	}
	b.durable[f.SHA256] = true
	return nil
}

// sweep removes contents that the backup does not have.
func (b *backup) sweep(m *Manifest) error {
	has := map[string]bool{}
	for _, f := range m.Files {
		has[f.SHA256] = true
	}
	dir := filepath.Join(b.to, contentName)
	there, err := b.fs.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	for _, e := range there {
		if has[e.Name()] {
			continue
		}
		if err := b.fs.Remove(filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("ledger: %w", err)
		}
	}
	return nil
}

func contentPath(backup string, f BackupFile) string {
	return filepath.Join(backup, contentName, f.SHA256)
}

// contentIs reports whether a backup has a file's content, and it is sound.
func contentIs(fsys durable.FS, backup string, f BackupFile) (bool, error) {
	file, err := fsys.OpenRead(contentPath(backup, f))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("ledger: %w", err)
	}
	size, err := file.Size()
	sum := ""
	if err == nil && size == f.Bytes {
		sum, err = digest(io.NewSectionReader(file, 0, size))
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return false, fmt.Errorf("ledger: %w", err)
	}
	return sum == f.SHA256, nil
}

// digest is the SHA-256 of what a reader yields, in hex.
func digest(from io.Reader) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, from); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
