package ledger

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"

	"github.com/oncelog/oncelog/internal/durable"
	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/recovery"
)

// Restore makes a ledger of a backup, in a directory that holds none. What happened
// after the backup is lost, so the ledger begins with an amnesia: a key that it does not
// know, or knows only as free, is in doubt until it is checked or decided. The reason
// says who restored it and why; the amnesia's also names the backup.
//
// ErrExists where there is a ledger already; fs.ErrNotExist where there is no backup;
// ErrCorrupt, naming the file, where the backup is damaged. A restoration that is cut
// off, or that fails, leaves no ledger, and can be repeated.
func Restore(backup, dir string, o Options, reason string) (Manifest, error) {
	o = o.withDefaults()
	m, err := readManifest(o.FS, backup)
	if errors.Is(err, fs.ErrNotExist) {
		return m, fmt.Errorf("ledger: %s holds no backup, or one that was never finished: %w", backup, err)
	}
	if err != nil {
		return m, err
	}
	lock, err := takeLock(dir, o, true)
	if err != nil {
		return m, err
	}
	r := &restoration{fs: o.FS, backup: backup, dir: dir, options: o, progress: Progress{Total: m.Bytes()}}
	return m, errors.Join(r.run(&m, reason), lock.Close())
}

// restoration is a ledger that is being made of a backup.
type restoration struct {
	fs          durable.FS
	backup, dir string
	options     Options
	progress    Progress
}

// run lays the ledger out. Commit point: the rename of FORMAT.new to FORMAT; before it
// the directory is no ledger, and the amnesia is in the log by then.
func (r *restoration) run(m *Manifest, reason string) error {
	if err := checkFree(r.fs, r.dir); err != nil {
		return err
	}
	begun := filepath.Join(r.dir, newFormatName)
	// First, so that what is laid out is known as unfinished.
	if err := durable.WriteFile(r.fs, begun, []byte("being restored\n")); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	for _, name := range []string{walName, snapshotsName} {
		if err := makeEmpty(r.fs, filepath.Join(r.dir, name)); err != nil {
			return fmt.Errorf("ledger: %w", err)
		}
	}
	if err := removeLog(r.fs, r.dir, format{Log: otherWalName}); err != nil {
		return err
	}
	for _, name := range []string{watermarkName, reserveName} {
		if err := durable.Remove(r.fs, filepath.Join(r.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("ledger: %w", err)
		}
	}
	var f format
	for _, file := range m.Files {
		if err := r.file(file, &f); err != nil {
			return err
		}
	}
	if err := r.forget(m, f, reason); err != nil {
		return err
	}
	if err := durable.WriteFile(r.fs, begun, f.encode()); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	if err := durable.Move(r.fs, begun, filepath.Join(r.dir, formatName)); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return nil
}

// file puts one of the backup's files into its place; FORMAT is only read.
func (r *restoration) file(file BackupFile, f *format) error {
	at := contentPath(r.backup, file)
	sound, err := contentIs(r.fs, r.backup, file)
	if err != nil {
		return err
	}
	if !sound {
		return fmt.Errorf("ledger: %s, which is %s of the ledger, is missing or damaged; take another backup: %w", at, file.Name, ErrCorrupt)
	}
	from, err := r.fs.OpenRead(at)
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	content := io.NewSectionReader(from, 0, file.Bytes)
	if file.Name == formatName {
		var line []byte
		if line, err = io.ReadAll(content); err == nil {
			*f, err = parseFormat(at, line)
		}
	} else {
		dir, base := path.Split(file.Name)
		err = durable.CopyFile(r.fs, filepath.Join(r.dir, filepath.FromSlash(dir), base), content)
	}
	if err = errors.Join(err, from.Close()); err != nil {
		return fmt.Errorf("ledger: restore %s: %w", file.Name, err)
	}
	r.progress.Done += file.Bytes
	if r.options.Progress != nil {
		r.options.Progress(r.progress)
	}
	return nil
}

// forget opens what was put back, which checks it, and records that what came after
// it is lost.
func (r *restoration) forget(m *Manifest, f format, reason string) error {
	log, _, report, err := recovery.Run(recoveryOptions(r.dir, f, r.options))
	if err != nil {
		return fmt.Errorf("ledger: what was restored does not open: %w", err)
	}
	if report.Log.Last != m.LSN {
		err = fmt.Errorf("ledger: the backup's log ends at LSN %d, its manifest says %d: %w", report.Log.Last, m.LSN, ErrCorrupt)
	} else {
		lost := journal.Record{Kind: journal.KindAmnesia, Landed: true, Time: now(),
			Note: clip(fmt.Sprintf("restored from %v: %s", m, reason))}
		err = appendAndWait(log, &lost)
	}
	if err := errors.Join(err, log.Close()); err != nil {
		return fmt.Errorf("ledger: restore: %w", err)
	}
	return nil
}
