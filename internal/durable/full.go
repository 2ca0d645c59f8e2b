package durable

import "errors"

// ErrNoSpace reports a full disk. File systems that are not the operating
// system's return it; the operating system's own errors for the same trouble
// differ by platform. Ask [IsFull], which knows them all.
var ErrNoSpace = errors.New("durable: no space left on the disk")

// IsFull reports whether err says that the disk, the user's quota or the file
// size limit of the process leaves no room for more bytes. Such an operation
// may succeed when room is made; an operation that failed otherwise may not.
func IsFull(err error) bool {
	if errors.Is(err, ErrNoSpace) {
		return true
	}
	for _, full := range fullErrors {
		if errors.Is(err, full) {
			return true
		}
	}
	return false
}
