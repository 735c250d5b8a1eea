package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
)

// Rules lists every house rule.
func Rules() []Rule {
	return []Rule{
		{"floors", Floors}, {"rooms", Rooms}, {"test-only", TestOnly}, {"deciding", Deciding},
		{"kernel", Kernel}, {"unsafe", Unsafe}, {"fences", Fences},
		{"package-doc", PackageDoc}, {"file-size", FileSize}, {"names", Names},
		{"init", Init}, {"globals", Globals}, {"sleep", Sleep}, {"comment-width", CommentWidth},
	}
}

// PackageDoc checks that a package says once what it promises.
func PackageDoc(m *Module) (out []Finding) {
	for _, p := range m.Packages {
		var with []string
		product := false
		for _, f := range p.Files {
			if f.Test {
				continue
			}
			product = true
			if f.ast.Doc != nil && strings.TrimSpace(f.ast.Doc.Text()) != "" {
				with = append(with, path.Base(f.Rel))
			}
		}
		switch {
		case product && len(with) == 0:
			out = append(out, Finding{p.Rel, "has no package doc; say its promise, ownership, failure and non-goals"})
		case len(with) > 1:
			out = append(out, Finding{p.Rel, fmt.Sprintf("has package docs in %s; keep one", strings.Join(with, " and "))})
		}
	}
	return out
}

const maxLines = 800

// FileSize checks that no file has outgrown its name.
func FileSize(m *Module) (out []Finding) {
	m.files(func(_ *Package, f *File) {
		if f.Lines > maxLines {
			out = append(out, Finding{f.Rel, fmt.Sprintf("has %d lines, at most %d; split it by what it is about", f.Lines, maxLines)})
		}
	})
	return out
}

var drawers = []string{"util", "utils", "common", "helper", "helpers", "types", "misc", "shared", "base", "lib"}

// Names checks that a package is called after what it holds; a drawer is not a package.
func Names(m *Module) (out []Finding) {
	for _, p := range m.Packages {
		if last := path.Base(p.Rel); slices.Contains(drawers, last) || slices.Contains(drawers, strings.TrimSuffix(p.Name, "_test")) {
			out = append(out, Finding{p.Rel, "is named after nothing; name it after what it holds"})
		}
	}
	return out
}

// Init checks that importing a package does nothing by itself.
func Init(m *Module) (out []Finding) {
	m.files(func(_ *Package, f *File) {
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				out = append(out, f.at(f.line(fn.Pos()), "has an init function; importing must do nothing, let the caller call it"))
			}
		}
	})
	return out
}

// global functions of packages that act on hidden state, and what to do instead. "*" is every name but the excepted.
var hidden = []struct {
	pkg     string
	names   []string
	except  []string
	instead string
}{
	{"log", []string{"*"}, nil, "take a *slog.Logger in the Config"},
	{"log/slog", []string{"Default", "SetDefault", "Debug", "Info", "Warn", "Error", "Log", "DebugContext", "InfoContext", "WarnContext", "ErrorContext"}, nil, "use the *slog.Logger of the Config"},
	{"flag", []string{"*"}, []string{"FlagSet", "NewFlagSet", "ContinueOnError", "ExitOnError", "PanicOnError", "ErrHelp", "Value", "Flag"}, "use the command's own flag set"},
	{"github.com/prometheus/client_golang/prometheus", []string{"DefaultRegisterer", "DefaultGatherer", "Register", "MustRegister", "Unregister"}, nil, "take a prometheus.Registerer"},
	{"github.com/prometheus/client_golang/prometheus/promhttp", []string{"Handler"}, nil, "use promhttp.HandlerFor with the registry that was passed in"},
}

// Globals checks that nobody shares a logger, metric registry or flag set without being given it.
func Globals(m *Module) (out []Finding) {
	m.files(func(_ *Package, f *File) {
		if f.Test { // a test binary owns its process, and -update is a flag
			return
		}
		for _, h := range hidden {
			f.uses(f.ast, h.pkg, func(name string, line int) {
				if slices.Contains(h.names, name) || h.names[0] == "*" && !slices.Contains(h.except, name) {
					out = append(out, f.at(line, "uses the global %s.%s; %s", path.Base(h.pkg), name, h.instead))
				}
			})
		}
		for _, d := range f.ast.Decls {
			v, ok := d.(*ast.GenDecl)
			if !ok || v.Tok != token.VAR {
				continue
			}
			f.uses(v, "log/slog", func(name string, line int) {
				if name == "Logger" || name == "New" {
					out = append(out, f.at(line, "keeps a logger in a package variable; put it in the Config"))
				}
			})
			f.uses(v, "github.com/prometheus/client_golang/prometheus", func(name string, line int) {
				if strings.HasPrefix(name, "New") && name != "NewDesc" || name == "Registry" || name == "Registerer" {
					out = append(out, f.at(line, "keeps metrics in a package variable; make them in newMetrics(reg)"))
				}
			})
		}
	})
	return out
}

// Sleep checks that tests wait for events: one that waits for time is slow on a good day and wrong on a bad one.
func Sleep(m *Module) (out []Finding) {
	m.files(func(_ *Package, f *File) {
		if !f.Test {
			return
		}
		f.uses(f.ast, "time", func(name string, line int) {
			if name == "Sleep" {
				out = append(out, f.at(line, "sleeps; wait for the event, or use testing/synctest with a channel or timer"))
			}
		})
	})
	return out
}
