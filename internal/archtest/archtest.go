// Package archtest holds the house rules as functions over a loaded module, and the test that runs them.
//
// Promise: every rule of docs/STYLE.md that a machine can check is checked here, on every file of the
// module whatever its build tags, and each rule is also run on a broken module in testdata that it must refuse.
// Ownership: a Module is read-only after Load.
// Failure: Load fails when the go tool does or a file does not parse; a rule never fails, it returns findings.
// Non-goals: formatting, vet, staticcheck and lock annotations have their own tools (see lint.mk).
//
// Run it with -count=1: the test cache cannot see what `go list` read.
package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Module is every package of one Go module, parsed.
type Module struct {
	Path     string // import path of the module
	Packages []*Package
}

// Package is one directory.
type Package struct {
	Rel   string // below the module, "." for its root
	Name  string
	Files []*File
}

// File is one Go file, test files included.
type File struct {
	Rel     string // below the module, with slashes
	Test    bool
	Lines   int
	Imports []Import

	ast  *ast.File
	fset *token.FileSet
	wide []int // lines of comment that are too wide
}

// Import is one import of a file. Local is set when it is a package of the same module.
type Import struct {
	Path  string
	Local string // below the module, "" for other modules and the standard library
	Name  string // as the file refers to it; "_" and "." as written
	Line  int
}

// Finding is one breach of a rule.
type Finding struct {
	Where string // file:line, file, or package
	Text  string // what is wrong and what to do
}

func (f Finding) String() string { return f.Where + ": " + f.Text }

// Rule is one house rule.
type Rule struct {
	Name  string
	Check func(*Module) []Finding
}

// Load lists the module at dir with one call of the go tool and parses every Go file of its packages.
func Load(dir string) (*Module, error) {
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,Name,Module", "./...")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOPROXY=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("archtest: go list in %s: %w: %s", dir, err, stderr.String())
	}
	m := &Module{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath, Dir, Name string
			Module                struct{ Path string }
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return m, nil
		} else if err != nil {
			return nil, fmt.Errorf("archtest: read go list: %w", err)
		}
		m.Path = p.Module.Path
		rel := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, m.Path), "/")
		pkg := &Package{Rel: rel, Name: p.Name}
		if rel == "" {
			pkg.Rel = "."
		}
		if err := m.parse(pkg, p.Dir); err != nil {
			return nil, err
		}
		m.Packages = append(m.Packages, pkg)
	}
}

func (m *Module) parse(pkg *Package, dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return fmt.Errorf("archtest: list %s: %w", dir, err)
	}
	for _, name := range names {
		base := filepath.Base(name)
		if base[0] == '_' || base[0] == '.' { // the go tool ignores these, and so do we
			continue
		}
		src, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("archtest: read %s: %w", name, err)
		}
		f := &File{
			Rel: strings.TrimPrefix(pkg.Rel+"/"+base, "./"), Test: strings.HasSuffix(base, "_test.go"),
			Lines: bytes.Count(src, []byte("\n")), fset: token.NewFileSet(),
		}
		if f.ast, err = parser.ParseFile(f.fset, name, src, parser.ParseComments|parser.SkipObjectResolution); err != nil {
			return fmt.Errorf("archtest: parse %s: %w", f.Rel, err)
		}
		f.wide = wideComments(f, src)
		for _, spec := range f.ast.Imports {
			f.Imports = append(f.Imports, m.importOf(f, spec))
		}
		pkg.Files = append(pkg.Files, f)
	}
	return nil
}

func (m *Module) importOf(f *File, spec *ast.ImportSpec) Import {
	path, err := strconv.Unquote(spec.Path.Value)
	if err != nil { // the parser accepted it, so this cannot happen
		path = spec.Path.Value
	}
	i := Import{Path: path, Line: f.line(spec.Pos()), Name: path[strings.LastIndexByte(path, '/')+1:]}
	if before, version, ok := strings.Cut(path, "/v"); ok && strings.Trim(version, "0123456789") == "" {
		i.Name = before[strings.LastIndexByte(before, '/')+1:] // math/rand/v2 is called rand
	}
	if spec.Name != nil {
		i.Name = spec.Name.Name
	}
	if path == m.Path {
		i.Local = "."
	} else if rel, ok := strings.CutPrefix(path, m.Path+"/"); ok {
		i.Local = rel
	}
	return i
}

func (f *File) line(p token.Pos) int { return f.fset.Position(p).Line }

func (f *File) at(line int, format string, a ...any) Finding {
	return Finding{Where: f.Rel + ":" + strconv.Itoa(line), Text: fmt.Sprintf(format, a...)}
}

// files visits every file, product and test.
func (m *Module) files(visit func(*Package, *File)) {
	for _, p := range m.Packages {
		for _, f := range p.Files {
			visit(p, f)
		}
	}
}

// imports visits every import.
func (m *Module) imports(visit func(*Package, *File, Import)) {
	m.files(func(p *Package, f *File) {
		for _, i := range f.Imports {
			visit(p, f, i)
		}
	})
}

// uses visits every pkg.Name expression below n whose pkg is the import of path.
func (f *File) uses(n ast.Node, path string, visit func(name string, line int)) {
	var local []string
	for _, i := range f.Imports {
		if i.Path == path {
			local = append(local, i.Name)
		}
	}
	if len(local) == 0 {
		return
	}
	ast.Inspect(n, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && slices.Contains(local, x.Name) {
				visit(sel.Sel.Name, f.line(sel.Pos()))
			}
		}
		return true
	})
}
