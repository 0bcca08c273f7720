// Package monitoring loads the rules and the dashboard of docs/monitoring as Prometheus does. It
// is a module of its own, so that Prometheus is in no other build list.
package monitoring

import (
	"encoding/json"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

const root = "../../.."

// sources returns the texts of the Go files that describe metrics.
func sources(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, dir := range []string{"cmd", "internal", "api", "storage", "cluster", "compat", "client/telemetry"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			data, err := os.ReadFile(path)
			all.Write(data)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}

var suffix = regexp.MustCompile(`_(bucket|sum|count)$`)

// checkQuery parses a query and checks that a program of this repository has its metrics.
func checkQuery(t *testing.T, src, where, query string) {
	t.Helper()
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	if err != nil {
		t.Errorf("%s: %v", where, err)
		return
	}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		v, ok := node.(*parser.VectorSelector)
		if !ok || v.Name == "up" {
			return nil
		}
		name, ours := strings.CutPrefix(suffix.ReplaceAllString(v.Name, ""), "osqueue_")
		short := strings.TrimPrefix(strings.TrimPrefix(name, "worker_"), "inbox_") // which their packages leave out
		if known := strings.Contains(src, `"`+name+`"`) || strings.Contains(src, `"osqueue_`+name+`"`) || strings.Contains(src, `"`+short+`"`); !ours || !known {
			t.Errorf("%s: no program has the metric %s", where, v.Name)
		}
		return nil
	})
}

// Prometheus accepts the rules, each has a severity and texts, and each metric exists.
func TestRules(t *testing.T) {
	path := filepath.Join(root, "docs/monitoring/osqueue.rules.yml")
	groups, errs := rulefmt.ParseFile(path, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	for _, err := range errs {
		t.Error(err)
	}
	src := sources(t)
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			if r.Alert != "" && (r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "") {
				t.Errorf("alert %s has no severity, summary or description", r.Alert)
			}
			checkQuery(t, src, r.Alert+r.Record, r.Expr)
		}
	}
}

// The dashboard is one that Grafana imports, and its queries are valid.
func TestDashboard(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, "docs/monitoring/osqueue-dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Title, UID    string
		SchemaVersion int
		Panels        []struct {
			ID      int
			Type    string
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	if d.Title == "" || d.UID == "" || d.SchemaVersion == 0 || len(d.Panels) < 10 {
		t.Errorf("title %q, uid %q, schema %d, %d panels", d.Title, d.UID, d.SchemaVersion, len(d.Panels))
	}
	src, seen := sources(t), map[int]bool{}
	for _, p := range d.Panels {
		if seen[p.ID] || p.Title == "" || p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %d %q is there twice, or has no title or query", p.ID, p.Title)
		}
		seen[p.ID] = true
		for _, q := range p.Targets {
			checkQuery(t, src, p.Title, strings.NewReplacer("$__rate_interval", "5m", "$type", ".*").Replace(q.Expr))
		}
	}
}
