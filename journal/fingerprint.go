package journal

import (
	"bytes"
	"encoding/json"
	"io"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
)

// Fingerprint is xxhash64 over the input's canonical form; 0 stands for no input
// and is never the fingerprint of one. It tells an honest mistake — the same item
// with another input — and is no defence against an input made to collide.
//
// Of JSON the canonical form has its members sorted, at every depth, and no
// white space, so members in any order are equal. Numbers count as they are
// written: 1 and 1.0 are two inputs, because telling that they are one would need
// to round large integers. Anything that is not exactly one JSON value is taken
// byte for byte.
func Fingerprint(input []byte) uint64 {
	if len(input) == 0 {
		return 0
	}
	h := xxhash.Sum64(canonical(input))
	if h == 0 {
		return 1
	}
	return h
}

func canonical(input []byte) []byte {
	if !utf8.Valid(input) {
		return input // the decoder would make different bytes equal
	}
	d := json.NewDecoder(bytes.NewReader(input))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return input
	}
	if _, err := d.Token(); err != io.EOF {
		return input
	}
	b, err := json.Marshal(v)
	if err != nil {
		return input
	}
	return b
}
