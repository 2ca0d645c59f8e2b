package tidy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/oncelog/oncelog/"

// order is the design's: imports point down this list, never up. Packages on one
// line do not import each other.
var order = [][]string{
	{"cmd/oncelog"},
	{"fuzz", "bench"},
	{"internal/demo"},
	{"executor"},
	{"fuzz/crash", "ledger/ledgertest"},
	{"ledger"},
	{"recovery"},
	{"snapshot", "index", "wal"},
	{"internal/simdisk/simos", "internal/load"},
	{"journal", "internal/durable", "internal/simdisk"},
	{"internal/tidy"},
}

// sideways are the imports within a line.
var sideways = map[string]string{"internal/simdisk": "internal/durable"}

func level(pkg string) int {
	return slices.IndexFunc(order, func(line []string) bool { return slices.Contains(line, pkg) })
}

// source is one Go file of the module.
type source struct {
	path string // from the module's root
	pkg  string
	file *ast.File
	test bool
}

func sources(t *testing.T) []source {
	t.Helper()
	root := filepath.Join("..", "..")
	var all []source
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if _, nested := os.Stat(filepath.Join(path, "go.mod")); nested == nil && path != root || d.Name() == "testdata" || d.Name() == ".git" {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		all = append(all, source{rel, rel[:strings.LastIndex(rel, "/")], f, strings.HasSuffix(rel, "_test.go")})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 50 {
		t.Fatalf("found %d source files, that cannot be all", len(all))
	}
	return all
}

func TestImportsFollowTheDesign(t *testing.T) {
	edges := 0
	for _, s := range sources(t) {
		from := level(s.pkg)
		if from < 0 {
			t.Errorf("%s: package %s is not in the order", s.path, s.pkg)
			continue
		}
		if s.test {
			continue
		}
		for _, imp := range s.file.Imports {
			path, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			pkg, ours := strings.CutPrefix(path, module)
			if !ours {
				continue
			}
			edges++
			if to := level(pkg); to <= from && sideways[s.pkg] != pkg {
				t.Errorf("%s imports %s, which is not below it", s.path, pkg)
			}
		}
	}
	if edges < 30 {
		t.Errorf("looked at %d imports, that cannot be all", edges)
	}
}

// TestJournalIsPure: the package of the transition function does no I/O.
func TestJournalIsPure(t *testing.T) {
	for _, s := range sources(t) {
		if s.pkg != "journal" || s.test {
			continue
		}
		for _, imp := range s.file.Imports {
			if slices.Contains([]string{`"os"`, `"net"`, `"time"`, `"math/rand"`, `"math/rand/v2"`}, imp.Path.Value) {
				t.Errorf("%s imports %s", s.path, imp.Path.Value)
			}
		}
	}
}

// banned are calls that only one package may make, or none.
var banned = []struct {
	pkg, names string // of the standard library
	allowed    []string
}{
	{"os", "^(Create|Rename|Remove|RemoveAll|Mkdir|MkdirAll|WriteFile|Truncate|Link|Symlink)$", []string{"internal/durable", "internal/demo", "internal/load"}},
	{"os", "^(OpenFile)$", []string{"internal/durable", "internal/demo"}},
	{"os", "^Exit$", []string{"cmd/oncelog"}},
	{"syscall", "^(Flock|Fsync|Fdatasync)$", []string{"internal/durable"}},
	{"unix", "^(Flock|Fsync|Fdatasync)$", []string{"internal/durable"}},
	{"fmt", "^Print", nil},
	{"log", ".", nil},
}

func TestBannedCalls(t *testing.T) {
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := sel.X.(*ast.Ident)
			if !ok || x.Obj != nil {
				return true
			}
			for _, b := range banned {
				if x.Name == b.pkg && regexp.MustCompile(b.names).MatchString(sel.Sel.Name) && !slices.Contains(b.allowed, s.pkg) {
					t.Errorf("%s calls %s.%s", s.path, x.Name, sel.Sel.Name)
				}
			}
			return true
		})
	}
}

// TestPackagesStateTheirInvariants: every package has a doc.go, or for the command
// a main.go, whose comment has a section of invariants.
func TestPackagesStateTheirInvariants(t *testing.T) {
	states := map[string]bool{}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		states[s.pkg] = states[s.pkg] || s.file.Doc != nil && strings.Contains(s.file.Doc.Text(), "# Invariants")
	}
	for pkg, ok := range states {
		if !ok {
			t.Errorf("package %s states no invariants", pkg)
		}
	}
}

// TestExportedNamesAreDocumented, methods of exported types included, but for the
// two that every error has.
func TestExportedNamesAreDocumented(t *testing.T) {
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		for _, decl := range s.file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				errorMethod := d.Recv != nil && (d.Name.Name == "Error" || d.Name.Name == "Unwrap")
				if d.Name.IsExported() && exportedReceiver(d) && d.Doc == nil && !errorMethod {
					t.Errorf("%s: %s has no comment", s.path, d.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					undocumented(t, s, d, spec)
				}
			}
		}
	}
}

func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	typ := d.Recv.List[0].Type
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.IndexListExpr:
			typ = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return true
		}
	}
}

func undocumented(t *testing.T, s source, d *ast.GenDecl, spec ast.Spec) {
	switch x := spec.(type) {
	case *ast.TypeSpec:
		if x.Name.IsExported() && d.Doc == nil && x.Doc == nil {
			t.Errorf("%s: type %s has no comment", s.path, x.Name.Name)
		}
	case *ast.ValueSpec:
		for _, name := range x.Names {
			if name.IsExported() && d.Doc == nil && x.Doc == nil && x.Comment == nil {
				t.Errorf("%s: %s has no comment", s.path, name.Name)
			}
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)#]+)`)

// TestLinksOfTheDocsLead: every relative link of a document names a file.
func TestLinksOfTheDocsLead(t *testing.T) {
	docs, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	links := 0
	for _, doc := range append(docs, "../../README.md") {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			links++
			if _, err := os.Stat(filepath.Join(filepath.Dir(doc), m[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", doc, m[1])
			}
		}
	}
	if links == 0 {
		t.Error("found no links")
	}
}
