package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"osqueue/client"
	"osqueue/internal/cli/units"
)

// defaultServers are the nodes that "osqueue dev" starts.
const defaultServers = "127.0.0.1:8080,127.0.0.1:8081,127.0.0.1:8082"

const defaultTimeout = 10 * time.Second

const timeoutHelp = "how long to try to get an answer from the cluster"

// globals are the flags that all commands share, and the streams that they use, so that
// tests run commands without a process.
type globals struct {
	servers  []string
	json     bool
	timeout  time.Duration
	patience bool // --timeout was given before the command
	ack      client.Ack
	receipt  client.Receipt // of the writes of this process
	version  string         // of this program

	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	getenv func(string) string
	// terminal reports whether stdin is a terminal; nil examines stdin.
	terminal func() bool
}

// newGlobals returns globals on the process's own streams and environment.
func newGlobals(version string) *globals {
	return &globals{version: version, stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv}
}

// bind adds the flags to a root command's persistent ones. The environment is
// read here: a flag beats it.
func (g *globals) bind(flags *pflag.FlagSet) {
	servers := g.getenv("OSQUEUE_SERVERS")
	if servers == "" {
		servers = defaultServers
	}
	flags.StringSliceVar(&g.servers, "servers", strings.Split(servers, ","),
		"nodes of the cluster, as host:port or URL (environment: OSQUEUE_SERVERS)")
	flags.BoolVar(&g.json, "json", false, "write JSON, for programs")
	units.SpanVar(flags, &g.timeout, "timeout", defaultTimeout, timeoutHelp)
	flags.Var((*units.Ack)(&g.ack), "ack", "how safe writes are when they are answered: quorum or object (default: the server's choice)")
}

// client returns a client of the cluster that the flags name.
func (g *globals) client() (*client.Client, error) { return g.clientWith(nil) }

// clientWith returns a client like client does, with changes to its configuration.
func (g *globals) clientWith(change func(*client.Config)) (*client.Client, error) {
	if g.timeout <= 0 {
		return nil, usagef("--timeout %v: must be positive", g.timeout)
	}
	cfg := client.Config{
		Servers:        g.servers,
		AttemptTimeout: min(g.timeout, client.DefaultAttemptTimeout),
		RetryFor:       g.timeout,
		Ack:            g.ack,
		AckWait:        g.timeout,
		UserAgent:      "osqueue-cli",
	}
	if change != nil {
		change(&cfg)
	}
	c, err := client.New(cfg)
	if err != nil {
		return nil, &usageError{err: fmt.Errorf("--servers: %w", err)}
	}
	return c, nil
}

// withClient runs fn with a client and a context of at most --timeout.
func (g *globals) withClient(ctx context.Context, fn func(context.Context, *client.Client) error) error {
	c, err := g.client()
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	return g.acked(ctx, func(ctx context.Context) error { return fn(ctx, c) })
}

const envPrefix = "OSQUEUE_"
