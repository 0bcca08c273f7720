package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"sort"
	"strings"
)

// A kind is one rule of the language.
type kind int

const (
	opener     kind = iota // a doc comment turns on a pronoun such as what, who or those
	docName                // a doc comment does not start with the identifier
	word                   // a forbidden word or phrase in a comment
	identifier             // a forbidden term in an identifier
	kinds
)

// A finding is one place that breaks a rule.
type finding struct {
	pos  token.Position
	text string
}

func (f finding) String() string { return fmt.Sprintf("%s:%d: %s", f.pos.Filename, f.pos.Line, f.text) }

// figures are the counts of one package.
type figures struct {
	dir      string
	docs     int // doc comments of declarations
	count    [kinds]int
	findings []finding
}

// share returns the findings of kind k in percent of the doc comments.
func (p *figures) share(k kind) float64 {
	if p.docs == 0 {
		return 0
	}
	return 100 * float64(p.count[k]) / float64(p.docs)
}

func (p *figures) add(other *figures) {
	p.docs += other.docs
	for k := range p.count {
		p.count[k] += other.count[k]
	}
}

func (p *figures) report(k kind, pos token.Position, format string, args ...any) {
	p.count[k]++
	p.findings = append(p.findings, finding{pos, fmt.Sprintf(format, args...)})
}

// measure reads all hand-written Go files below root. It returns the packages
// sorted by folder.
func measure(root string) ([]*figures, error) {
	packages := map[string]*figures{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return skipped(path, root, d.Name())
		case !strings.HasSuffix(path, ".go"):
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(rel))
		p := packages[dir]
		if p == nil {
			p = &figures{dir: dir}
			packages[dir] = p
		}
		return p.file(path, rel)
	})
	if err != nil {
		return nil, err
	}
	var list []*figures
	for _, p := range packages {
		if p.docs > 0 || len(p.findings) > 0 {
			list = append(list, p)
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].dir < list[j].dir })
	return list, nil
}

// skipped returns fs.SkipDir for folders without code of ours.
func skipped(path, root, name string) error {
	if path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin" || name == "node_modules") {
		return fs.SkipDir
	}
	return nil
}

// file measures one file. Generated files are left out.
func (p *figures) file(path, rel string) error {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	if ast.IsGenerated(f) {
		return nil
	}
	at := func(pos token.Pos) token.Position {
		where := set.Position(pos)
		where.Filename = rel
		return where
	}
	for _, decl := range f.Decls {
		p.declaration(decl, at)
	}
	for _, group := range f.Comments {
		p.words(group, at)
	}
	p.identifiers(f, at)
	return nil
}

// declaration checks the doc comments of one top-level declaration, and of the
// specifications in it.
func (p *figures) declaration(decl ast.Decl, at func(token.Pos) token.Position) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		p.doc(d.Doc, documentedName(d.Name.Name), at)
	case *ast.GenDecl:
		if d.Tok == token.IMPORT {
			return
		}
		for _, spec := range d.Specs {
			doc, name := specDoc(spec)
			if doc == nil && len(d.Specs) == 1 {
				doc = d.Doc
			}
			p.doc(doc, name, at)
		}
		if len(d.Specs) > 1 {
			p.doc(d.Doc, "", at) // a comment of a group names no single identifier
		}
	}
}

// documentedName returns the name that the doc comment of a function starts with.
// The comment of a test describes its scenario and starts as it likes.
func documentedName(function string) string {
	for _, prefix := range []string{"Test", "Benchmark", "Fuzz", "Example"} {
		if strings.HasPrefix(function, prefix) {
			return ""
		}
	}
	return function
}

// specDoc returns the comment of one specification, and the name if it declares one.
func specDoc(spec ast.Spec) (doc *ast.CommentGroup, name string) {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		return s.Doc, s.Name.Name
	case *ast.ValueSpec:
		if len(s.Names) == 1 {
			name = s.Names[0].Name
		}
		return s.Doc, name
	}
	return nil, ""
}

// doc checks one doc comment. An empty name skips the rule that the comment starts
// with it.
func (p *figures) doc(group *ast.CommentGroup, name string, at func(token.Pos) token.Position) {
	text := strings.TrimSpace(group.Text())
	if text == "" {
		return
	}
	p.docs++
	if s := turnsOnPronoun(text); s != "" {
		p.report(opener, at(group.Pos()), "sentence turns on a pronoun: %s", s)
	}
	if name != "" && name != "_" && !startsWithName(text, name) {
		p.report(docName, at(group.Pos()), "doc comment does not start with %s: %s", name, clip(text))
	}
}

// words checks every comment for forbidden words.
func (p *figures) words(group *ast.CommentGroup, at func(token.Pos) token.Position) {
	for _, c := range group.List {
		for _, found := range forbiddenWords(c.Text) {
			p.report(word, at(c.Pos()), "forbidden word %q: %s", found, clip(c.Text))
		}
	}
}

// identifiers checks the names that the file declares.
func (p *figures) identifiers(f *ast.File, at func(token.Pos) token.Position) {
	check := func(id *ast.Ident) {
		if term := forbiddenTerm(id.Name); term != "" {
			p.report(identifier, at(id.Pos()), "forbidden term %q in identifier %s", term, id.Name)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		for _, id := range declared(n) {
			check(id)
		}
		return true
	})
}

// declared returns the identifiers that a node declares.
func declared(n ast.Node) (ids []*ast.Ident) {
	switch d := n.(type) {
	case *ast.FuncDecl:
		return []*ast.Ident{d.Name}
	case *ast.TypeSpec:
		return []*ast.Ident{d.Name}
	case *ast.ValueSpec:
		return d.Names
	case *ast.Field:
		return d.Names
	case *ast.AssignStmt:
		for _, e := range d.Lhs {
			if id, ok := e.(*ast.Ident); ok && d.Tok == token.DEFINE {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// clip shortens text to one line for a report.
func clip(text string) string {
	const most = 100
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}
