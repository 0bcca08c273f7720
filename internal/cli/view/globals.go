package view

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

// DefaultServers are the nodes that "osqueue dev" starts.
const DefaultServers = "127.0.0.1:8080,127.0.0.1:8081,127.0.0.1:8082"

const defaultTimeout = 10 * time.Second

const timeoutHelp = "how long to try to get an answer from the cluster"

// Globals are the flags that all commands share, and the streams that they use, so that
// tests run commands without a process.
type Globals struct {
	Servers  []string
	JSON     bool
	Timeout  time.Duration
	Patience bool // --timeout was given before the command
	ack      client.Ack
	receipt  client.Receipt // of the writes of this process
	Version  string         // of this program

	In     io.Reader
	Out    io.Writer
	Err    io.Writer
	Getenv func(string) string
	// Terminal reports whether stdin is a terminal; nil examines stdin.
	Terminal func() bool
}

// NewGlobals returns globals on the process's own streams and environment.
func NewGlobals(version string) *Globals {
	return &Globals{Version: version, In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv}
}

// Bind adds the flags to a root command's persistent ones. The environment is
// read here: a flag beats it.
func (g *Globals) Bind(flags *pflag.FlagSet) {
	servers := g.Getenv("OSQUEUE_SERVERS")
	if servers == "" {
		servers = DefaultServers
	}
	flags.StringSliceVar(&g.Servers, "servers", strings.Split(servers, ","),
		"nodes of the cluster, as host:port or URL (environment: OSQUEUE_SERVERS)")
	flags.BoolVar(&g.JSON, "json", false, "write JSON, for programs")
	units.SpanVar(flags, &g.Timeout, "timeout", defaultTimeout, timeoutHelp)
	flags.Var((*units.Ack)(&g.ack), "ack", "how safe writes are when they are answered: quorum or object (default: the server's choice)")
}

// Client returns a client of the cluster that the flags name.
func (g *Globals) Client() (*client.Client, error) { return g.ClientWith(nil) }

// ClientWith returns a client like client does, with changes to its configuration.
func (g *Globals) ClientWith(change func(*client.Config)) (*client.Client, error) {
	if g.Timeout <= 0 {
		return nil, Usagef("--timeout %v: must be positive", g.Timeout)
	}
	cfg := client.Config{
		Servers:        g.Servers,
		AttemptTimeout: min(g.Timeout, client.DefaultAttemptTimeout),
		RetryFor:       g.Timeout,
		Ack:            g.ack,
		AckWait:        g.Timeout,
		UserAgent:      "osqueue-cli",
	}
	if change != nil {
		change(&cfg)
	}
	c, err := client.New(cfg)
	if err != nil {
		return nil, &UsageError{Err: fmt.Errorf("--servers: %w", err)}
	}
	return c, nil
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

// EnvPrefix begins the name of the environment variable of every flag.
const EnvPrefix = "OSQUEUE_"
