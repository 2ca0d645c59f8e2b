package fuzz

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestTidwallOnSimulatedDisk runs the tests of this package that use a simulated
// disk once more, with the default store on it: github.com/tidwall/wal calls the
// operating system itself, so its own source is compiled anew against
// internal/simdisk/simos, by an overlay of the build.
func TestTidwallOnSimulatedDisk(t *testing.T) {
	if os.Getenv("ONCELOG_OVERLAID") != "" {
		t.Skip("this is the run over the overlay")
	}
	args := []string{"test", "-overlay", writeOverlay(t, tidwallOverlay(t)), "-vet=off", "-count=1", "-v", "-run", "^(TestEveryOperation|TestLedgerStateMachine|TestFullDisk|TestExecutorStateMachine)$"}
	if testing.Short() {
		args = append(args, "-short")
	}
	c := exec.Command("go", append(args, ".")...)
	c.Env = append(os.Environ(), "ONCELOG_OVERLAID=1")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, must := range []string{"--- PASS: TestEveryOperation/tidwall/", "--- PASS: TestLedgerStateMachine"} {
		if !strings.Contains(string(out), must) {
			t.Errorf("the run has no line %q:\n%s", must, out)
		}
	}
}

// tidwallOverlay is the files of that overlay: the dependency's source and our
// import of it, by their paths in the module.
func tidwallOverlay(t *testing.T) map[string]string {
	t.Helper()
	source, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/tidwall/wal").Output()
	if err != nil {
		t.Fatal(err)
	}
	const virtual = "internal/simdisk/tidwall"
	theirs := read(t, filepath.Join(strings.TrimSpace(string(source)), "wal.go"))
	theirs = replace(t, theirs, `"io/ioutil"`, `ioutil "github.com/oncelog/oncelog/internal/simdisk/simos"`)
	theirs = replace(t, theirs, `"os"`, `os "github.com/oncelog/oncelog/internal/simdisk/simos"`)
	return map[string]string{
		virtual + "/wal.go": theirs,
		"wal/tidwall.go": replace(t, read(t, "../wal/tidwall.go"),
			`tidwall "github.com/tidwall/wal"`, `tidwall "github.com/oncelog/oncelog/`+virtual+`"`),
		"fuzz/overlaid_test.go": `package fuzz

import (
	"github.com/oncelog/oncelog/internal/simdisk/simos"
	"github.com/oncelog/oncelog/wal"
)

func init() {
	mount = simos.Mount
	rigStores = []wal.StoreKind{wal.StoreTidwall}
}
`,
	}
}

// writeOverlay writes an overlay for the go command and returns its path.
func writeOverlay(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	replaced := map[string]string{}
	for path, text := range files {
		file := filepath.Join(dir, strings.ReplaceAll(path, "/", "_"))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replaced[filepath.Join(root, path)] = file
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// replace replaces the only occurrence of old.
func replace(t *testing.T, text, old, with string) string {
	t.Helper()
	if n := strings.Count(text, old); n != 1 {
		t.Fatalf("%q occurs %d times, want once", old, n)
	}
	return strings.Replace(text, old, with, 1)
}
