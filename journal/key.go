package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Limits of a key.
const (
	MaxItem   = 1024 // bytes of an item id
	MaxEffect = 128  // bytes of an effect's name
)

// ErrBadKey reports an item id or an effect name outside its limits.
var ErrBadKey = errors.New("bad key")

// A Key names what must happen once: an effect, applied to an item. Two effects
// on one item are two keys.
type Key struct {
	// Effect is the effect's name: 1 to [MaxEffect] letters, digits, '.', '_',
	// '-' and ':'.
	Effect string
	// Item is the item's stable id: 1 to [MaxItem] bytes of any value, owned by
	// the caller. It must not be derived from the run, the attempt or the time.
	Item string
}

// Validate reports, wrapped in [ErrBadKey], what is wrong with the key.
func (k Key) Validate() error {
	if err := ValidateEffect(k.Effect); err != nil {
		return err
	}
	switch n := len(k.Item); {
	case n == 0:
		return fmt.Errorf("journal: the item id is empty, want 1 to %d bytes: %w", MaxItem, ErrBadKey)
	case n > MaxItem:
		return fmt.Errorf("journal: the item id has %d bytes, want 1 to %d: %w", n, MaxItem, ErrBadKey)
	}
	return nil
}

// ValidateEffect reports, wrapped in [ErrBadKey], what is wrong with an effect's
// name.
func ValidateEffect(name string) error {
	if n := len(name); n == 0 || n > MaxEffect {
		return fmt.Errorf("journal: effect name %.40q has %d bytes, want 1 to %d: %w", name, n, MaxEffect, ErrBadKey)
	}
	for i := range len(name) {
		if !effectByte(name[i]) {
			return fmt.Errorf("journal: effect name %q has %q at byte %d, want letters, digits and . _ - : only: %w",
				name, name[i], i, ErrBadKey)
		}
	}
	return nil
}

func effectByte(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return c == '.' || c == '_' || c == '-' || c == ':'
}

// String is the key as people write it: effect/item, the item quoted where it is
// not plain text.
func (k Key) String() string {
	if q := strconv.Quote(k.Item); q[1:len(q)-1] != k.Item || strings.ContainsAny(k.Item, " \t") {
		return k.Effect + "/" + q
	}
	return k.Effect + "/" + k.Item
}

// ParseKey reads what [Key.String] writes: the effect's name ends at the first
// slash, and an item that begins with a double quote is a Go string literal.
func ParseKey(s string) (Key, error) {
	effect, item, ok := strings.Cut(s, "/")
	if !ok {
		return Key{}, fmt.Errorf("journal: %.80q is not EFFECT/ITEM: %w", s, ErrBadKey)
	}
	if strings.HasPrefix(item, `"`) {
		var err error
		if item, err = strconv.Unquote(item); err != nil {
			return Key{}, fmt.Errorf("journal: the quoted item in %.80q does not parse: %w", s, ErrBadKey)
		}
	}
	k := Key{Effect: effect, Item: item}
	if err := k.Validate(); err != nil {
		return Key{}, err
	}
	return k, nil
}

// AppendTo appends the key's wire form, which is also its form in the index: the
// length of the effect's name as a uvarint, the name, the item.
func (k Key) AppendTo(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(k.Effect)))
	dst = append(dst, k.Effect...)
	return append(dst, k.Item...)
}

// wireLen is the length of what AppendTo appends.
func (k Key) wireLen() int {
	return uvarintLen(uint64(len(k.Effect))) + len(k.Effect) + len(k.Item)
}

// DecodeKey reads a key's wire form. The key's strings alias b. Errors wrap
// [ErrBadRecord] or [ErrBadKey].
func DecodeKey(b []byte) (Key, error) {
	d := decoder{b: b}
	k := Key{Effect: d.str()}
	if d.err != nil {
		return Key{}, fmt.Errorf("journal: key: %w", d.err)
	}
	k.Item = alias(d.b)
	if err := k.Validate(); err != nil {
		return Key{}, err
	}
	return k, nil
}

// Clone returns a key whose strings are its own.
func (k Key) Clone() Key {
	return Key{Effect: strings.Clone(k.Effect), Item: strings.Clone(k.Item)}
}
