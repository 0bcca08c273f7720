package main

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// references returns the references between the files of the package in dir, each with the
// names that it uses. Test files and generated files do not count.
func references(dir string) (map[ref]map[string]bool, error) {
	fset := token.NewFileSet()
	files, err := parse(fset, dir)
	if err != nil {
		return nil, err
	}
	exports, err := exportData(dir)
	if err != nil {
		return nil, err
	}
	open := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	cfg := types.Config{
		Importer: importer.ForCompiler(fset, "gc", open),
		Error:    func(error) {}, // names of generated files are missing
	}
	pkg, _ := cfg.Check(dir, fset, files, info)
	file := func(p token.Pos) string { return filepath.Base(fset.Position(p).Filename) }
	refs := make(map[ref]map[string]bool)
	for id, used := range info.Uses {
		if used.Pkg() != pkg || !used.Pos().IsValid() {
			continue
		}
		r := ref{file(id.Pos()), file(origin(used).Pos())}
		if r.from == r.to {
			continue
		}
		if refs[r] == nil {
			refs[r] = make(map[string]bool)
		}
		refs[r][used.Name()] = true
	}
	return refs, nil
}

// origin returns the generic object of which o is an instance, or o.
func origin(o types.Object) types.Object {
	switch v := o.(type) {
	case *types.Var:
		return v.Origin()
	case *types.Func:
		return v.Origin()
	default:
		return o
	}
}

func parse(fset *token.FileSet, dir string) ([]*ast.File, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		if !ast.IsGenerated(f) {
			files = append(files, f)
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no Go files")
	}
	return files, nil
}

// exportData returns the file with the types of each package that the one in dir imports.
func exportData(dir string) (map[string]string, error) {
	list := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", ".")
	list.Dir, list.Stderr = dir, os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	exports := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		if path, file, found := strings.Cut(strings.TrimSpace(line), " "); found {
			exports[path] = file
		}
	}
	return exports, nil
}
