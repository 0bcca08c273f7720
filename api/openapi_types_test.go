package api

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	v1 "osqueue/client/api/v1"
)

// inspectV1 walks the source of package v1.
func inspectV1(t *testing.T, fn func(ast.Node) bool) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "client", "api", "v1", "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no source of package v1: %v", err)
	}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, fn)
	}
}

func valueOf(n *ast.ValueSpec) (string, bool) {
	if len(n.Values) != 1 {
		return "", false
	}
	lit, isLit := n.Values[0].(*ast.BasicLit)
	if !isLit || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}

func TestDocumentHasTheTags(t *testing.T) {
	d, n := readDocument(t), 0
	for name, tag := range constants(t) {
		if !strings.HasPrefix(name, "Tag") || tag == v1.TagNotDue { // that one stays inside
			continue
		}
		n++
		if !strings.Contains(d.text, "`"+tag+"`") {
			t.Errorf("the tag %s is not described", tag)
		}
	}
	if n < 10 {
		t.Errorf("only %d tags", n)
	}
}

// The values of an enumerated field are the constants of package v1.
func TestDocumentHasTheWords(t *testing.T) {
	d := readDocument(t)
	s := d.Components.Schemas
	words := constants(t)
	for prefix, enum := range map[string][]string{
		"Status":      s["JobStatus"].Enum,
		"Backoff":     s["Backoff"].Properties["kind"].Enum,
		"Unique":      s["NewJob"].Properties["uniqueScope"].Enum,
		"After":       s["NewJob"].Properties["afterFailure"].Enum,
		"Callback":    s["NewBatch"].Properties["callbackOn"].Enum,
		"Overlap":     s["NewCron"].Properties["overlap"].Enum,
		"Missed":      s["NewCron"].Properties["missed"].Enum,
		"Event":       s["Event"].Properties["kind"].Enum,
		"State":       s["Status"].Properties["state"].Enum,
		"Committed":   s["Problem"].Properties["committed"].Enum,
		"Consistency": d.Components.Parameters["Consistency"].Schema.Enum,
	} {
		var want []string
		for name, word := range words {
			rest, found := strings.CutPrefix(name, prefix)
			if found && rest != "" && rest[0] >= 'A' && rest[0] <= 'Z' && name != "StatusAll" {
				want = append(want, word)
			}
		}
		got := slices.Clone(enum)
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v in the document, %v in the code", prefix, got, want)
		}
	}
	// Items of answers have codes of the machine, and none that it does not have.
	for _, word := range s["ReportedItem"].Properties["status"].Enum {
		if !slices.Contains(slices.Collect(maps.Values(words)), word) {
			t.Errorf("%s is no word of an item", word)
		}
	}
}

// constants returns the string constants of package v1, by name.
func constants(t *testing.T) map[string]string {
	t.Helper()
	out := make(map[string]string)
	inspectV1(t, func(n ast.Node) bool {
		if spec, isValue := n.(*ast.ValueSpec); isValue {
			if literal, isText := valueOf(spec); isText {
				out[spec.Names[0].Name] = literal
			}
		}
		return true
	})
	return out
}
