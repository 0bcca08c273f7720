package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/internal/auth/certs"
	"osqueue/tests/cluster"
)

// standbyTimes are broker times that make a takeover quick, also if the leader has not noticed
// the standby.
var standbyTimes = []string{"--broker-timeout", "3s", "--broker-heartbeat", "500ms", "--max-flush-lag", "5s"}

// fenceOf returns the fence of a cluster's only node.
func fenceOf(c *cluster.Cluster, want string) func() error {
	return func() error {
		s, err := c.Nodes[0].Status()
		if err == nil && s.Fence.State != want {
			err = fmt.Errorf("it is %s: %s", s.Fence.State, s.Fence.Reason)
		}
		return err
	}
}

// B2: a cluster is cut off from the bucket, continues to answer, and loses the document to
// another one. When it adopts the document, it still has all writes that it has answered.
func TestFencedClusterKeepsWhatItAnswered(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, nowhere, cut, heal := mountOf(t, dir)
	if err := os.Remove(nowhere); err != nil {
		t.Fatal(err)
	}
	a := cluster.Start(t, cluster.Options{Nodes: 1, Prefix: "a", Bucket: "file://" + path, Flags: standbyTimes})
	ids := fill(t, a, 4, 10)
	cut()
	for i := range 26 {
		e, err := a.Client.Enqueue(a.Context(patience), client.NewJob{ID: fmt.Sprintf("answered-%d", i), Type: "t"})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, e.JobID)
	}
	b := cluster.Start(t, cluster.Options{Nodes: 1, Prefix: "b", Bucket: "file://" + dir, Flags: standbyTimes})
	e, err := b.Client.Enqueue(client.WithAck(b.Context(patience), client.AckObject), client.NewJob{ID: "of-the-other", Type: "t"})
	if err != nil {
		t.Fatal(err)
	}
	ids = append(ids, e.JobID)
	heal()
	a.Eventually(patience, "the first cluster to be a standby", fenceOf(a, "standby"))
	b.StopAll()
	a.WaitLeader()
	mustHave(t, a, ids)
	s, err := a.Nodes[0].Status()
	if err != nil {
		t.Fatal(err)
	}
	if s.Carried == nil || s.Carried.Jobs != 26 || s.Carried.Kept != 0 {
		t.Errorf("status: %+v", s.Carried)
	}
	t.Logf("%d of %d answered jobs are there", len(ids), len(ids))
}

// B4: a leader that is cut off from the bucket, and knows of a standby, has stopped answering
// when the standby takes over: no client gets an answer from both. Its path leads to nothing, or to the
// empty directory below a mount point.
func TestCutOffLeaderRefusesForAStandby(t *testing.T) {
	t.Parallel()
	flags := append([]string{"--standby-interval", "500ms"}, standbyTimes...)
	for _, bareStays := range []bool{false, true} {
		t.Run(fmt.Sprint("empty directory=", bareStays), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path, bare, cut, heal := mountOf(t, dir)
			a := cluster.Start(t, cluster.Options{Nodes: 1, Prefix: "a", Bucket: "file://" + path, Flags: flags})
			b := cluster.New(t, cluster.Options{Nodes: 1, Prefix: "b", Bucket: "file://" + dir, Flags: flags})
			b.Nodes[0].Start()
			a.Eventually(patience, "the leader to know of the standby", func() error {
				s, err := a.Nodes[0].Status()
				if err == nil && s.Standby == "" {
					err = errors.New("it knows of none")
				}
				return err
			})
			ids := fill(t, a, 4, 10)
			if !bareStays {
				if err := os.Remove(bare); err != nil {
					t.Fatal(err)
				}
			}
			cut()
			b.WaitLeader()
			if e, err := a.Client.Enqueue(a.Context(patience/4), client.NewJob{ID: "twice", Type: "t"}); err == nil {
				t.Errorf("the first cluster answers %+v after the takeover", e)
			}
			if bareStays {
				isEmpty(t, bare)
			} else {
				a.Eventually(patience, "the reason in the status", func() error {
					s, err := a.Nodes[0].Status()
					if err == nil && s.Refusing == "" {
						err = errors.New("it has none")
					}
					return err
				})
			}
			mustHave(t, b, ids)
			heal()
			a.Eventually(patience, "the first cluster to be a standby", fenceOf(a, "standby"))
		})
	}
}

// No node of a cluster that stands by is ready, on the port of the API and on that for legacy
// clients, and each says why. A token that such a cluster cannot know yet is not called invalid:
// the client tries again, and the token counts as soon as the cluster is active.
func TestStandbyClusterIsNotReady(t *testing.T) {
	t.Parallel()
	a := cluster.Start(t, cluster.Options{Nodes: 1, Prefix: "a", Flags: standbyTimes})
	b := cluster.New(t, cluster.Options{Prefix: "b", Bucket: a.Bucket(), Flags: standbyTimes, TLS: true, Legacy: true})
	for _, n := range b.Nodes {
		n.Start()
	}
	secure, err := client.LoadTLS(filepath.Join(b.CertDir(), certs.CAFile), "", "")
	if err != nil {
		t.Fatal(err)
	}
	var leader *cluster.Node
	b.Eventually(patience, "a standby", func() (err error) {
		leader, err = standbyOf(b)
		return err
	})
	for _, n := range b.Nodes {
		who := n.Name
		if n == leader {
			who += ", the standby"
		}
		b.Eventually(patience, who+" to say why it is not ready", func() error {
			ready := b.Client.Ready(b.Context(patience), n.HTTP)
			if err := refusal(ready, v1.TagNoLeader, "another broker, which is alive"); err != nil {
				return err
			}
			status, body := getPlain(t, "http://"+n.Legacy+v1.PathReadyz)
			if status != http.StatusServiceUnavailable || !strings.Contains(body, "another broker, which is alive") {
				return fmt.Errorf("the port for legacy clients: %d %s", status, body)
			}
			return nil
		})
		one, err := client.New(client.Config{Servers: []string{n.HTTP}, TLS: secure, Token: b.Token(), RetryFor: -1})
		if err != nil {
			t.Fatal(err)
		}
		_, err = one.Stats(b.Context(patience))
		one.Close()
		if err := refusal(err, v1.TagNoLeader, ""); err != nil {
			t.Errorf("%s is asked with a token: %v", who, err)
		}
	}
	a.StopAll()
	b.WaitLeader()
	for _, n := range b.Nodes {
		b.Eventually(patience, n.Name+" to be ready", func() error { return b.Client.Ready(b.Context(patience), n.HTTP) })
	}
	b.Eventually(patience, "the token to count", func() error {
		_, err := b.Client.Stats(b.Context(patience))
		return err
	})
}

// standbyOf returns the node that raft elected in a cluster that stands by.
func standbyOf(c *cluster.Cluster) (*cluster.Node, error) {
	var states []string
	for _, n := range c.Nodes {
		s, err := n.Status()
		if err == nil && s.Fence.State == "standby" {
			return n, nil
		}
		states = append(states, fmt.Sprint(n.Name, " ", s.Fence.State, " ", err))
	}
	return nil, errors.New(strings.Join(states, "; "))
}

// refusal returns an error unless err is a refusal with that tag and text.
func refusal(err error, tag, text string) error {
	var refused *client.Error
	if !errors.As(err, &refused) || refused.Status != http.StatusServiceUnavailable || refused.Tag != tag || !strings.Contains(refused.Message, text) {
		return fmt.Errorf("answered %w; want %s and %q", err, tag, text)
	}
	return nil
}

// getPlain returns the status and the body of a page.
func getPlain(t *testing.T, url string) (status int, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	hc := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := hc.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(text)
}

// A cluster that was active, and stands by again, lacks the tokens that the active one has made
// since. It does not call them invalid: clients try again, or use the other cluster.
func TestTokensWhileAClusterStandsBy(t *testing.T) {
	t.Parallel()
	a := cluster.Start(t, cluster.Options{Prefix: "a", Flags: standbyTimes, TLS: true})
	if _, err := a.Client.Enqueue(client.WithAck(a.Context(patience), client.AckObject), client.NewJob{Type: "t"}); err != nil {
		t.Fatal(err)
	}
	b := cluster.New(t, cluster.Options{Nodes: 1, Prefix: "b", Bucket: a.Bucket(), Flags: standbyTimes, TLS: true})
	a.StopAll()
	b.Nodes[0].Start()
	b.WaitLeader()
	made := clientOf(t, b, b.Nodes[0], a.Token())
	var token v1.TokenCreated
	b.Eventually(patience, "a token of the other cluster", func() (err error) {
		token, err = made.CreateToken(client.WithAck(b.Context(patience), client.AckObject), v1.NewToken{Role: "reader"})
		return err
	})
	for _, n := range a.Nodes {
		n.Start()
	}
	a.Eventually(patience, "a standby", func() error {
		_, err := standbyOf(a)
		return err
	})
	for _, n := range a.Nodes {
		a.Eventually(patience, n.Name+" to serve", func() error {
			_, err := n.Status()
			return err
		})
		_, err := clientOf(t, a, n, token.Token).Stats(a.Context(patience))
		if err := refusal(err, v1.TagNoLeader, ""); err != nil {
			t.Errorf("%s is asked with the new token: %v", n.Name, err)
		}
	}
}

// clientOf returns a client of one node, which does not repeat requests.
func clientOf(t *testing.T, c *cluster.Cluster, n *cluster.Node, token string) *client.Client {
	t.Helper()
	secure, err := client.LoadTLS(filepath.Join(c.CertDir(), certs.CAFile), "", "")
	if err != nil {
		t.Fatal(err)
	}
	one, err := client.New(client.Config{Servers: []string{n.HTTP}, TLS: secure, Token: token, RetryFor: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(one.Close)
	return one
}
