package journal

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// E30: the order of JSON members must not change what an input is; everything
// that a reader could tell apart must.
func TestCaseE30(t *testing.T) {
	for _, c := range []struct {
		name, a, b string
		equal      bool
	}{
		{"member order", `{"a":1,"b":2}`, `{"b":2,"a":1}`, true},
		{"member order at depth", `[{"x":{"a":[1,{"p":1,"q":2}],"b":2}}]`, `[{"x":{"b":2,"a":[1,{"q":2,"p":1}]}}]`, true},
		{"white space", "{\"a\":1,\"b\":[1,2]}", " {\n\t\"a\": 1, \"b\": [ 1,2 ] }\r\n", true},
		{"escapes", `{"a":"\u00e9\/"}`, `{"a":"é/"}`, true},
		{"escaped emoji", `{"a":"\ud83d\ude00","b":1}`, `{"b":1,"a":"😀"}`, true},
		{"escaped names", `{"\u0061":1,"b":2}`, `{"b":2,"a":1}`, true},
		{"colons in text", `{"a":"x:y\":","b:":1}`, `{"b:":1,"a":"x:y\":"}`, true},
		{"replacement character", `{"a":"` + "\uFFFD" + `","b":1}`, `{"b":1,"a":"` + "\uFFFD" + `"}`, true},

		{"another value", `{"a":1,"b":2}`, `{"a":1,"b":3}`, false},
		{"another name", `{"a":1}`, `{"b":1}`, false},
		{"values swapped", `{"a":1,"b":2}`, `{"a":2,"b":1}`, false},
		{"array order", `[1,2]`, `[2,1]`, false},
		{"1 and 1.0", `{"a":1}`, `{"a":1.0}`, false},
		{"1e2 and 100", `1e2`, `100`, false},
		{"number and text", `{"a":1}`, `{"a":"1"}`, false},
		{"null and missing", `{"a":null}`, `{}`, false},
		{"null and text", `[null]`, `["null"]`, false},
		{"true and its letter", `true`, `t`, false},
		{"big integers", `{"a":9007199254740993}`, `{"a":9007199254740992}`, false},
		{"integers beyond 64 bits", `100000000000000000000001`, `100000000000000000000002`, false},
		{"nesting", `[[1],2]`, `[[1,2]]`, false},
		{"text cut elsewhere", `["ab","c"]`, `["a","bc"]`, false},
		{"empty array and object", `[]`, `{}`, false},

		{"a member twice", `{"a":1,"a":2}`, `{"a":2}`, false},
		{"a member twice, in order", `{"a":1,"a":2}`, `{"a":2,"a":1}`, false},
		{"a member twice at depth", `[{"b":{"a":1,"a":2}}]`, `[{"b":{"a":2}}]`, false},
		{"a member twice by escape", `{"a":1,"\u0061":2}`, `{"a":2}`, false},
		{"half surrogates", `{"a":"\ud800"}`, `{"a":"\ud801"}`, false},
		{"half a surrogate and its replacement", `{"a":"\ud800"}`, `{"a":"\ufffd"}`, false},
		{"invalid UTF-8", "{\"a\":\"\xff\"}", "{\"a\":\"\xfe\"}", false},
		{"invalid UTF-8 in another order", "{\"a\":\"\xff\",\"b\":1}", "{\"b\":1,\"a\":\"\xff\"}", false},
		{"trailing garbage", `{"a":1,"b":2} x`, `{"b":2,"a":1} x`, false},
		{"a second value", `{"a":1}{"b":2}`, `{"a":1} {"b":2}`, false},
		{"a bracket too many", `{"a":1}]`, `{"a":1}`, false},
		{"cut off", `{"a":1,"b":`, `{"a":1, "b":`, false},
		{"not JSON", `hello`, `hello `, false},
		{"byte order mark", "\ufeff{}", `{}`, false},
	} {
		if equal := Fingerprint([]byte(c.a)) == Fingerprint([]byte(c.b)); equal != c.equal {
			t.Errorf("%s: %s and %s: equal is %v, want %v", c.name, c.a, c.b, equal, c.equal)
		}
	}
}

// Fingerprints are on disk: another value for the same input refuses honest
// retries.
func TestFingerprintGolden(t *testing.T) {
	for input, want := range goldenFingerprints {
		if got := Fingerprint([]byte(input)); got != want {
			t.Errorf("Fingerprint(%q) = %#016x, want %#016x", input, got, want)
		}
	}
	if got := Fingerprint(nil); got != 0 {
		t.Errorf("the fingerprint of nothing is %#x, want 0", got)
	}
}

// What the decoder cannot nest is taken byte for byte.
func TestFingerprintDepth(t *testing.T) {
	for _, depth := range []int{9_000, 1_000_000} {
		deep := strings.Repeat("[", depth) + strings.Repeat("]", depth)
		canonical := depth < 10_000
		if equal := Fingerprint([]byte(deep)) == Fingerprint([]byte(" "+deep)); equal != canonical {
			t.Errorf("%d deep: canonical is %v, want %v", depth, equal, canonical)
		}
	}
}

func genJSON(depth int) *rapid.Generator[any] {
	leaves := []*rapid.Generator[any]{
		rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.Int().AsAny(), rapid.Float64Range(-9, 9).AsAny(), rapid.String().AsAny(),
	}
	if depth > 0 {
		leaves = append(leaves,
			rapid.SliceOfN(genJSON(depth-1), 0, 3).AsAny(),
			rapid.MapOfN(rapid.String(), genJSON(depth-1), 0, 4).AsAny())
	}
	return rapid.OneOf(leaves...)
}

// shuffled writes v with the members of its objects in drawn order.
func shuffled(t *rapid.T, v any) string {
	switch v := v.(type) {
	case []any:
		parts := make([]string, len(v))
		for i, x := range v {
			parts[i] = shuffled(t, x)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case map[string]any:
		var parts []string
		for name, x := range v {
			parts = append(parts, shuffled(t, name)+" :"+shuffled(t, x))
		}
		return "{" + strings.Join(rapid.Permutation(parts).Draw(t, "order"), ",") + "}"
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestFingerprintShuffled(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := genJSON(3).Draw(t, "value")
		one, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		other := shuffled(t, v)
		if Fingerprint(one) != Fingerprint([]byte(other)) {
			t.Fatalf("%s and %s differ", one, other)
		}
	})
}

func FuzzFingerprint(f *testing.F) {
	for input := range goldenFingerprints {
		f.Add([]byte(input))
	}
	f.Add([]byte(`{"a":1,"a":"\ud800:"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if got := Fingerprint(b); (got == 0) != (len(b) == 0) {
			t.Fatalf("the fingerprint of %d bytes is %d", len(b), got)
		}
	})
}

var goldenFingerprints = map[string]uint64{
	"hello":    0x26c7827d889f6da3, // plain xxhash64
	"\xff\x00": 0x232a32cfb42b2bf2,
	"[]":       0xb949e49daaeb4b4f, // xxhash64 with seed 1 of "a\x00"
	`{"to":"ann@example.com","n":1.50,"ok":[true,false,null]}`: 0x02285e195ccf9fb5,
}
