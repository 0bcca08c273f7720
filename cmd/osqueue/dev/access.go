package dev

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/client/contexts"
	"osqueue/cmd/osqueue/view"
	"osqueue/internal/auth/certs"
)

// tokenName is the name of the token that dev makes. A later dev cluster with the same
// directory revokes it.
const tokenName = "osqueue dev" //nolint:gosec // a name, no secret

// admit makes a token on the leader, through its admin socket, and stores it for curl and in
// the context.
func (d *devCluster) admit(ctx context.Context, leader string) error {
	token, err := makeToken(ctx, filepath.Join(d.o.dir, leader, view.SocketName))
	if err != nil {
		return fmt.Errorf("make a token on %s: %w", leader, err)
	}
	if err := os.WriteFile(d.o.header(), []byte("Authorization: Bearer "+token+"\n"), 0o600); err != nil {
		return err
	}
	ca, err := os.ReadFile(d.o.cert(certs.CAFile))
	if err != nil {
		return err
	}
	made := contexts.Context{Servers: d.o.servers(), CA: string(ca), Token: token}
	if err := d.g.Contexts().Put(d.o.contextName(), made); err != nil {
		return err
	}
	d.token = token
	return nil
}

// makeToken makes a token of the role admin. It revokes those of earlier runs.
func makeToken(ctx context.Context, socket string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	c, err := view.SocketClient(socket)
	if err != nil {
		return "", err
	}
	defer c.Close()
	old, err := c.Tokens(ctx)
	if err != nil {
		return "", err
	}
	for _, t := range old {
		if t.Name != tokenName {
			continue
		}
		if err := c.RevokeToken(ctx, t.ID, 0); err != nil {
			return "", err
		}
	}
	made, err := c.CreateToken(ctx, v1.NewToken{Role: "admin", Name: tokenName})
	return made.Token, err
}

// forget removes the context, unless another cluster has replaced it.
func (d *devCluster) forget() {
	store, name := d.g.Contexts(), d.o.contextName()
	if c, err := store.Get(name); err == nil && d.token != "" && c.Token == d.token {
		_ = store.Remove(name) // a leftover names a cluster that has ended
	}
}

// admitted reports whether there is a token for the cluster, and makes it if needed. An error is
// reported once; the next leader, or the next look, may succeed.
func (d *devCluster) admitted(ctx context.Context, leader string) bool {
	if d.o.insecure || d.token != "" {
		return true
	}
	err := d.admit(ctx, leader)
	if err != nil && !d.complained {
		d.complained = true
		d.say("there is no access token yet: %v\n", err)
	}
	return err == nil
}

// makeCerts makes the CA, unless the directory has one, and the certificates of the nodes.
func (o *devOptions) makeCerts(now time.Time) error {
	if o.insecure {
		return nil
	}
	dir := filepath.Join(o.dir, certDir)
	open := func() (*certs.Authority, error) { return certs.LoadAuthority(dir) }
	if _, err := os.Stat(o.cert(certs.CAFile)); errors.Is(err, fs.ErrNotExist) {
		open = func() (*certs.Authority, error) { return certs.CreateAuthority(dir, certs.CALifetime, now) }
	}
	ca, err := open()
	if err != nil {
		return err
	}
	for i := range o.nodes {
		r := certs.Request{Kind: certs.Node, Name: o.name(i), Hosts: []string{"127.0.0.1", "localhost"}, Lifetime: certs.NodeLifetime}
		if _, err := ca.Issue(r, now); err != nil {
			return err
		}
	}
	return nil
}

// client returns a client that watches the nodes. It has no token.
func (o *devOptions) client() (*client.Client, error) {
	cfg := client.Config{Servers: o.servers(), UserAgent: "osqueue-dev"}
	if !o.insecure {
		secure, err := client.LoadTLS(o.cert(certs.CAFile), "", "")
		if err != nil {
			return nil, err
		}
		cfg.TLS = secure
	}
	return client.New(cfg)
}
