package wal

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/oncelog/oncelog/internal/durable"
)

// Cut accepts that acknowledged records are lost: it cuts a corrupt log back to
// the records before the first damage, and moves everything from there on to
// quarantine. last is the LSN up to which records are left, 0 for none. A log that
// is sound is left as it is, but for the watermark. The caller makes sure that
// nobody has the log open.
func Cut(o Options) (last uint64, err error) {
	o = o.withDefaults()
	lay, err := layoutOf(o.Store)
	if err != nil {
		return 0, err
	}
	s := scanner{fs: o.FS, dir: o.Dir, id: o.ID, lay: lay}
	_, err = s.run()
	if err != nil && !errors.Is(err, ErrCorrupt) {
		return 0, err
	}
	found := &s.found
	if err := durable.MkdirAll(o.FS, o.Quarantine); err != nil {
		return 0, fmt.Errorf("wal: %w", err)
	}
	tail := len(found.segments) - 1
	for tail >= 0 && found.segments[tail].blocks == 0 {
		tail--
	}
	for i := len(found.segments) - 1; i > tail; i-- {
		if err := setAside(&o, found.segments[i].path); err != nil {
			return 0, err
		}
	}
	if tail >= 0 {
		if err := cutTail(&o, lay, &found.segments[tail]); err != nil {
			return 0, err
		}
	}
	m := mark{lsn: found.last}
	if err := durable.WriteFile(o.FS, o.Watermark, m.encode(o.ID)); err != nil {
		return 0, fmt.Errorf("wal: watermark: %w", err)
	}
	return found.last, nil
}

// Abandon moves the whole log to quarantine, and removes the temporary files
// beside it.
func Abandon(o Options) error {
	lay, err := layoutOf(o.Store)
	if err != nil {
		return err
	}
	found, leftovers, err := listSegments(o.FS, o.Dir, lay)
	if err != nil {
		return fmt.Errorf("wal: %w", err)
	}
	// The newest first: what is left at any moment is a beginning of the log.
	for i := len(found) - 1; i >= 0; i-- {
		if err := setAside(&o, found[i].path); err != nil {
			return err
		}
	}
	for _, path := range leftovers {
		if err := durable.Remove(o.FS, path); err != nil {
			return fmt.Errorf("wal: %w", err)
		}
	}
	return nil
}

// setAside moves a segment to quarantine.
func setAside(o *Options, path string) error {
	name := filepath.Base(path) + ".whole." + strconv.FormatInt(time.Now().UnixNano(), 10)
	if err := durable.Move(o.FS, path, filepath.Join(o.Quarantine, name)); err != nil {
		return fmt.Errorf("wal: %w", err)
	}
	return nil
}

// cutTail keeps what follows the sound blocks of a segment, then writes it anew.
func cutTail(o *Options, lay layout, seg *segment) error {
	data, err := durable.ReadFile(o.FS, seg.path)
	if err != nil {
		return fmt.Errorf("wal: %w", err)
	}
	if seg.end < len(data) {
		if _, err := quarantine(o, seg.path, &tear{offset: seg.end, bytes: data[seg.end:]}); err != nil {
			return err
		}
	}
	return rewrite(o, lay, seg)
}
