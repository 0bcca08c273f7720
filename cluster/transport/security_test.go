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

	"osqueue/cluster/plane"
	"osqueue/internal/auth/certs"
)

// securityOf returns the security of a node with a certificate for loopback.
func securityOf(t *testing.T, a *certs.Authority, dir, name string, kind certs.Kind) plane.Security {
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
	return plane.Security{
		Accept: id.Server(tls.RequireAndVerifyClientCert, certs.VerifyNode, plane.RaftProtocol, plane.PeerProtocol),
		Dial: func(ctx context.Context, conn net.Conn, address, protocol string) (net.Conn, error) {
			return id.ToNode(ctx, conn, address, protocol)
		},
		Peer: func(state tls.ConnectionState) (plane.Peer, bool) {
			s, ok := certs.PeerOf(&state)
			return plane.Peer{Name: s.Name}, ok
		},
	}
}

// listen opens a port for nodes on loopback.
func listen(t *testing.T, s plane.Security) Transport {
	t.Helper()
	port, err := plane.Listen("127.0.0.1:0", s, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	return New(port, "", hclog.NewNullLogger())
}

// TestOnlyNodesReachRaft sends a vote request as a node, as a client with a certificate, and
// without TLS.
func TestOnlyNodesReachRaft(t *testing.T) {
	dir := t.TempDir()
	a, err := certs.CreateAuthority(dir, certs.CALifetime, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	server := listen(t, securityOf(t, a, dir, "n1", certs.Node))
	defer closeTransport(t, server)
	go func() {
		for rpc := range server.Consumer() {
			rpc.Respond(&raft.RequestVoteResponse{Term: 7}, nil)
		}
	}()
	ask := func(s plane.Security, id string) error {
		t.Helper()
		client := listen(t, s)
		defer closeTransport(t, client)
		var answer raft.RequestVoteResponse
		err := client.RequestVote("n1", server.LocalAddr(), &raft.RequestVoteRequest{RPCHeader: raft.RPCHeader{ID: []byte(id)}}, &answer)
		if err == nil && answer.Term != 7 {
			t.Errorf("got the answer %+v", answer)
		}
		return err
	}
	n2 := securityOf(t, a, dir, "n2", certs.Node)
	if err := ask(n2, "n2~0badcafe"); err != nil {
		t.Errorf("a node was refused: %v", err)
	}
	for _, id := range []string{"", "n3~0badcafe", "n1", "n22~0badcafe"} {
		if err := ask(n2, id); err == nil {
			t.Errorf("n2 sent a request in the name of %q", id)
		}
	}
	if err := ask(securityOf(t, a, dir, "ci", certs.Client), "n2"); err == nil {
		t.Error("a client's certificate reached raft")
	}
	if err := ask(plane.Security{}, "n2"); err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("without TLS: %v", err)
	}
}

func closeTransport(t *testing.T, tr Transport) {
	t.Helper()
	if err := tr.(raft.WithClose).Close(); err != nil {
		t.Error(err)
	}
}
