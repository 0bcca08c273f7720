package enroll

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"osqueue/internal/auth/certs"
)

// A node takes the certificates of a new CA, asks for a certificate of it when an admin wants that,
// and then drops the previous one. A follower answers for itself.
func TestTheCAIsReplaced(t *testing.T) {
	t.Parallel()
	x := newSite(t)
	x.files.CA = filepath.Join(t.TempDir(), certs.CAFile) // not that of the operator
	copyFile(t, filepath.Join(x.dir, certs.CAFile), x.files.CA)
	id, err := certs.Load(x.files, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	x.s = New(Config{Node: x.node, Files: x.files, Identity: id, Audit: x.audit, Log: x.s.cfg.Log, Peers: x.s.cfg.Peers})
	k := &Keeper{Server: x.s, Name: "n1"}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); k.Run(ctx) }()
	defer func() { cancel(); <-done }()
	send := func(in Trust) Trusted {
		t.Helper()
		out, err := x.s.trust(ctx, httptest.NewRequest(http.MethodPost, TrustPath, nil), in)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if err := x.ca.Rotate(certs.CALifetime, time.Now()); err != nil {
		t.Fatal(err)
	}
	both, err := x.ca.Bundle(false)
	if err != nil {
		t.Fatal(err)
	}
	newest, err := x.ca.Bundle(true)
	if err != nil {
		t.Fatal(err)
	}
	before := string(read(t, x.files.CA))
	if out := send(Trust{Bundle: both, Check: true}); !out.Changed || out.Renewed || string(read(t, x.files.CA)) != before {
		t.Errorf("a check: %+v", out)
	}
	for _, changed := range []bool{true, false} {
		if out := send(Trust{Bundle: both}); out.Changed != changed || out.Renewed || out.Node != "n1" {
			t.Errorf("the new CA: %+v", out)
		}
	}
	if n := x.sign(); n != 0 {
		t.Errorf("%d requests before an admin wants them", n)
	}
	if _, err := x.s.trust(ctx, httptest.NewRequest(http.MethodPost, TrustPath, nil), Trust{Bundle: newest}); err == nil {
		t.Error("the node drops the CA of its own certificate")
	}
	deadline := time.Now().Add(20 * time.Second)
	for !send(Trust{Bundle: both, Renew: true}).Renewed {
		if time.Now().After(deadline) {
			t.Fatalf("the node has no certificate of the new CA: %+v", k.Figures())
		}
		x.sign()
		time.Sleep(20 * time.Millisecond)
	}
	if out := send(Trust{Bundle: newest}); !out.Changed || !out.Renewed {
		t.Errorf("the end of the previous CA: %+v", out)
	}
	if _, err := x.s.trust(ctx, httptest.NewRequest(http.MethodPost, TrustPath, nil), Trust{Bundle: both}); err == nil {
		t.Error("the node trusts the previous CA again")
	}
	x.node.mu.Lock()
	x.node.away = "elsewhere:1"
	x.node.mu.Unlock()
	if out := send(Trust{Bundle: newest}); out.Changed {
		t.Errorf("a follower: %+v", out)
	}
}
