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

	"go.yaml.in/yaml/v3"

	"osqueue/api/core"
	"osqueue/api/work"
	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
)

// document is the part of openapi.yaml that is compared with the code.
type document struct {
	Paths      map[string]map[string]operation
	Components struct {
		Parameters map[string]parameter
		Headers    map[string]any
		Responses  map[string]any
		Schemas    map[string]schema
		Bodies     map[string]any `yaml:"requestBodies"`
	}
	text string
	refs []string
}

type operation struct {
	OperationID string `yaml:"operationId"`
	Summary     string
	Right       oneOrMore `yaml:"x-osqueue-right"`
	Parameters  []parameter
}

type parameter struct {
	Ref    string `yaml:"$ref"`
	Name   string
	In     string
	Schema schema
}

type schema struct {
	Properties map[string]schema
	Items      *schema
	MaxItems   int `yaml:"maxItems"`
	MaxLength  int `yaml:"maxLength"`
	Maximum    float64
	Enum       []string
}

// oneOrMore is a name, or a list of names.
type oneOrMore []string

func (r *oneOrMore) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*r = oneOrMore{n.Value}
		return nil
	}
	return n.Decode((*[]string)(r))
}

func readDocument(t *testing.T) *document {
	t.Helper()
	return parseDocument(t, openAPI)
}

func parseDocument(t *testing.T, text []byte) *document {
	t.Helper()
	doc := &document{text: string(text)}
	var all yaml.Node
	for _, into := range []any{doc, &all} {
		if err := yaml.Unmarshal(text, into); err != nil {
			t.Fatal(err)
		}
	}
	doc.collectRefs(&all)
	return doc
}

func (d *document) collectRefs(n *yaml.Node) {
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 1 && n.Content[i-1].Value == "$ref" {
			d.refs = append(d.refs, c.Value)
		}
		d.collectRefs(c)
	}
}

func TestDocumentReferencesExist(t *testing.T) {
	readDocument(t).checkReferences(t)
	parseDocument(t, ClusterOpenAPI).checkReferences(t)
}

func (d *document) checkReferences(t *testing.T) {
	t.Helper()
	c := &d.Components
	known := map[string]bool{}
	for kind, names := range map[string][]string{
		"parameters": slices.Collect(maps.Keys(c.Parameters)), "headers": slices.Collect(maps.Keys(c.Headers)),
		"responses": slices.Collect(maps.Keys(c.Responses)), "schemas": slices.Collect(maps.Keys(c.Schemas)),
		"requestBodies": slices.Collect(maps.Keys(c.Bodies)),
	} {
		for _, name := range names {
			known["#/components/"+kind+"/"+name] = true
		}
	}
	used := map[string]bool{}
	for _, ref := range d.refs {
		used[ref] = true
		if !known[ref] {
			t.Errorf("%s does not exist", ref)
		}
	}
	for name := range known {
		if !used[name] {
			t.Errorf("%s is not used", name)
		}
	}
}

func TestDocumentHasTheRoutes(t *testing.T) {
	d, g := readDocument(t), newRig(t)
	served := map[string]bool{}
	for _, rt := range g.s.routes {
		served[rt.Method+" "+rt.Path] = true
		op, described := d.Paths[rt.Path][strings.ToLower(rt.Method)]
		if !described {
			t.Errorf("%s %s is not described", rt.Method, rt.Path)
			continue
		}
		if got := strings.Join(op.Right, ","); got != rt.Right.String() {
			t.Errorf("%s %s: x-osqueue-right is %q, and the route has %q", rt.Method, rt.Path, got, rt.Right)
		}
		d.checkParameters(t, &rt, op)
	}
	ids := map[string]string{}
	for path, ops := range d.Paths {
		for method, op := range ops {
			name := strings.ToUpper(method) + " " + path
			if !served[name] {
				t.Errorf("%s is described and not served", name)
			}
			if other, twice := ids[op.OperationID]; twice || op.OperationID == "" || op.Summary == "" {
				t.Errorf("%s has operationId %q (also of %q) and summary %q", name, op.OperationID, other, op.Summary)
			}
			ids[op.OperationID] = name
		}
	}
}

// checkParameters wants exactly the parameters of a route in its description.
func (d *document) checkParameters(t *testing.T, rt *core.Route, op operation) {
	t.Helper()
	want := map[string][]string{"query": slices.Clone(rt.Params), "header": headersOf(rt)}
	switch rt.At {
	case core.AnyNode, core.InMemory:
	case core.LeaderOnly:
		want["query"] = append(want["query"], core.WriteParams...)
	case core.UpToDate:
		want["query"] = append(want["query"], core.ReadParams...)
	}
	if rt.Past {
		want["query"] = append(want["query"], v1.ParamAt)
	}
	for part := range strings.SplitSeq(rt.Path, "/") {
		if name, isVariable := strings.CutPrefix(part, "{"); isVariable {
			want["path"] = append(want["path"], strings.TrimSuffix(name, "}"))
		}
	}
	got := map[string][]string{}
	for _, p := range op.Parameters {
		if p.Ref != "" {
			p = d.Components.Parameters[strings.TrimPrefix(p.Ref, "#/components/parameters/")]
		}
		got[p.In] = append(got[p.In], p.Name)
	}
	for _, in := range []string{"query", "path", "header"} {
		slices.Sort(want[in])
		slices.Sort(got[in])
		if !slices.Equal(want[in], got[in]) {
			t.Errorf("%s %s: %s parameters %v are described, %v are read", rt.Method, rt.Path, in, got[in], want[in])
		}
	}
}

// headersOf returns the headers that a route reads, except those of HTTP itself.
func headersOf(rt *core.Route) []string {
	switch {
	case rt.At == core.LeaderOnly:
		return []string{v1.HeaderIdempotencyKey, "Prefer"}
	case rt.At == core.UpToDate || rt.Path == core.PathLSNWait:
		return []string{"Prefer"}
	case rt.Path == v1.PathEvents:
		return []string{v1.HeaderLastEventID, "Prefer"}
	}
	return nil
}

// The limits that the document names are those of a server without settings.
func TestDocumentHasTheLimits(t *testing.T) {
	d, l := readDocument(t), core.DefaultLimits()
	s := d.Components.Schemas
	for what, pair := range map[string][2]int{
		"jobs of a batch":      {s["Batch"].Properties["jobs"].MaxItems, l.BatchJobs},
		"jobs of a heartbeat":  {s["HeartbeatBatch"].Properties["jobs"].MaxItems, l.BatchJobs},
		"jobs of a complete":   {s["CompleteBatch"].Properties["jobs"].MaxItems, l.BatchJobs},
		"jobs of a fail":       {s["FailBatch"].Properties["jobs"].MaxItems, l.BatchJobs},
		"jobs of a release":    {s["ReleaseBatch"].Properties["jobs"].MaxItems, l.BatchJobs},
		"jobs of a new batch":  {s["NewBatch"].Properties["jobs"].MaxItems, l.BatchJobs},
		"jobs of a change":     {s["ChangeJobs"].Properties["ids"].MaxItems, l.BatchJobs},
		"jobs to wait for":     {s["NewJob"].Properties["after"].MaxItems, l.After},
		"tags of a job":        {s["NewJob"].Properties["tags"].MaxItems, l.Tags},
		"bytes of a tag":       {s["NewJob"].Properties["tags"].Items.MaxLength, l.TagBytes},
		"bytes of a group":     {s["NewJob"].Properties["group"].MaxLength, l.NameBytes},
		"bytes of a key":       {s["NewJob"].Properties["uniqueKey"].MaxLength, l.NameBytes},
		"claims at once":       {int(s["QueueSettings"].Properties["burst"].Maximum), core.BurstMax},
		"claims a second":      {int(s["QueueSettings"].Properties["ratePerSecond"].Maximum), core.RateMax},
		"bytes of a path":      {d.Components.Parameters["JobId"].Schema.MaxLength, core.PathIDMax},
		"bytes of a write key": {d.Components.Parameters["IdempotencyKey"].Schema.MaxLength, core.KeyMax},
		"characters of an id":  {s["NewJob"].Properties["id"].MaxLength, l.IDChars},
		"bytes of a type":      {s["NewJob"].Properties["type"].MaxLength, l.NameBytes},
		"bytes of a worker":    {s["Claim"].Properties["workerId"].MaxLength, l.NameBytes},
		"types of a claim":     {s["Claim"].Properties["types"].MaxItems, l.ClaimTypes},
		"jobs of a claim":      {1000, l.ClaimJobs},
		"bytes of an error":    {8 << 10, l.ErrorBytes},
		"chunks of logs":       {s["SendLogs"].Properties["jobs"].MaxItems, l.BatchJobs},
		"bytes of a chunk":     {s["SentLog"].Properties["text"].MaxLength, work.LogTextMax},
		"plain bytes of one":   {int(s["SentLog"].Properties["bytes"].Maximum), work.LogBytesMax},
		"bytes of a log":       {s["Complete"].Properties["log"].MaxLength, fsm.LogMax},
		"bytes of each log":    {s["CompleteLease"].Properties["log"].MaxLength, fsm.LogMax},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: %d in the document, %d in the code", what, pair[0], pair[1])
		}
	}
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

// Items of answers have tags of package v1, and the parameters its values.
func TestDocumentHasTheWords(t *testing.T) {
	d := readDocument(t)
	words := slices.Collect(maps.Values(constants(t)))
	for _, enum := range [][]string{
		d.Components.Schemas["ReportedItem"].Properties["status"].Enum, d.Components.Parameters["Consistency"].Schema.Enum,
		d.Components.Parameters["Sort"].Schema.Enum, d.Components.Parameters["QueueSort"].Schema.Enum, d.Components.Parameters["Ack"].Schema.Enum,
	} {
		for _, word := range enum {
			if !slices.Contains(words, word) {
				t.Errorf("%s is no word of package v1", word)
			}
		}
	}
}

// constants returns the string constants in the source of package v1, by name.
func constants(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "client", "api", "v1", "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no source of package v1: %v", err)
	}
	out := make(map[string]string)
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if spec, isValue := n.(*ast.ValueSpec); isValue && len(spec.Values) == 1 {
				if lit, isLit := spec.Values[0].(*ast.BasicLit); isLit && lit.Kind == token.STRING {
					out[spec.Names[0].Name], _ = strconv.Unquote(lit.Value)
				}
			}
			return true
		})
	}
	return out
}
