package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelog/oncelog/journal"
	"github.com/oncelog/oncelog/ledger"
)

// asCommand makes this test binary the command, so that exit codes and kills are
// real.
const asCommand = "ONCELOG_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// ran is what a call of the command came to.
type ran struct {
	code        int
	out, stderr string
}

func command(stdin string, args ...string) *exec.Cmd {
	c := exec.Command(os.Args[0], args...)
	c.Env = append(os.Environ(), asCommand+"=1", "ONCELOG_DIR=")
	c.Stdin = strings.NewReader(stdin)
	return c
}

func run(t *testing.T, stdin string, args ...string) ran {
	t.Helper()
	c := command(stdin, args...)
	var out, stderr bytes.Buffer
	c.Stdout, c.Stderr = &out, &stderr
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return ran{c.ProcessState.ExitCode(), out.String(), stderr.String()}
}

// wants fails unless the call ended with the code, and stdout is as given.
func (r ran) wants(t *testing.T, code int, out string) {
	t.Helper()
	if r.code != code || r.out != out {
		t.Errorf("exit %d, stdout %q, stderr %q; want exit %d, stdout %q", r.code, r.out, r.stderr, code, out)
	}
}

func state(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	run(t, "", "init", "--dir", dir).wants(t, 0, "")
	return dir
}

func object(t *testing.T, line string) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(line), &v); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return v
}

func do(dir, item string, rest ...string) []string {
	return append([]string{"do", "--dir", dir, "--effect", "e", "--item", item}, rest...)
}

// TestDoExitCodes: what the command that is guarded ends with, and what a second
// call then gets without running it.
func TestDoExitCodes(t *testing.T) {
	needShell(t)
	dir := state(t)
	for i, c := range []struct {
		script        string
		flags         []string
		first, second int
		out           string
		runs          int
	}{
		{"echo hello", nil, 0, 0, "hello\n", 1},
		{"exit 75", nil, 14, 14, "", 2},
		{"exit 75", []string{"--max-attempts", "1"}, 13, 13, "", 1},
		{"exit 65", nil, 13, 13, "", 1},
		{"exit 1", nil, 10, 10, "", 1},
		{"exit 3", []string{"--not-applied", "3,4"}, 14, 14, "", 2},
		{"exit 75", []string{"--not-applied", "3"}, 10, 10, "", 1},
		{"exit 4", []string{"--permanent", "4"}, 13, 13, "", 1},
		{"kill -9 $$", nil, 10, 10, "", 1},
		{"kill -TERM $$", nil, 10, 10, "", 1},
		{"sleep 30", []string{"--timeout", "100ms"}, 10, 10, "", 1},
		{"exit 1", []string{"--check", "exit 0"}, 10, 0, "", 1},
		{"exit 1", []string{"--check", "exit 1"}, 10, 10, "", 2},
		{"exit 1", []string{"--check", "exit 7"}, 10, 10, "", 1},
		{"exit 1", []string{"--check", "exit 0", "--on-doubt", "hold"}, 10, 10, "", 1},
		{"exit 1", []string{"--on-doubt", "retry"}, 10, 10, "", 2},
		{"exit 1", []string{"--on-doubt", "retry", "--window", "1ns"}, 10, 10, "", 1},
		{"echo $ONCELOG_KEY $ONCELOG_EFFECT $ONCELOG_ITEM $ONCELOG_ATTEMPT", nil, 0, 0, "e/item-17 e item-17 1\n", 1},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			item, log := fmt.Sprintf("item-%d", i), filepath.Join(t.TempDir(), "runs")
			args := append(do(dir, item, c.flags...), "--", "sh", "-c", "echo run >> "+log+"; "+c.script)
			run(t, "", args...).wants(t, c.first, c.out)
			run(t, "", args...).wants(t, c.second, c.out)
			b, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(b), "run"); n != c.runs {
				t.Errorf("%s %v ran %d times, want %d", c.script, c.flags, n, c.runs)
			}
		})
	}
	t.Run("it cannot be started", func(t *testing.T) {
		r := run(t, "", append(do(dir, "none"), "--", "/no/such/command")...)
		r.wants(t, 14, "")
	})
}

func needShell(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("the guarded commands of this test are shell scripts")
	}
}

func TestInputsOfDo(t *testing.T) {
	needShell(t)
	dir := state(t)
	cat := func(stdin string) ran {
		return run(t, stdin, append(do(dir, "i", "--input", "-"), "--", "cat")...)
	}
	cat(`{"a":1,"b":2}`).wants(t, 0, `{"a":1,"b":2}`)
	cat(`{"b":2, "a":1}`).wants(t, 0, `{"a":1,"b":2}`)
	cat(`{"a":2}`).wants(t, 12, "")
	file := filepath.Join(t.TempDir(), "input")
	if err := os.WriteFile(file, []byte("from a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "", append(do(dir, "j", "--input", file), "--", "cat")...).wants(t, 0, "from a file")
	if r := run(t, "", append(do(dir, "k", "--input", file+"x"), "--", "cat")...); r.code != 2 {
		t.Errorf("an input that is not there: %+v", r)
	}
	r := run(t, "", append(do(dir, "j", "--json", "--input", file), "--", "cat")...)
	v := object(t, r.out)
	for _, field := range []string{"effect", "item", "state", "attempt", "since", "replayed", "result"} {
		if _, ok := v[field]; !ok {
			t.Errorf("no %q in %s", field, r.out)
		}
	}
	if v["replayed"] != true || v["result"] != "from a file" || v["state"] != "confirmed" {
		t.Errorf("do --json prints %s", r.out)
	}
	large := run(t, "", append(do(dir, "large", "--json"), "--", "sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x")...)
	if large.code != 0 || object(t, large.out)["state"] != "confirmed" {
		t.Errorf("a result that is too large: exit %d, %s", large.code, large.stderr)
	}
}

func TestUsage(t *testing.T) {
	dir := state(t)
	for _, args := range [][]string{
		{"bogus"}, {"ls"}, {"ls", "--dir", dir, "extra"}, {"ls", "--bogus"}, {"do", "--dir", dir},
		{"do", "--dir", dir, "--effect", "e", "--item", "i"}, {"do", "--dir", dir, "--item", "i", "--", "true"},
		{"do", "--dir", dir, "--effect", "e", "--", "true"}, {"do", "--dir", dir, "--effect", "a b", "--item", "i", "--", "true"},
		{"do", "--dir", dir, "--effect", "e", "--item", strings.Repeat("x", 1025), "--", "true"},
		do(dir, "i", "--on-doubt", "pray", "--", "true"), do(dir, "i", "--on-doubt", "check", "--", "true"),
		do(dir, "i", "--not-applied", "0", "--", "true"), do(dir, "i", "--timeout", "soon", "--", "true"),
		{"run", "--dir", dir, "--effect", "e", "--", "true"}, {"run", "--dir", dir, "--effect", "e", "--queue", "-", "-c", "0", "--", "true"},
		{"run", "--dir", dir, "--effect", "e", "--queue", "/no/such/file", "--once", "--", "true"},
		{"resolve", "--dir", dir, "e/i"}, {"resolve", "--dir", dir, "--landed", "--not-landed", "e/i"}, {"resolve", "--dir", dir, "--landed", "nokey"},
		{"forget", "--dir", dir, "e/i"}, {"show", "--dir", dir}, {"init", "--dir", dir, "--store"},
	} {
		if r := run(t, "", args...); r.code != 2 || r.out != "" || !strings.HasPrefix(r.stderr, "oncelog: ") {
			t.Errorf("%v: %+v, want exit 2 and a message", args, r)
		}
	}
	for _, c := range newRoot().Commands() {
		r := run(t, "", c.Name(), "--help")
		if r.code != 0 || !c.Hidden && !strings.Contains(r.out, "Examples:\n") && c.Name() != "completion" && c.Name() != "help" {
			t.Errorf("%s --help has no example: %+v", c.Name(), r)
		}
	}
}

func TestLedgerTrouble(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for _, args := range [][]string{{"ls"}, {"show", "e/i"}, {"stat"}, {"verify"}, {"dump"}, {"compact"}, {"drain", "--effect", "e"},
		{"resolve", "--landed", "e/i"}, {"do", "--effect", "e", "--item", "i", "--", "true"}} {
		if r := run(t, "", append(slices.Clone(args[:1]), append([]string{"--dir", none}, args[1:]...)...)...); r.code != 20 || !strings.Contains(r.stderr, "oncelog init") {
			t.Errorf("%v without a ledger: %+v", args, r)
		}
	}
	dir := state(t)
	if r := run(t, "", "init", "--dir", dir); r.code != 20 {
		t.Errorf("init twice: %+v", r)
	}
	l, err := ledger.Open(dir, ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if r := run(t, "", append(do(dir, "i", "--lock-wait", "50ms"), "--", "true")...); r.code != 20 || !strings.Contains(r.stderr, fmt.Sprint(os.Getpid())) {
		t.Errorf("another process owns it: %+v", r)
	}
	// Reading does not wait for the owner.
	key := journal.Key{Effect: "e", Item: "runs"}
	if _, err := l.Accept(t.Context(), key, ledger.Input{}); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"ls"}, {"show", "e/runs"}, {"stat"}, {"verify"}, {"dump"}} {
		if r := run(t, "", append(args, "--dir", dir, "--json")...); r.code != 0 {
			t.Errorf("%v while another process owns it: %+v", args, r)
		}
	}
	if r := run(t, "", "ls", "--dir", dir, "--json"); object(t, r.out)["state"] != "accepted" {
		t.Errorf("ls of a key in flight: %s", r.out)
	}
}

// TestKilled: kill -9 of the whole command while the guarded one runs.
func TestKilled(t *testing.T) {
	needShell(t)
	dir := state(t)
	started := filepath.Join(t.TempDir(), "started")
	c := command("", append(do(dir, "i"), "--", "sh", "-c", "echo > "+started+"; exec sleep 5")...)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(started); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it does not start")
		}
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // it was killed
	run(t, "", append(do(dir, "i"), "--", "echo", "again")...).wants(t, 10, "")
	if v := object(t, run(t, "", "ls", "--dir", dir, "--json").out); v["state"] != "in_doubt" || v["item"] != "i" {
		t.Errorf("ls: %v", v)
	}
	run(t, "", "resolve", "--dir", dir, "--not-landed", "--reason", "not there", "e/i").wants(t, 0, "e/i is released\n")
	run(t, "", append(do(dir, "i"), "--", "echo", "again")...).wants(t, 0, "again\n")
	v := object(t, run(t, "", "show", "--dir", dir, "--json", "e/i").out)
	events := v["history"].([]any)
	if len(events) != 4 || !strings.HasSuffix(events[1].(map[string]any)["note"].(string), ": not there") {
		t.Errorf("show: %v", v)
	}
	run(t, "", "forget", "--dir", dir, "--reason", "a second copy", "e/i").wants(t, 0, "e/i is absent\n")
	run(t, "", append(do(dir, "i"), "--", "echo", "second")...).wants(t, 0, "second\n")
}

// TestAmnesia: G6, once records are known to be lost an unknown key is in doubt.
func TestAmnesia(t *testing.T) {
	dir := state(t)
	run(t, "", append(do(dir, "known"), "--", "echo", "done")...).wants(t, 0, "done\n")
	run(t, "", "amnesia", "--dir", dir, "--begin", "--reason", "the backup of Tuesday").wants(t, 0, "")
	run(t, "", append(do(dir, "known"), "--", "false")...).wants(t, 0, "done\n")
	r := run(t, "", append(do(dir, "unknown"), "--", "echo", "ran")...)
	r.wants(t, 10, "")
	if !strings.Contains(r.stderr, "the backup of Tuesday") {
		t.Errorf("why is not said: %s", r.stderr)
	}
	if v := object(t, run(t, "", "stat", "--dir", dir, "--json").out); v["amnesia"] != true {
		t.Errorf("stat: %v", v)
	}
	run(t, "", append(do(dir, "checked", "--check", "exit 1"), "--", "echo", "ran")...).wants(t, 0, "ran\n")
	run(t, "", "amnesia", "--dir", dir, "--end", "--reason", "all through").wants(t, 0, "")
	run(t, "", append(do(dir, "fresh"), "--", "echo", "ran")...).wants(t, 0, "ran\n")
}

// TestTwoAtOnce: two processes with one key run the command once.
func TestTwoAtOnce(t *testing.T) {
	needShell(t)
	dir := state(t)
	log := filepath.Join(t.TempDir(), "runs")
	var calls []*exec.Cmd
	for range 4 {
		c := command("", append(do(dir, "i"), "--", "sh", "-c", "echo run >> "+log+"; sleep 0.1; echo done")...)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		calls = append(calls, c)
	}
	for _, c := range calls {
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	}
	if b, err := os.ReadFile(log); err != nil || string(b) != "run\n" {
		t.Errorf("runs: %q, %v", b, err)
	}
}

func TestRun(t *testing.T) {
	needShell(t)
	dir := state(t)
	queue := filepath.Join(t.TempDir(), "queue.jsonl")
	lines := "\xef\xbb\xbf" + `{"id":"a","input":{"n":1}}` + "\r\n" + `not json` + "\n\n" + `{"input":1}` + "\n" + `{"id":17}` + "\n" +
		`{"id":1.5}` + "\n" + `{"id":"a","input":{"n":1}}` + "\n" + strings.Repeat("x", maxLine+1) + "\n" + `{"id":"last"}`
	if err := os.WriteFile(queue, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	args := func(src string, rest ...string) []string {
		return append([]string{"run", "--dir", dir, "--effect", "e", "--queue", src, "--once"}, rest...)
	}
	echo := []string{"--", "sh", "-c", `echo "$ONCELOG_ITEM $(cat)"`}
	r := run(t, "", args(queue, echo...)...)
	r.wants(t, 2, "e/a\tconfirmed\ta {\"n\":1}\ne/17\tconfirmed\t17 \ne/last\tconfirmed\tlast \n")
	for _, where := range []string{":2:", ":4:", ":6:", ":8:"} {
		if !strings.Contains(r.stderr, queue+where) {
			t.Errorf("line %s is not reported: %s", where, r.stderr)
		}
	}
	run(t, "", args(queue, echo...)...).wants(t, 2, "")
	run(t, `{"id":"stdin"}`+"\n"+`{"id":"a","input":{"n":1}}`, args("-", echo...)...).wants(t, 0, "e/stdin\tconfirmed\tstdin \n")
	var answer atomic.Value // of the queue; "" while it is down
	answer.Store("")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answer.Load() == "" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, answer.Load())
	}))
	defer server.Close()
	if r := run(t, "", args(server.URL, echo...)...); r.code != 14 || !strings.Contains(r.stderr, "503") {
		t.Errorf("a queue that is down: %+v", r)
	}
	answer.Store(`{"id":"http"}` + "\n")
	run(t, "", args(server.URL, echo...)...).wants(t, 0, "e/http\tconfirmed\thttp \n")
	answer.Store(` [{"id":"array"}, 5, {"id":"http"}]`)
	run(t, "", args(server.URL, echo...)...).wants(t, 2, "e/array\tconfirmed\tarray \n")
	answer.Store(`[{"id":"cut"},`)
	if r := run(t, "", args(server.URL, echo...)...); r.code != 14 || !strings.Contains(r.out, "e/cut\tconfirmed") {
		t.Errorf("an answer that is cut off: %+v", r)
	}
	// With confirms and checks, and every kind of end.
	mixed := `{"id":"ok"}` + "\n" + `{"id":"doubt"}` + "\n" + `{"id":"permanent"}`
	script := []string{"--confirm", "test $ONCELOG_ITEM != ok", "--json", "--", "sh", "-c", `case $ONCELOG_ITEM in ok) echo fine;; doubt) exit 1;; *) exit 65;; esac`}
	r = run(t, mixed, args("-", script...)...)
	var states []string
	for line := range strings.Lines(r.out) {
		v := object(t, line)
		states = append(states, fmt.Sprint(v["item"], " ", v["state"]))
	}
	slices.Sort(states)
	if r.code != 10 || fmt.Sprint(states) != "[doubt in_doubt ok executed permanent failed]" {
		t.Errorf("exit %d, %v: %s", r.code, states, r.stderr)
	}
	r = run(t, "", "drain", "--dir", dir, "--effect", "e", "--confirm", "true", "--check", "exit 0", "--json")
	if v := object(t, r.out); r.code != 0 || v["landed"] != 1.0 || v["confirmed"].(float64) < 1 {
		t.Errorf("drain: %+v", r)
	}
	if r := run(t, "", "ls", "--dir", dir); r.code != 0 || r.out != "" {
		t.Errorf("ls after the drain: %+v", r)
	}
}

// TestREADME: the command on a queue of the reader's own, twice.
func TestREADME(t *testing.T) {
	needShell(t)
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	line := ""
	for l := range strings.Lines(string(readme)) {
		if strings.HasPrefix(l, "go run ./cmd/oncelog run ") {
			line = strings.TrimSpace(l)
		}
	}
	if line == "" {
		t.Fatal("the README has no run command")
	}
	dir := filepath.Join(t.TempDir(), "state")
	line = strings.Replace(strings.TrimPrefix(line, "go run ./cmd/oncelog"), "--dir state", "--dir "+dir, 1)
	for i, want := range []int{3, 0} {
		c := exec.Command("sh", "-c", fmt.Sprintf("%q %s", os.Args[0], line))
		c.Dir = "../.."
		c.Env = append(os.Environ(), asCommand+"=1")
		out, err := c.Output()
		if err != nil || strings.Count(string(out), "hello lead-") != want {
			t.Errorf("call %d: %v, %s", i+1, err, out)
		}
	}
}

func TestVerify(t *testing.T) {
	dir := state(t)
	l, err := ledger.Open(dir, ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	key := journal.Key{Effect: "e", Item: "twice"}
	step := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	step(l.Accept(t.Context(), key, ledger.Input{}))
	step(l.Doubt(key, 1, journal.TimedOut, ""))
	run2 := func() ran {
		t.Helper()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		r := run(t, "", "verify", "--dir", dir, "--json")
		var err error
		if l, err = ledger.Open(dir, ledger.Options{}); err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := run2(); r.code != 0 || object(t, r.out)["ok"] != true {
		t.Errorf("a sound ledger: %+v", r)
	}
	step(l.Release(key, 1, journal.NotLanded, "not there"))
	step(l.Accept(t.Context(), key, ledger.Input{}))
	step(l.Execute(key, 1, ledger.Outcome{Cause: journal.Run})) // it was there after all
	step(l.Execute(key, 2, ledger.Outcome{Cause: journal.Run, Settles: true}))
	if r := run2(); r.code != 15 || !strings.Contains(r.out, `"conflicts":[{"effect":"e","item":"twice"}]`) {
		t.Errorf("a conflict: %+v", r)
	}
	if r := run(t, "", "ls", "--dir", dir); !strings.Contains(r.out, "CONFLICT") {
		t.Errorf("ls of a conflict: %+v", r)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "wal", "00000000000000000001")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b[100] ^= 1
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	r := run(t, "", "verify", "--dir", dir, "--json")
	problems := object(t, r.out)["problems"].([]any)
	if r.code != 20 || len(problems) != 1 || problems[0].(map[string]any)["file"] != file {
		t.Errorf("a damaged log: %+v", r)
	}
	if r := run(t, "", append(do(dir, "new"), "--", "true")...); r.code != 20 || !strings.Contains(r.stderr, file) {
		t.Errorf("do on a damaged log: %+v", r)
	}
}

func TestDumpAndCompact(t *testing.T) {
	needShell(t)
	dir := state(t)
	for i := range 5 {
		run(t, "", append(do(dir, fmt.Sprint(i)), "--", "printf", `\377`)...).wants(t, 0, "\xff")
	}
	r := run(t, "", "dump", "--dir", dir)
	kinds := map[string]int{}
	lsn := 0.0
	for line := range strings.Lines(r.out) {
		v := object(t, line)
		kinds[v["kind"].(string)]++
		if v["lsn"].(float64) != lsn+1 {
			t.Errorf("LSN %v after %v", v["lsn"], lsn)
		}
		lsn++
		if v["kind"] == "executed" && v["result_base64"] != "/w==" {
			t.Errorf("bytes that are no text: %s", line)
		}
	}
	if kinds["accepted"] != 5 || kinds["executed"] != 5 || kinds["epoch"] != 7 {
		t.Errorf("dump has %v", kinds)
	}
	for range 3 {
		if r := run(t, "", "compact", "--dir", dir, "--json"); r.code != 0 || object(t, r.out)["entries"] != 5.0 {
			t.Errorf("compact: %+v", r)
		}
	}
	if v := object(t, run(t, "", "stat", "--dir", dir, "--json").out); v["keys"] != 5.0 || v["unsettled"] != 0.0 ||
		v["snapshot_entries"] != 5.0 || v["snapshot_deltas"] != 0.0 || v["snapshot_lsn"].(float64) < 10 || v["snapshot_bytes"].(float64) <= 0 {
		t.Errorf("stat: %v", v)
	}
	if r := run(t, "", "stat", "--dir", dir); !strings.Contains(r.out, "snapshots   a base at LSN ") {
		t.Errorf("stat says nothing of the snapshot: %s", r.out)
	}
	run(t, "", append(do(dir, "3"), "--", "false")...).wants(t, 0, "\xff")
}

func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	start := time.Now()
	r := run(t, "", "demo", "--json")
	if d := time.Since(start); d > 20*time.Second {
		t.Errorf("the demo took %v", d)
	}
	var v struct {
		Items   int
		Naive   struct{ Sent, Double int }
		Oncelog struct {
			Sent, Double, Lost int
			InDoubt            *int `json:"in_doubt"`
		}
	}
	if err := json.Unmarshal([]byte(r.out), &v); err != nil {
		t.Fatalf("%v: %+v", err, r)
	}
	if r.code != 0 || v.Items == 0 || v.Oncelog.Sent != v.Items || v.Oncelog.Double+v.Oncelog.Lost != 0 || v.Oncelog.InDoubt == nil || v.Naive.Double == 0 {
		t.Errorf("exit %d: %s", r.code, r.out)
	}
	if n := strings.Count(r.stderr, "kill -9"); n != 4 {
		t.Errorf("%d kills: %s", n, r.stderr)
	}
}

// TestRepair: a damaged ledger opens again without what is lost, and says so.
func TestRepair(t *testing.T) {
	dir := state(t)
	for _, item := range []string{"first", "second"} {
		run(t, "", append(do(dir, item), "--", "echo", item)...).wants(t, 0, item+"\n")
	}
	file := filepath.Join(dir, "wal", "00000000000000000001")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-10] ^= 1
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	repair := func(flags ...string) ran { return run(t, "", append([]string{"repair", "--dir", dir}, flags...)...) }
	for _, r := range []ran{repair(), repair("--accept-loss"), repair("--reason", "why")} {
		if r.code != 2 {
			t.Errorf("repair without the words: %+v", r)
		}
	}
	if r := run(t, "", append(do(dir, "first"), "--", "false")...); r.code != 20 {
		t.Errorf("do on a damaged ledger: %+v", r)
	}
	if r := repair("--accept-loss", "--reason", "the disk died"); r.code != 0 {
		t.Errorf("repair: %+v", r)
	}
	run(t, "", append(do(dir, "first"), "--", "false")...).wants(t, 0, "first\n")
	// Its outcome was in the block that is lost.
	run(t, "", append(do(dir, "second"), "--", "echo", "again")...).wants(t, 10, "")
	run(t, "", append(do(dir, "third"), "--", "echo", "new")...).wants(t, 10, "")
	if r := run(t, "", "verify", "--dir", dir); r.code != 0 {
		t.Errorf("verify after a repair: %+v", r)
	}
}

// TestSnapshotFlags: a run takes snapshots when it is told to.
func TestSnapshotFlags(t *testing.T) {
	dir := state(t)
	queue := filepath.Join(t.TempDir(), "queue.jsonl")
	var lines strings.Builder
	for i := range 40 {
		fmt.Fprintf(&lines, "{\"id\":\"item-%d\"}\n", i)
	}
	if err := os.WriteFile(queue, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	// Snapshots are looked for every second.
	r := run(t, "", "run", "--dir", dir, "--effect", "e", "--queue", queue, "--once", "--snapshot-records", "5", "-c", "1", "--", "sleep", "0.05")
	if r.code != 0 {
		t.Fatalf("%+v", r)
	}
	if v := object(t, run(t, "", "stat", "--dir", dir, "--json").out); v["snapshot_entries"].(float64) < 1 {
		t.Errorf("no snapshot: %v", v)
	}
	if r := run(t, "", "run", "--dir", dir, "--effect", "e", "--queue", queue, "--once", "--snapshot-interval", "-1s", "--", "true"); r.code != 2 {
		t.Errorf("a negative interval: %+v", r)
	}
}

// TestBackup backs a ledger up while a process owns it, and restores the copy.
func TestBackup(t *testing.T) {
	dir := state(t)
	to, again := filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "again")
	run(t, "", append(do(dir, "before"), "--", "echo", "done")...).wants(t, 0, "done\n")
	l, err := ledger.Open(dir, ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	v := object(t, run(t, "", "backup", "--dir", dir, "--to", to, "--json").out)
	if v["lsn"] != float64(l.Report().Log.Last+1) || v["files"] != float64(2) {
		t.Errorf("backup: %v", v)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	run(t, "", append(do(dir, "after"), "--", "echo", "done")...).wants(t, 0, "done\n")
	for _, words := range [][]string{{"backup", "--dir", dir}, {"restore", "--dir", again, "--from", to}, {"restore", "--dir", again, "--reason", "why"}} {
		if r := run(t, "", words...); r.code != 2 {
			t.Errorf("%v: %+v", words, r)
		}
	}
	for _, words := range [][]string{{"backup", "--dir", dir, "--to", dir}, {"restore", "--dir", dir, "--from", to, "--reason", "why"},
		{"restore", "--dir", again, "--from", dir, "--reason", "why"}, {"ls", "--dir", to}} {
		if r := run(t, "", words...); r.code != 20 || r.stderr == "" {
			t.Errorf("%v: %+v", words, r)
		}
	}
	if r := run(t, "", "restore", "--dir", again, "--from", to, "--reason", "disk sdb died"); r.code != 0 || !strings.HasPrefix(r.out, "restored the backup of ") {
		t.Errorf("restore: %+v", r)
	}
	run(t, "", append(do(again, "before"), "--", "false")...).wants(t, 0, "done\n")
	r := run(t, "", append(do(again, "after"), "--", "echo", "twice")...)
	r.wants(t, 10, "")
	if !strings.Contains(r.stderr, "has lost records (restored from the backup of") || !strings.Contains(r.stderr, "disk sdb died") {
		t.Errorf("opening does not explain: %s", r.stderr)
	}
}

func TestMigrate(t *testing.T) {
	dir := state(t)
	run(t, "", append(do(dir, "known"), "--", "echo", "done")...).wants(t, 0, "done\n")
	for _, store := range []string{"", "paper"} {
		if r := run(t, "", "migrate", "--dir", dir, "--store", store); r.code != 2 {
			t.Errorf("to store %q: %+v", store, r)
		}
	}
	run(t, "", "migrate", "--dir", dir, "--store", "direct").wants(t, 0, "moved 5 records from the tidwall to the direct store\n")
	run(t, "", "migrate", "--dir", dir, "--store", "direct").wants(t, 0, dir+" has the direct store already\n")
	run(t, "", append(do(dir, "known"), "--", "false")...).wants(t, 0, "done\n")
	if r := run(t, "", "verify", "--dir", dir); r.code != 0 {
		t.Errorf("verify: %+v", r)
	}
}

// TestBench: everything is measured, and nothing is left.
func TestBench(t *testing.T) {
	dir := state(t)
	before, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, "", "bench", "--dir", dir, "--time", "500ms", "--json")
	measured := map[string]bool{}
	for line := range strings.Lines(r.out) {
		v := object(t, line)
		measured[fmt.Sprint(v["callers"], " ", v["what"])] = v["records_per_second"].(float64) > 0 && v["p50_seconds"].(float64) > 0
	}
	for _, callers := range []int{1, 16, 256, 1024} {
		for _, what := range []string{"overwrite", "append", "direct", "tidwall"} {
			if name := fmt.Sprint(callers, " ", what); !measured[name] {
				t.Errorf("%s: not measured", name)
			}
		}
	}
	after, err := os.ReadDir(dir)
	if err != nil || r.code != 0 || len(after) != len(before) {
		t.Errorf("left %v: %+v, %v", after, r, err)
	}
	if r := run(t, "", "bench", "--dir", filepath.Join(dir, "nowhere")); r.code != 2 {
		t.Errorf("nowhere: %+v", r)
	}
}
