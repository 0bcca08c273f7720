package regression

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"osqueue/client"
	"osqueue/internal/auth/certs"
	"osqueue/tests/cluster"
)

// The CA of a cluster is replaced while clients submit jobs: no request fails, and a node
// that starts afterwards is admitted.
func TestTheCAIsReplacedUnderLoad(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{TLS: true})
	ctx, end := context.WithCancel(c.Context(patience))
	defer end()
	var done atomic.Int64
	failed := make(chan error, 1)
	go func() {
		defer close(failed)
		for i := 0; ctx.Err() == nil; i++ {
			// The client keeps its CA file in memory, so it trusts the first CA only: its
			// connections outlive the change.
			if _, err := c.Client.Enqueue(ctx, client.NewJob{Type: "t", Payload: []byte(strconv.Itoa(i))}); err != nil && ctx.Err() == nil {
				failed <- fmt.Errorf("job %d: %w", i, err)
				return
			}
			done.Add(1)
		}
	}()
	step := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		before := done.Load()
		c.Eventually(patience, "jobs after: "+what, func() error {
			if n := done.Load() - before; n < 100 {
				return fmt.Errorf("%d jobs", n)
			}
			return nil
		})
	}
	a, err := certs.LoadAuthority(c.CertDir())
	step("load", err)
	step("rotate", a.Rotate(certs.CALifetime, time.Now()))
	c.TrustCA()
	// Nodes look at their files when they make a connection. A restart makes this certain.
	restart := func(n *cluster.Node) {
		t.Helper()
		if err := n.Stop(); err != nil {
			t.Fatal(err)
		}
		n.Start()
		c.Eventually(patience, n.Name+" to follow", func() error {
			s, err := n.Status()
			if err == nil && s.Leader == nil {
				err = fmt.Errorf("no leader")
			}
			return err
		})
	}
	follower := c.Follower()
	restart(follower)
	_, err = a.Renew(follower.Name, 0, time.Now())
	step("renew one certificate", err)
	restart(follower)
	step("restart with it", nil)
	end()
	if err, broke := <-failed; broke {
		t.Error(err)
	}
	t.Logf("%d jobs", done.Load())
}

// A cluster with certificates refuses plain HTTP, and the calls of nodes from others.
func TestStrangersAreRefusedByTLS(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{TLS: true, Nodes: 1})
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
	if _, err := stranger.Stats(c.Context(patience)); err == nil || !strings.Contains(err.Error(), "TLS") {
		t.Errorf("a client without TLS gets %v", err)
	}
}
