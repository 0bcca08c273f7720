package view

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"time"

	"github.com/spf13/pflag"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/client/seal"
	"osqueue/internal/web"
)

// DefaultServers are the nodes that "osqueue dev" starts.
const DefaultServers = "127.0.0.1:8080,127.0.0.1:8081,127.0.0.1:8082"

const defaultTimeout = 10 * time.Second

// Globals are the flags that all commands share, and the streams that they use, so that
// tests run commands without a process.
type Globals struct {
	Servers []string // of --servers; none: of the environment or the context
	data    string   // of --data: the data directory of a node on this machine
	Context string   // of --context; "": of the environment, or the current one
	JSON    bool     // output for programs: --json
	format  string
	Timeout time.Duration
	ack     client.Ack
	receipt client.Receipt // of the writes of this process
	Version string         // of this program
	tls     tlsFlags
	tokenIn string // file with the token
	keys    keyFlags
	at      time.Time // of --at; zero: the present

	// WithBucket calls run with the read-only API of the queue in a bucket; at is an earlier state.
	WithBucket func(ctx context.Context, g *Globals, bucket string, at Moment, timeout time.Duration, run func(context.Context, http.Handler) error) error
	bucketAPI  http.Handler // of --bucket; nil: the command asks a cluster

	In     io.Reader
	Out    io.Writer
	Err    io.Writer
	Getenv func(string) string
	// Network is that of a node.
	Network web.Network
	// Terminal reports whether stdin is a terminal; nil examines stdin.
	Terminal func() bool
	// Screen returns the size of the terminal that stdout is, and whether it is one; nil
	// examines stdout.
	Screen func() (columns, rows int, ok bool)
}

// NewGlobals returns globals on the process's own streams and environment.
func NewGlobals(version string) *Globals {
	return &Globals{Version: version, In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv}
}

// Bind adds the flags to a root command's persistent ones. A flag beats the environment,
// which beats the context.
func (g *Globals) Bind(flags *pflag.FlagSet) {
	flags.StringSliceVar(&g.Servers, "servers", nil,
		"nodes of the cluster, as host:port or URL (environment: OSQUEUE_SERVERS; default: those of the context, else "+DefaultServers+")")
	flags.StringVar(&g.Context, "context", "", "context with servers, CA and token, see osqueue context (environment: OSQUEUE_CONTEXT; default: the current one)")
	flags.StringVar(&g.data, "data", "", "data directory of a node on this machine: the command uses its admin socket in place of servers and a token (environment: OSQUEUE_DATA)")
	g.tls.bind(flags, g.Getenv)
	flags.StringVar(&g.tokenIn, "token-file", "", "file with the access token (default: the environment variable OSQUEUE_TOKEN, else the context's)")
	g.keys.bind(flags, g.Getenv)
	g.format = formatTable
	flags.VarP(Value(&g.format, "format", g.parseFormat, func(f string) string { return f }), "output", "o",
		"output format: table (on a terminal at most as wide as it), wide (all columns) or json (a line for each item)")
	flags.BoolVar(&g.JSON, "json", false, "the same as --output json")
	PositiveVar(flags, &g.Timeout, "timeout", defaultTimeout, "maximum time for an answer of the cluster")
	flags.Var(Choice((*string)(&g.ack), v1.AckQuorum, v1.AckObject), "ack", "ack level of writes: quorum or object (default: the server's)")
}

// EnvPrefix begins the name of the environment variable of every flag.
const EnvPrefix = "OSQUEUE_"

// keyFlags are the flags for encrypted payloads.
type keyFlags struct {
	file string
	only bool
	ring *seal.Ring // of file, once it is read
}

func (f *keyFlags) bind(flags *pflag.FlagSet, getenv func(string) string) {
	flags.StringVar(&f.file, "keys", getenv("OSQUEUE_KEYS"),
		"key ring that encrypts payloads, results, errors and logs, and decrypts them (osqueue key; environment: OSQUEUE_KEYS)")
	flags.BoolVar(&f.only, "sealed-only", getenv("OSQUEUE_SEALED_ONLY") == "true",
		"refuse payloads and results that are not encrypted (environment: OSQUEUE_SEALED_ONLY=true)")
}

// cipher returns the key ring of the flags, or nil.
func (f *keyFlags) cipher() (client.Cipher, error) {
	switch {
	case f.file == "" && f.only:
		return nil, Usagef("--sealed-only: give the key ring with --keys")
	case f.file == "":
		return nil, nil
	case f.ring != nil:
		return f.ring, nil
	}
	ring, err := seal.OpenRing(f.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, Usagef("--keys: %w; osqueue key create makes one", err)
	}
	if err != nil {
		return nil, Usagef("--keys: %w", err)
	}
	f.ring = ring
	return ring, nil
}

// Cipher returns the key ring of --keys, or nil.
func (g *Globals) Cipher() (client.Cipher, error) { return g.keys.cipher() }

// KeyFile returns the path of --keys, or "".
func (g *Globals) KeyFile() string { return g.keys.file }

// MaxBatchBytes returns the size of the jobs that the command line puts into one batch. It
// leaves space for the request around them, and for the growth of encrypted payloads.
func (g *Globals) MaxBatchBytes() int {
	const most = client.MaxBatchBytes - 4096
	if g.keys.file != "" {
		return most * 7 / 10 // of base64
	}
	return most
}
