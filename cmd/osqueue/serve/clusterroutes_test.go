package serve

import (
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"osqueue/api"
	"osqueue/cluster"
	"osqueue/internal/auth/enroll"
)

// rightsIn are the rights of an operation in the document: one, or a list.
type rightsIn []string

func (r *rightsIn) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*r = rightsIn{n.Value}
		return nil
	}
	return n.Decode((*[]string)(r))
}

// The document describes every route under /cluster/v1/, with its right, and no other one.
func TestClusterDocumentHasTheRoutes(t *testing.T) {
	var document struct {
		Paths map[string]map[string]struct {
			ID      string   `yaml:"operationId"`
			Right   rightsIn `yaml:"x-osqueue-right"`
			Summary string
		}
	}
	if err := yaml.Unmarshal(api.ClusterOpenAPI, &document); err != nil {
		t.Fatal(err)
	}
	s := &server{node: new(cluster.Node), enroll: enroll.New(enroll.Config{})}
	var served []string
	for _, r := range s.clusterRoutes() {
		served = append(served, r.Pattern)
		op := document.Paths[r.Path()][strings.ToLower(r.Method())]
		if got := strings.Join(op.Right, ","); got != r.Right.String() || got == "" {
			t.Errorf("%s: x-osqueue-right is %q, and the route needs %q", r.Pattern, got, r.Right)
		}
	}
	ids := make(map[string]bool)
	for path, operations := range document.Paths {
		for method, op := range operations {
			if pattern := strings.ToUpper(method) + " " + path; !slices.Contains(served, pattern) {
				t.Errorf("%s is described and not served", pattern)
			}
			if ids[op.ID] || op.ID == "" || op.Summary == "" {
				t.Errorf("%s %s has operationId %q and summary %q", method, path, op.ID, op.Summary)
			}
			ids[op.ID] = true
		}
	}
}
