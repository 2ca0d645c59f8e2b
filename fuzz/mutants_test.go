package fuzz

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A mutant is our own code with one thing broken, and the harness that must notice.
type mutant struct {
	name     string
	guards   string // the guarantee, or the rule, that it breaks
	file     string
	old, new string
	pkg, run string // of the harness
	tidwall  bool   // the harness runs over the dependency's source on a simulated disk
}

const (
	everyOp  = "^TestEveryOperation$"
	machines = "^(TestEveryOperation|TestLedgerStateMachine|TestExecutorStateMachine)$"
)

var mutants = []mutant{
	{name: "no sync (direct)", guards: "G3", file: "wal/direct.go",
		old: "if err := s.file.Datasync(); err != nil {", new: "if err := error(nil); err != nil {", pkg: "./fuzz", run: machines},
	{name: "no sync (tidwall)", guards: "G3", file: "wal/tidwall.go",
		old: "if err := s.log.Sync(); err != nil {", new: "if err := error(nil); err != nil {", pkg: "./fuzz", run: machines, tidwall: true},
	{name: "sync before the write", guards: "G3", file: "wal/log.go",
		old: "	if err := l.store.append(b.frame, b.first, b.last()); err != nil {\n		return err\n	}\n	if err := l.store.sync(); err != nil {\n		return err\n	}\n",
		new: "	if err := l.store.sync(); err != nil {\n		return err\n	}\n	if err := l.store.append(b.frame, b.first, b.last()); err != nil {\n		return err\n	}\n",
		pkg: "./fuzz", run: machines},
	{name: "granted before the marker is durable", guards: "G3", file: "ledger/write.go",
		old: "	if d.Entry, err = l.finish(key, &w); err != nil {\n		return Decision{}, err\n	}\n	d.State = l.State(&d.Entry)\n",
		new: "	d.Entry = journal.Entry{State: journal.Accepted, Attempt: max(in.Attempt, 1), FirstOf: 1, Epoch: l.epoch}\n	w.ticket.Later()\n	d.State = l.State(&d.Entry)\n",
		pkg: "./fuzz", run: machines},
	{name: "marker after the effect", guards: "G3", file: "executor/do.go",
		old: "	granted, err := x.ledger.Accept(ctx, d.key, input)\n",
		new: "	if _, err := d.e.run(ctx, callOf(d.key, entry.Attempt+1, 0), d.in); err != nil {\n		return err\n	}\n	granted, err := x.ledger.Accept(ctx, d.key, input)\n",
		pkg: "./fuzz", run: machines},
	{name: "effect before and after the marker, real processes", guards: "G3", file: "executor/do.go",
		old: "	granted, err := x.ledger.Accept(ctx, d.key, input)\n",
		new: "	if _, err := d.e.run(ctx, callOf(d.key, entry.Attempt+1, 0), d.in); err != nil {\n		return err\n	}\n	granted, err := x.ledger.Accept(ctx, d.key, input)\n",
		pkg: "./fuzz", run: "^TestKillAtRandom$"},
	{name: "no directory sync after a rotation (tidwall)", guards: "G2", file: "wal/tidwall.go",
		old: "		s.rotated = true\n		// It keeps", new: "		// It keeps",
		pkg: "./fuzz", run: machines, tidwall: true},
	{name: "no directory sync of a new segment (direct)", guards: "G2", file: "wal/direct.go",
		old: "	if err == nil {\n		err = s.fs.SyncDir(s.dir)\n	}\n", new: "", pkg: "./fuzz", run: machines},
	{name: "no sync of a parent directory", guards: "G6", file: "internal/durable/compose.go",
		old: "		if err := fsys.SyncDir(filepath.Dir(missing[i])); err != nil {", new: "		if err := error(nil); err != nil {",
		pkg: "./internal/durable", run: "."},
	{name: "no checksum on blocks", guards: "G4", file: "wal/block.go",
		old: "if sum := checksum(id, b[:h.size()]); sum != h.checksum {", new: "if sum := checksum(id, b[:h.size()]); false {",
		pkg: "./fuzz", run: "^TestRot$"},
	{name: "no chain", guards: "G4", file: "wal/scan.go",
		old: "	case h.previous != f.checksum:", new: "	case false:", pkg: "./fuzz", run: "^TestRot$"},
	{name: "watermark not heeded", guards: "G2", file: "wal/records.go",
		old: "	if m.lsn <= found.last {", new: "	if true {", pkg: "./fuzz", run: "^TestRot$"},
	{name: "corruption taken for a torn tail", guards: "G4", file: "wal/scan.go",
		old: `reason == "" && h.last() > f.last && !s`, new: `reason == "" && h.last() > f.last && false && !s`, pkg: "./fuzz", run: "^TestRot$"},
	{name: "watermark ahead", guards: "G4", file: "wal/log.go",
		old: "l.mark.set(mark{lsn: b.last()})", new: "l.mark.set(mark{lsn: b.last() + 1})", pkg: "./fuzz", run: machines},
	{name: "torn tail not cut", guards: "G2", file: "wal/tidwall.go",
		old: "return data[:s.end] }", new: "return data }", pkg: "./fuzz", run: machines, tidwall: true},
	{name: "tail not written anew", guards: "G2", file: "wal/open.go",
		old: "	if !r.Clean {", new: "	if found.tear != nil {", pkg: "./fuzz", run: machines},
	{name: "clean mark not cleared", guards: "G2", file: "wal/open.go",
		old: "mark{lsn: found.last})", new: "mark{lsn: found.last, clean: true})", pkg: "./wal", run: "Unclean|Rewr|Clean"},
	{name: "log not poisoned", guards: "G4", file: "wal/log.go",
		old: "	wake := l.finish(b, err)\n", new: "	wake := l.finish(b, err)\n	l.err = nil\n", pkg: "./fuzz", run: machines},
	{name: "sync repeated after a failure", guards: "G4", file: "wal/direct.go",
		old: "if err := s.file.Datasync(); err != nil {", new: "err := s.file.Datasync()\n	if err != nil {\n		err = s.file.Datasync()\n	}\n	if err != nil {",
		pkg: "./fuzz", run: machines},
	{name: "snapshot claims more than it holds", guards: "G2", file: "ledger/compact.go",
		old: "LSN: l.log.Durable(), Epoch", new: "LSN: l.log.Durable() + 1, Epoch", pkg: "./fuzz", run: machines},
	{name: "truncation before the snapshot's directory sync", guards: "G2", file: "internal/durable/compose.go",
		old: "		if err := fsys.SyncDir(dir); err != nil {", new: "		if err := error(nil); err != nil && dir == newpath {", pkg: "./fuzz", run: machines},
	{name: "log kept only back to the newest snapshot", guards: "G2", file: "ledger/compact.go",
		old: "return l.log.Truncate(end + 1)", new: "return l.log.Truncate(max(end, l.compaction.chain[0].Header.LSN) + 1)", pkg: "./ledger ./fuzz", run: "^(TestRot|TestOneRotten.*)$"},
	{name: "the older chain's deltas not needed", guards: "G2", file: "ledger/compact.go",
		old: "			keep[f.Path] = true\n", new: "			keep[f.Path] = f.From == 0\n", pkg: "./ledger ./fuzz", run: "^(TestRot|TestOneRotten.*)$"},
	{name: "a delta without the keys that went on", guards: "G2", file: "index/changes.go",
		old: "				ahead[string(wire)] = struct{}{}\n", new: "				continue\n", pkg: "./index", run: "Changes"},
	{name: "a delta's older entry takes the place of a newer one", guards: "G2", file: "index/changes.go",
		old: "	if e.LSN > l.entry.LSN {", new: "	if true {", pkg: "./index", run: "Merge"},
	{name: "a delta without what was let go", guards: "G2", file: "index/changes.go",
		old: "				value = (&journal.Entry{LSN: lsn}).AppendTo(nil)", new: "				continue", pkg: "./index", run: "Changes"},
	{name: "a delta that takes the place of too many", guards: "G2", file: "ledger/compact.go",
		old: "h.From = c.chain[keep-1].Header.LSN; h.From == h.LSN", new: "h.From = c.chain[len(c.chain)-1].Header.LSN; h.From == h.LSN", pkg: "./ledger ./fuzz", run: "Chain|Rotten|Cut|Follows|TestRot$|StateMachine"},
	{name: "no checksum on snapshots", guards: "G2", file: "snapshot/load.go",
		old: "if stored := le.Uint64(head[12:]); stored != checksum {", new: "if stored := le.Uint64(head[12:]); false && stored != checksum {",
		pkg: "./snapshot", run: "."},
	{name: "hashes compared, not keys", guards: "G2", file: "index/shard.go",
		old: "if rec := v.record(r); string(rec.key) == string(key) {\n				return rec.value, true, false",
		new: "if rec := v.record(r); true {\n				return rec.value, true, false", pkg: "./index", run: "."},
	{name: "owner's death not noticed", guards: "G2", file: "journal/entry.go",
		old: "if e.State == Accepted && e.Epoch < epoch {", new: "if false {", pkg: "./fuzz", run: machines},
	{name: "settled keys accepted again", guards: "G1", file: "ledger/write.go",
		old: "case (d.State == journal.Absent || d.State == journal.Released) && (in", new: "case (d.State == journal.Absent || d.State == journal.Released || d.State == journal.InDoubt) && (in",
		pkg: "./ledger", run: "."},
	{name: "an unknown error taken for not applied", guards: "G1", file: "executor/run.go",
		old: "	return x.doubt(call, cause, runErr)\n", new: "	_ = cause\n	_, err := x.ledger.Release(call.Key, call.Attempt, journal.NotApplied, runErr.Error())\n	return journal.Entry{}, errors.Join(runErr, err)\n",
		pkg: "./fuzz", run: machines},
	{name: "a panic taken for not applied", guards: "G1", file: "executor/run.go",
		old: "		entry, err = x.doubt(call, journal.Panicked, why)\n", new: "		entry, err = x.record(ctx, e, call, nil, NotApplied(why))\n",
		pkg: "./fuzz", run: machines},
	{name: "an unknown check taken for not landed", guards: "G1", file: "executor/look.go",
		old: "		return Unknown, fmt.Sprintf(\"check: %v\", err)\n", new: "		return NotLanded, fmt.Sprintf(\"check: %v\", err)\n",
		pkg: "./fuzz", run: machines},
	{name: "NotLanded believed before Settle", guards: "G1", file: "executor/look.go",
		old: "verdict == NotLanded && early > 0", new: "verdict == NotLanded && early > 0 && false", pkg: "./executor", run: "Settle"},
	{name: "window not heeded", guards: "G1", file: "executor/look.go",
		old: "return age >= 0 && age < e.window", new: "return age != 0", pkg: "./executor", run: "Window"},
	{name: "attempts beyond the limit", guards: "G1", file: "ledger/write.go",
		old: "(in.Attempt == 0 || in.Attempt == e.Attempt+1)", new: "true", pkg: "./ledger", run: "."},
	{name: "outcomes may not use the reserve", guards: "G4b", file: "wal/reserve.go",
		old: "		if left, err := r.give(); left == 0 || err != nil {\n			return err\n		}\n", new: "		return r.full(int64(n))\n",
		pkg: "./fuzz", run: "^TestFullDisk$"},
	{name: "nothing reserved for outcomes", guards: "G4b", file: "wal/reserve.go",
		old: "	if n <= 0 {\n", new: "	if true {\n", pkg: "./fuzz", run: "^TestFullDisk$"},
	{name: "duplicates pay a sync", guards: "G5", file: "executor/do.go",
		old: "if err == nil && !entry.State.Done() {", new: "if entry, err = x.ledger.Execute(key, max(entry.Attempt, 1), ledger.Outcome{}); err == nil && !entry.State.Done() {",
		pkg: "./executor", run: "."},
	{name: "a missing ledger made anew", guards: "G6", file: "ledger/format.go",
		old: "		if err == nil && len(left) > 0 {", new: "		if err == nil && len(left) > 1000 {", pkg: "./ledger", run: "NoLedger"},
	{name: "a repair that was cut off goes unnoticed", guards: "G6", file: "ledger/open.go",
		old: "if _, err := fsys.Stat(path); err == nil {\n		return fmt.Errorf(\"ledger: %s: a repair", new: "if _, err := fsys.Stat(path); err == nil && false {\n		return fmt.Errorf(\"ledger: %s: a repair", pkg: "./ledger", run: "Repair"},
	{name: "a restored ledger without an amnesia", guards: "G6", file: "ledger/restore.go",
		old: "		err = appendAndWait(log, &lost)\n", new: "		_ = lost\n", pkg: "./ledger", run: "TestBackup|TestRestore"},
	{name: "a backup that believes what an unfinished one left", guards: "G6", file: "ledger/backup.go",
		old: "	case sound && b.durable[f.SHA256]:\n", new: "	case sound && b.fs != nil:\n", pkg: "./ledger", run: "TestBackupRepeated"},
	{name: "a backup that leaves out log behind its snapshots", guards: "G6", file: "ledger/backup.go",
		old: "		if s.Last <= after {\n", new: "		if s.Last <= after+50 {\n", pkg: "./ledger", run: "TestBackup"},
	{name: "the last block torn wherever its frame is not sound", guards: "G2", file: "wal/scan.go",
		old: "off == from+n && off%sector < n\n", new: "off > 0 && n > 0\n", pkg: "./wal", run: "TestTornPrefix"},
	{name: "the outcome of a later record applied with an earlier one", guards: "G3", file: "index/stage.go",
		old: "	if l.pending == 1 {\n", new: "	if l.pending >= 1 {\n", pkg: "./index", run: "TestBook"},
	{name: "retention by wall clock", guards: "G1", file: "ledger/retain.go",
		old: "return time.Duration(l.openBefore)*time.Millisecond + time.Since(l.opened)", new: "return time.Duration(now()) * time.Millisecond",
		pkg: "./ledger", run: "Retention"},
	{name: "retention lets go of what is not settled", guards: "G2", file: "index/age.go",
		old: "|| !e.State.Settled() || e.Conflict {", new: "{", pkg: "./ledger", run: "Retention"},
	{name: "retention replayed out of order", guards: "G4", file: "recovery/replay.go",
		old: "		return r.alone(rec)\n", new: "		return r.book.Apply(rec.LSN, rec.Data)\n", pkg: "./ledger ./fuzz", run: "Retention|LedgerStateMachine"},
	{name: "amnesia forgotten", guards: "G6", file: "ledger/write.go",
		old: "return w.Amnesia && e.LSN < w.Since", new: "return w.Amnesia && e.LSN < w.Since && false", pkg: "./ledger", run: "."},
}

// TestMutants builds every mutant, by an overlay of the build, and runs the
// harness that must catch it. One that survives is a hole in the tests.
func TestMutants(t *testing.T) {
	if os.Getenv("ONCELOG_MUTANTS") == "" {
		t.Skip("takes minutes; `make mutants` runs it")
	}
	for _, m := range mutants {
		t.Run(strings.ReplaceAll(m.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			files := map[string]string{}
			if m.tidwall {
				files = tidwallOverlay(t)
			}
			text, ok := files[m.file]
			if !ok {
				text = read(t, "../"+m.file)
			}
			files[m.file] = replace(t, text, m.old, m.new)
			args := []string{"test", "-overlay", writeOverlay(t, files), "-vet=off", "-short", "-count=1", "-failfast", "-timeout", "120s", "-run", m.run}
			c := exec.Command("go", append(args, strings.Fields(m.pkg)...)...)
			c.Dir = ".."
			// That it fails is enough: nobody reads how.
			c.Env = append(os.Environ(), "ONCELOG_OVERLAID=1", "ONCELOG_MUTANTS=", "RAPID_SHRINKTIME=0s", "RAPID_NOFAILFILE=true")
			out, err := c.CombinedOutput()
			switch {
			case err == nil:
				t.Errorf("%s survives %s %s:\n%s", m.guards, m.pkg, m.run, out)
			case !strings.Contains(string(out), "--- FAIL") && !strings.Contains(string(out), "panic:"):
				t.Errorf("the harness did not run: %v\n%s", err, out)
			}
		})
	}
}
