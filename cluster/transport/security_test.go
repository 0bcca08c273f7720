package transport

import (
	"context"
	"crypto/tls"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"osqueue/internal/auth/certs"
)

// securityOf returns the security of a node with a certificate for loopback.
func securityOf(t *testing.T, a *certs.Authority, dir, name string, kind certs.Kind) Security {
	t.Helper()
	r := certs.Request{Kind: kind, Name: name, Hosts: []string{"127.0.0.1"}, Lifetime: time.Hour}
	if _, err := a.Issue(r, time.Now()); err != nil {
		t.Fatal(err)
	}
	id, err := certs.Load(certs.Files{
		CA: filepath.Join(dir, certs.CAFile), Cert: filepath.Join(dir, name+".crt"), Key: filepath.Join(dir, name+".key"),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return Security{
		Accept: id.Server(tls.RequireAndVerifyClientCert, certs.VerifyNode, Protocol),
		Dial: func(ctx context.Context, conn net.Conn, address string) (net.Conn, error) {
			return id.ToNode(ctx, conn, address, Protocol)
		},
	}
}

// TestOnlyNodesReachRaft sends a vote request as a node, as a client with a certificate, and
// without TLS.
func TestOnlyNodesReachRaft(t *testing.T) {
	dir := t.TempDir()
	a, err := certs.CreateAuthority(dir, certs.CALifetime, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	server, err := Listen("127.0.0.1:0", "127.0.0.1:0", securityOf(t, a, dir, "n1", certs.Node), hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	defer closeTransport(t, server)
	go func() {
		for rpc := range server.Consumer() {
			rpc.Respond(&raft.RequestVoteResponse{Term: 7}, nil)
		}
	}()
	ask := func(s Security) error {
		t.Helper()
		client, err := Listen("127.0.0.1:0", "127.0.0.1:0", s, hclog.NewNullLogger())
		if err != nil {
			t.Fatal(err)
		}
		defer closeTransport(t, client)
		var answer raft.RequestVoteResponse
		err = client.RequestVote("n1", server.LocalAddr(), &raft.RequestVoteRequest{}, &answer)
		if err == nil && answer.Term != 7 {
			t.Errorf("got the answer %+v", answer)
		}
		return err
	}
	if err := ask(securityOf(t, a, dir, "n2", certs.Node)); err != nil {
		t.Errorf("a node was refused: %v", err)
	}
	if err := ask(securityOf(t, a, dir, "ci", certs.Client)); err == nil {
		t.Error("a client's certificate reached raft")
	}
	if err := ask(Security{}); err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("without TLS: %v", err)
	}
}

func closeTransport(t *testing.T, tr Transport) {
	t.Helper()
	if err := tr.(raft.WithClose).Close(); err != nil {
		t.Error(err)
	}
}
