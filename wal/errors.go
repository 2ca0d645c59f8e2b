package wal

import (
	"errors"
	"fmt"
)

// The ways a log fails. Match them with errors.Is.
var (
	// ErrCorrupt: acknowledged records are damaged or missing. errors.As with
	// *CorruptError gives the place.
	ErrCorrupt = errors.New("log corrupt")
	// ErrFailed: a write, a sync or an apply failed, and the log accepts
	// nothing more until it is opened again.
	ErrFailed = errors.New("log failed")
	// ErrFull: the disk has no room for the record and what is promised.
	ErrFull = errors.New("disk full")
	// ErrClosed: the log is closed.
	ErrClosed = errors.New("log closed")
	// ErrTooLarge: a record is over MaxRecord.
	ErrTooLarge = errors.New("record too large")
)

// A CorruptError says where acknowledged records are damaged or missing.
type CorruptError struct {
	Path   string // of the file, or of the directory where a file is missing
	Offset int64  // of the first byte that is not sound
	LSN    uint64 // of the first record that is lost
	Reason string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("wal: %s is corrupt at byte %d, where LSN %d is due: %s; `oncelog verify` looks into it",
		e.Path, e.Offset, e.LSN, e.Reason)
}

// Unwrap makes errors.Is(err, ErrCorrupt) true.
func (e *CorruptError) Unwrap() error { return ErrCorrupt }
