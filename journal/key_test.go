package journal

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestKeyLimits(t *testing.T) {
	for name, c := range map[string]struct {
		key Key
		ok  bool
	}{
		"shortest":             {Key{"e", "\x00"}, true},
		"longest":              {Key{strings.Repeat("e", MaxEffect), strings.Repeat("\xff", MaxItem)}, true},
		"all effect bytes":     {Key{"aZ09._-:", "i"}, true},
		"no item":              {Key{"e", ""}, false},
		"item of 1025 bytes":   {Key{"e", strings.Repeat("i", MaxItem+1)}, false},
		"no effect":            {Key{"", "i"}, false},
		"effect of 129 bytes":  {Key{strings.Repeat("e", MaxEffect+1), "i"}, false},
		"effect with a slash":  {Key{"a/b", "i"}, false},
		"effect with a space":  {Key{"a b", "i"}, false},
		"effect with a NUL":    {Key{"a\x00", "i"}, false},
		"effect not in ASCII":  {Key{"é", "i"}, false},
		"effect with newlines": {Key{"a\n", "i"}, false},
	} {
		err := c.key.Validate()
		if c.ok != (err == nil) || err != nil && !errors.Is(err, ErrBadKey) {
			t.Errorf("%s: %v, want ok %v", name, err, c.ok)
		}
		_, err = DecodeKey(c.key.AppendTo(nil))
		if c.ok != (err == nil) || err != nil && !errors.Is(err, ErrBadKey) {
			t.Errorf("%s: DecodeKey: %v, want ok %v", name, err, c.ok)
		}
	}
}

func TestKeyRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := genKey.Draw(t, "key")
		if got, err := ParseKey(k.String()); err != nil || got != k {
			t.Fatalf("ParseKey(%q) = %q, %v", k.String(), got, err)
		}
		wire := k.AppendTo(nil)
		if len(wire) != k.wireLen() {
			t.Fatalf("%d bytes on the wire, wireLen says %d", len(wire), k.wireLen())
		}
		if got, err := DecodeKey(wire); err != nil || got != k || got.Clone() != k {
			t.Fatalf("DecodeKey(%x) = %q, %v", wire, got, err)
		}
	})
}

// Text is drawn too, because random bytes are hardly ever printable.
func TestKeyStringOfText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := Key{Effect: "e", Item: rapid.StringMatching(`["/ a\\é\x{feff}\x{a0}]{1,8}`).Draw(t, "item")}
		if got, err := ParseKey(k.String()); err != nil || got != k {
			t.Fatalf("ParseKey(%q) = %q, %v", k.String(), got, err)
		}
	})
}

// No two keys have one wire form, whatever is between the effect and the item.
func TestKeyWireIsUnique(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := rapid.StringMatching(`[a-c]{3,9}`).Draw(t, "effect and item")
		i := rapid.IntRange(1, len(whole)-1).Draw(t, "cut")
		j := rapid.IntRange(1, len(whole)-1).Draw(t, "other cut")
		one, two := Key{whole[:i], whole[i:]}, Key{whole[:j], whole[j:]}
		if same := string(one.AppendTo(nil)) == string(two.AppendTo(nil)); same != (i == j) {
			t.Fatalf("%q and %q: same wire form %v", one, two, same)
		}
	})
}

func TestKeyString(t *testing.T) {
	for want, k := range map[string]Key{
		"send-email/order/17":  {"send-email", "order/17"},
		`pay/"a b"`:            {"pay", "a b"},
		`pay/"\xff\x00"`:       {"pay", "\xff\x00"},
		`pay/"\""`:             {"pay", `"`},
		"pay/ünï":              {"pay", "ünï"},
		`pay/"line\nfeed"`:     {"pay", "line\nfeed"},
		`pay/"back\\slash"`:    {"pay", `back\slash`},
		`pay/"\u00a0nbsp"`:     {"pay", "\u00a0nbsp"},
		`pay/"tab\tulator"`:    {"pay", "tab\tulator"},
		"tool:v1.2/call_0-1_2": {"tool:v1.2", "call_0-1_2"},
	} {
		if got := k.String(); got != want {
			t.Errorf("String of %q is %s, want %s", k.Item, got, want)
		}
	}
}

func TestParseKeyRefuses(t *testing.T) {
	for _, s := range []string{"", "e", "/", "/i", "e/", `e/"`, `e/"a`, `e/"a"b`, `e/""`, `e/"\q"`, "a b/i", "e/" + strings.Repeat("i", MaxItem+1)} {
		if k, err := ParseKey(s); !errors.Is(err, ErrBadKey) || k != (Key{}) {
			t.Errorf("ParseKey(%.40q) = %v, %v; want ErrBadKey", s, k, err)
		}
	}
	for _, b := range []string{"", "\x80\x00e", "\x05ab", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"} {
		if k, err := DecodeKey([]byte(b)); !errors.Is(err, ErrBadRecord) && !errors.Is(err, ErrBadKey) || k != (Key{}) {
			t.Errorf("DecodeKey(%q) = %v, %v; want an error", b, k, err)
		}
	}
}
