package e2e

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"osqueue/client"
	"osqueue/internal/auth/certs"
	"osqueue/tests/cluster"
)

// A cluster with certificates refuses plain HTTP, and the calls of nodes from others.
func TestStrangersAreRefusedByTLS(t *testing.T) {
	t.Parallel()
	c := cluster.Share(t, cluster.Options{TLS: true, Nodes: 1})
	n := c.Nodes[0]
	plain, err := http.Get("http://" + n.HTTP + "/status")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Body.Close()
	if text, err := io.ReadAll(plain.Body); plain.StatusCode != http.StatusBadRequest || !strings.Contains(string(text), "HTTPS") {
		t.Errorf("plain HTTP: %s %s (%v)", plain.Status, text, err)
	}
	secure, err := client.LoadTLS(c.CertDir()+"/"+certs.CAFile, "", "")
	if err != nil {
		t.Fatal(err)
	}
	hc := &http.Client{Transport: &http.Transport{TLSClientConfig: secure, DisableKeepAlives: true}}
	peer, err := hc.Get("https://" + n.HTTP + "/cluster/v1/identity")
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Body.Close()
	if peer.StatusCode != http.StatusNotFound {
		t.Errorf("a call of nodes: %s", peer.Status)
	}
	stranger, err := client.New(client.Config{Servers: []string{n.HTTP}, RetryFor: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	if _, err := stranger.Stats(c.Context(longPatience)); err == nil || !strings.Contains(err.Error(), "TLS") {
		t.Errorf("a client without TLS gets %v", err)
	}
}
