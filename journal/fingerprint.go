package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
)

// Fingerprint is xxhash64 over the input's canonical form; 0 stands for no input
// and is never the fingerprint of one. It tells an honest mistake — the same item
// with another input — and is no defence against an input made to collide.
//
// Of JSON the canonical form has its members sorted, at every depth, and neither
// white space nor a choice of escapes, so members in any order are equal. Numbers
// count as they are written: 1 and 1.0 are two inputs, because telling that they
// are one would need to round large integers. Anything that is not exactly one
// JSON value is taken byte for byte, and so is JSON that readers may understand
// differently: with a member twice, nested deeper than 10,000, or with text that
// is not Unicode.
func Fingerprint(input []byte) uint64 {
	if len(input) == 0 {
		return 0
	}
	var d xxhash.Digest
	d.Reset()
	if c, ok := canonical(input); ok {
		d.ResetWithSeed(canonicalSeed) // so that no other input is equal to a canonical form
		input = c
	}
	_, _ = d.Write(input) // never fails
	return max(d.Sum64(), 1)
}

const canonicalSeed = 1

// canonical is the form of JSON that is hashed; false for what is taken byte for
// byte. It is part of the disk format, which is why it is not json.Marshal's:
// that has changed between Go versions.
func canonical(input []byte) ([]byte, bool) {
	if !utf8.Valid(input) {
		return nil, false // the decoder would make different bytes equal
	}
	d := json.NewDecoder(bytes.NewReader(input))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil, false
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, false
	}
	c := canon{b: make([]byte, 0, len(input)+len(input)/4)}
	c.value(v)
	if c.members != members(input) || c.replaced != bytes.Count(input, []byte(replacement)) {
		return nil, false
	}
	return c.b, true
}

// replacement is what the decoder puts for half of a surrogate pair, which makes
// different inputs equal. One that the input itself has is left in.
const replacement = "\uFFFD"

// canon writes a value: one letter for its type, then lengths as uvarints and
// contents.
type canon struct {
	b        []byte
	members  int // of objects, at every depth
	replaced int // replacement characters written
}

func (c *canon) value(v any) {
	switch v := v.(type) {
	case nil:
		c.b = append(c.b, '0')
	case bool:
		if v {
			c.b = append(c.b, 't')
		} else {
			c.b = append(c.b, 'f')
		}
	case json.Number:
		c.b = appendBytes(append(c.b, 'n'), string(v))
	case string:
		c.text(v)
	case []any:
		c.b = binary.AppendUvarint(append(c.b, 'a'), uint64(len(v)))
		for _, x := range v {
			c.value(x)
		}
	case map[string]any:
		c.members += len(v)
		c.b = binary.AppendUvarint(append(c.b, 'o'), uint64(len(v)))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			c.text(name)
			c.value(v[name])
		}
	}
}

func (c *canon) text(s string) {
	c.b = appendBytes(append(c.b, 's'), s)
	c.replaced += strings.Count(s, replacement)
}

// members counts the members of a valid JSON value's objects: the colons outside
// of strings. The decoder keeps one of two members with one name.
func members(valid []byte) int {
	n, quoted := 0, false
	for i := 0; i < len(valid); i++ {
		switch c := valid[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\' && quoted:
			i++
		case c == ':' && !quoted:
			n++
		}
	}
	return n
}
