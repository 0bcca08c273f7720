package attack

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"osqueue/api"
	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/internal/auth/certs"
	"osqueue/tests/cluster"
)

// oneOrMore are the rights of an operation in the document.
type oneOrMore []string

func (o *oneOrMore) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*o = oneOrMore{n.Value}
		return nil
	}
	return n.Decode((*[]string)(o))
}

// operation is one of the document about the requests under /cluster/v1/.
type operation struct {
	method, path string
	rights       []string
}

func (o *operation) needs(right string) bool { return slices.Contains(o.rights, right) }

// clusterOperations returns all operations of that document.
func clusterOperations(t *testing.T) (all []operation) {
	t.Helper()
	var document struct {
		Paths map[string]map[string]struct {
			Right oneOrMore `yaml:"x-osqueue-right"`
		}
	}
	if err := yaml.Unmarshal(api.ClusterOpenAPI, &document); err != nil {
		t.Fatal(err)
	}
	for path, operations := range document.Paths {
		for method, op := range operations {
			path := strings.NewReplacer("{term}", "1", "{index}", "1").Replace(path)
			all = append(all, operation{strings.ToUpper(method), path, op.Right})
		}
	}
	if len(all) < 12 {
		t.Fatalf("%d operations", len(all))
	}
	return all
}

// TestEveryClusterRouteForEveryRole asks for every operation about the cluster as every role at the
// HTTP port, and with the certificate of a node at the port for nodes. A caller with the right gets
// past the check, to a body that is no JSON.
func TestEveryClusterRouteForEveryRole(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{TLS: true, Nodes: 1})
	file := func(name string) string { return filepath.Join(c.CertDir(), name) }
	secure, err := client.LoadTLS(file(certs.CAFile), "", "")
	if err != nil {
		t.Fatal(err)
	}
	e := &enrolling{T: t, c: c, node: c.Nodes[0], client: &http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: secure, DisableKeepAlives: true}}}
	tokens := map[string]string{"nobody": "", "admin": c.Token()}
	for _, role := range []string{"producer", "worker", "reader", "operator"} {
		var made v1.TokenCreated
		e.admin(v1.PathTokens, json.RawMessage(`{"role":"`+role+`"}`), &made)
		tokens[role] = made.Token
	}
	broken := []byte("{")
	operations := clusterOperations(t)
	for _, op := range operations {
		for role, token := range tokens {
			got, text := e.send(op.method, op.path, token, broken)
			want := "no other status"
			switch {
			case op.needs("public"), op.needs("admin") && role == "admin":
				if got == http.StatusBadRequest || got == http.StatusOK && op.method == http.MethodGet {
					continue
				}
				want = "400, or 200 of a GET"
			case op.needs("admin") && role == "nobody" && got == http.StatusUnauthorized,
				op.needs("admin") && role != "nobody" && got == http.StatusForbidden && strings.Contains(text, op.method+" "+op.path+" needs the right admin (role admin)"),
				!op.needs("admin") && got == http.StatusNotFound:
				continue
			}
			t.Errorf("%s %s, which needs %v, as %s at the HTTP port: %d %s; want %s", op.method, op.path, op.rights, role, got, text, want)
		}
	}
	pair, err := tls.LoadX509KeyPair(file("n1.crt"), file("n1.key"))
	if err != nil {
		t.Fatal(err)
	}
	secure.Certificates, secure.NextProtos = []tls.Certificate{pair}, []string{"osqueue-peer/1"}
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		return (&tls.Dialer{Config: secure}).DialContext(ctx, network, address)
	}
	node := &http.Client{Timeout: patience, Transport: &http.Transport{DialTLSContext: dial, DisableKeepAlives: true}}
	for _, op := range operations {
		r, err := http.NewRequestWithContext(t.Context(), op.method, "https://"+e.node.Raft+op.path, bytes.NewReader(broken))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+c.Token()) // it counts at the other port only
		resp, err := node.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		refused := slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound}, resp.StatusCode)
		if refused == op.needs("node") {
			t.Errorf("%s %s, which needs %v, as a node: %d", op.method, op.path, op.rights, resp.StatusCode)
		}
	}
}
