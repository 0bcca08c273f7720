package view

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"

	"osqueue/client"
)

// Client returns a client of the cluster that the flags name.
func (g *Globals) Client() (*client.Client, error) { return g.ClientWith(nil) }

// ClientWith returns a client like Client does, with changes to its configuration.
func (g *Globals) ClientWith(change func(*client.Config)) (*client.Client, error) {
	if g.Timeout <= 0 {
		return nil, Usagef("--timeout %v: must be positive", g.Timeout)
	}
	secure, err := g.tls.config()
	if err != nil {
		return nil, err
	}
	cfg := client.Config{
		Servers:        g.Servers,
		TLS:            secure,
		AttemptTimeout: min(g.Timeout, client.DefaultAttemptTimeout),
		RetryFor:       g.Timeout,
		Ack:            g.ack,
		AckWait:        g.Timeout,
		UserAgent:      "osqueue-cli",
	}
	token, err := g.token()
	if err != nil {
		return nil, err
	}
	cfg.Token = token
	if cfg.Cipher, err = g.keys.cipher(); err != nil {
		return nil, err
	}
	cfg.SealedOnly = g.keys.only
	if change != nil {
		change(&cfg)
	}
	c, err := client.New(cfg)
	if err != nil {
		return nil, &UsageError{Err: fmt.Errorf("--servers: %w", err)}
	}
	return c, nil
}

// HTTPClient returns a client for calls that the SDK does not make. The caller closes its
// idle connections.
func (g *Globals) HTTPClient() (*http.Client, error) {
	secure, err := g.tls.config()
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: secure}}, nil
}

// token returns the access token of --token-file, or of the environment.
func (g *Globals) token() (string, error) {
	if g.tokenIn == "" {
		return g.Token, nil
	}
	data, err := os.ReadFile(g.tokenIn)
	if err != nil {
		return "", &UsageError{Err: fmt.Errorf("--token-file: %w", err)}
	}
	return strings.TrimSpace(string(data)), nil
}

// WithClient runs fn with a client and a context of at most --timeout.
func (g *Globals) WithClient(ctx context.Context, fn func(context.Context, *client.Client) error) error {
	c, err := g.Client()
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, g.Timeout)
	defer cancel()
	return g.Acked(ctx, func(ctx context.Context) error { return fn(ctx, c) })
}
