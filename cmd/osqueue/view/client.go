package view

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"osqueue/client"
	"osqueue/client/contexts"
)

// Client returns a client of the cluster that the flags name.
func (g *Globals) Client() (*client.Client, error) { return g.ClientWith(nil) }

// ClientWith returns a client like Client does, with changes to its configuration.
func (g *Globals) ClientWith(change func(*client.Config)) (*client.Client, error) {
	cfg, err := g.config()
	if err != nil {
		return nil, err
	}
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

// config returns the configuration of a client without the keys: of the cluster that the flags name,
// or of the API of a bucket.
func (g *Globals) config() (client.Config, error) {
	if g.bucketAPI != nil {
		return client.Config{
			Servers: []string{socketURL}, Transport: handlerTransport{g.bucketAPI}, AttemptTimeout: g.Timeout, RetryFor: g.Timeout, UserAgent: "osqueue-cli",
		}, nil
	}
	w, err := g.way()
	cfg := client.Config{
		Servers:        w.servers,
		Token:          w.token,
		TLS:            w.secure,
		AttemptTimeout: min(g.Timeout, client.DefaultAttemptTimeout),
		RetryFor:       g.Timeout,
		Ack:            g.ack,
		AckWait:        g.Timeout,
		UserAgent:      "osqueue-cli",
	}
	if w.socket != nil {
		cfg.Transport = w.socket
	}
	return cfg, err
}

// way is how a command reaches the cluster.
type way struct {
	servers []string
	token   string
	secure  *tls.Config
	socket  *http.Transport // to the admin socket; nil: none is used
}

// way returns the admin socket of a node, or what flags, environment and context give.
func (g *Globals) way() (way, error) {
	socket, err := g.Socket()
	if err != nil {
		return way{}, err
	}
	if socket != "" {
		return way{servers: []string{socketURL}, socket: socketTransport(socket)}, nil
	}
	r, err := g.Resolve()
	if err != nil {
		return way{}, err
	}
	secure, err := g.tls.config(r.CA)
	return way{servers: r.Servers, token: r.Token, secure: secure}, err
}

// HTTPClient returns a client for calls that the SDK does not make. The caller closes its
// idle connections.
func (g *Globals) HTTPClient() (*http.Client, error) {
	w, err := g.way()
	if err != nil {
		return nil, err
	}
	if w.socket != nil {
		return &http.Client{Transport: w.socket}, nil
	}
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: w.secure}
	return &http.Client{Transport: &bearer{Transport: t, token: w.token}}, nil
}

// bearer sends an access token with each request, if there is one.
type bearer struct {
	*http.Transport
	token string
}

// RoundTrip implements http.RoundTripper.
func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	return b.Transport.RoundTrip(r)
}

// Resolve returns the servers, CA and token that flags, environment and context give. Without
// any servers they are those of "osqueue dev".
func (g *Globals) Resolve() (contexts.Resolved, error) {
	token, err := g.tokenOfFile()
	if err != nil {
		return contexts.Resolved{}, err
	}
	given := contexts.Given{Context: g.Context, Servers: g.Servers, CA: g.tls.ca, Token: token}
	r, err := g.Contexts().Resolve(given, g.Getenv)
	if err != nil {
		return r, &UsageError{Err: err}
	}
	if len(r.Servers) == 0 {
		r.Servers = strings.Split(DefaultServers, ",")
	}
	return r, nil
}

// GivenContext returns a context of what flags and environment give.
func (g *Globals) GivenContext() (contexts.Context, error) {
	token, err := g.tokenOfFile()
	if err != nil {
		return contexts.Context{}, err
	}
	parts := func(name string) string {
		if name == contexts.EnvContext {
			return ""
		}
		return g.Getenv(name)
	}
	r, err := contexts.Store{}.Resolve(contexts.Given{Servers: g.Servers, CA: g.tls.ca, Token: token}, parts)
	if err != nil {
		return contexts.Context{}, &UsageError{Err: err}
	}
	return r.Context, nil
}

// Contexts returns the contexts of the user.
func (g *Globals) Contexts() contexts.Store { return contexts.Of(g.Getenv) }

// tokenOfFile returns the access token of --token-file, or "".
func (g *Globals) tokenOfFile() (string, error) {
	if g.tokenIn == "" {
		return "", nil
	}
	data, err := os.ReadFile(g.tokenIn)
	if err != nil {
		return "", &UsageError{Err: fmt.Errorf("--token-file: %w", err)}
	}
	if info, err := os.Stat(g.tokenIn); err == nil && info.Mode().Perm()&0o007 != 0 {
		_, _ = fmt.Fprintf(g.Err, "warning: all users of this machine may read or replace the access token in %s: chmod 600\n", g.tokenIn)
	}
	return strings.TrimSpace(string(data)), nil
}

// Open runs fn with a client for as long as ctx lasts.
func (g *Globals) Open(ctx context.Context, fn func(context.Context, *client.Client) error) error {
	c, err := g.Client()
	if err != nil {
		return err
	}
	defer c.Close()
	return g.acked(ctx, func(ctx context.Context) error { return fn(ctx, c) })
}

// WithClient runs fn with a client and a context of at most --timeout.
func (g *Globals) WithClient(ctx context.Context, fn func(context.Context, *client.Client) error) error {
	return g.Open(ctx, func(ctx context.Context, c *client.Client) error {
		ctx, cancel := context.WithTimeout(ctx, g.Timeout)
		defer cancel()
		return fn(ctx, c)
	})
}

// Call returns the run function of a command that calls the cluster, for at most --timeout.
func (g *Globals) Call(do func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return g.WithClient(cmd.Context(), func(ctx context.Context, c *client.Client) error { return do(ctx, c, args) })
	}
}

// Each returns the run function of a command that does something to each of its arguments, to the others too
// if it fails for one. If the time of the command ends, its error names what was not done.
func (g *Globals) Each(do func(ctx context.Context, c *client.Client, name string) error) func(*cobra.Command, []string) error {
	return g.Call(func(ctx context.Context, c *client.Client, names []string) error {
		var errs []error
		for i, name := range names {
			err := do(ctx, c, name)
			if err != nil {
				errs = append(errs, err)
			}
			if rest := names[i+1:]; err != nil && ctx.Err() != nil && len(rest) > 0 {
				errs = append(errs, fmt.Errorf("not done: %s", strings.Join(rest, ", ")))
				break
			}
		}
		return errors.Join(errs...)
	})
}

// ListCommand returns the command ls, which prints all items, with row as a line of its table.
func ListCommand[T any](
	g *Globals, short, long string, columns []Column, items func(*client.Client, context.Context) iter.Seq2[T, error], row func(T, time.Time) []string,
) *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: short, Long: long,
		RunE: g.Call(func(ctx context.Context, c *client.Client, _ []string) error {
			return PrintAll(g, columns, items(c, ctx), func(item T) []string { return row(item, g.Now()) })
		}),
	}
}

// Whole returns the items of a list that the cluster sends as a whole, for ListCommand.
func Whole[T any](get func(*client.Client, context.Context) ([]T, error)) func(*client.Client, context.Context) iter.Seq2[T, error] {
	return func(c *client.Client, ctx context.Context) iter.Seq2[T, error] {
		return func(yield func(T, error) bool) {
			all, err := get(c, ctx)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range all {
				if !yield(item, nil) {
					return
				}
			}
		}
	}
}

// ShowCommand returns the command show, which gets what its argument names, and prints rows about it.
func ShowCommand[T any](g *Globals, argument, short, long string, get func(*client.Client, context.Context, string) (T, error), rows func(T) [][]string) *cobra.Command {
	return &cobra.Command{
		Use: "show " + argument, Short: short, Long: long,
		RunE: g.Call(func(ctx context.Context, c *client.Client, args []string) error {
			item, err := get(c, ctx, args[0])
			if err != nil {
				return err
			}
			return g.Details(item, rows(item))
		}),
	}
}

// tlsFlags are the flags for calling a cluster that has certificates.
type tlsFlags struct{ ca, cert, key string }

func (f *tlsFlags) bind(flags *pflag.FlagSet, getenv func(string) string) {
	flags.StringVar(&f.ca, "ca", "", "file with the certificates of the cluster's CA; servers are then called by https (environment: OSQUEUE_CA)")
	flags.StringVar(&f.cert, "cert", getenv("OSQUEUE_CERT"), "file with a client certificate (environment: OSQUEUE_CERT)")
	flags.StringVar(&f.key, "key", getenv("OSQUEUE_KEY"), "file with the private key of --cert (environment: OSQUEUE_KEY)")
}

// config returns the TLS configuration for a CA in PEM form and the client certificate of the
// flags, or nil if there is neither.
func (f *tlsFlags) config(ca string) (*tls.Config, error) {
	if ca == "" && f.cert == "" && f.key == "" {
		return nil, nil
	}
	var pem []byte
	if ca != "" {
		pem = []byte(ca)
	}
	cfg, err := client.TLSOf(pem, f.cert, f.key)
	if err != nil {
		return nil, Usagef("--ca, --cert and --key: %v", err)
	}
	return cfg, nil
}

// SocketName is the name of a node's admin socket in its data directory. Requests over it need
// no token and have the rights of an admin; only the user of the node can open it.
const SocketName = "admin.sock"

// envData is the environment variable with the data directory, of serve and of its clients.
const envData = EnvPrefix + "DATA"

// dataDirs are the data directories in which commands look for a node on this machine if nothing
// says where the cluster is: that of "serve" without --data, and that of the service.
var dataDirs = []string{"osqueue-data", "/var/lib/osqueue"}

// socketURL is the server of a client of the admin socket. Its name does not exist.
const socketURL = "http://admin.invalid:80"

// ServerName names the admin socket in a text in place of its URL, which no one has given.
func ServerName(text string) string { return strings.ReplaceAll(text, socketURL, SocketName) }

// socketRetry is how long calls of the admin socket are repeated.
const socketRetry = 2 * time.Second

// socketLook bounds the look whether a node answers at a socket.
const socketLook = time.Second

// Socket returns the admin socket that the command uses in place of servers and a token, or "".
// It is that of --data. Without flags and variables that name servers, a token or a context it is
// that of OSQUEUE_DATA; without a current context as well, that of a node which this user runs on
// this machine.
func (g *Globals) Socket() (string, error) {
	if g.data != "" {
		return g.socketOf(g.data)
	}
	if len(g.Servers) > 0 || g.Context != "" || g.tls.ca != "" || g.tls.cert != "" || g.tokenIn != "" {
		return "", nil
	}
	for _, name := range []string{contexts.EnvServers, contexts.EnvToken, contexts.EnvContext} {
		if g.Getenv(name) != "" {
			return "", nil
		}
	}
	if dir := g.Getenv(envData); dir != "" {
		return g.socketOf(dir)
	}
	if r, err := g.Contexts().Resolve(contexts.Given{}, g.Getenv); err != nil || len(r.Servers) > 0 {
		return "", nil //nolint:nilerr // Resolve reports it
	}
	for _, dir := range dataDirs {
		path := filepath.Join(dir, SocketName)
		if checkSocket(path) == nil && answers(path) {
			return path, nil
		}
	}
	return "", nil
}

func (g *Globals) socketOf(dir string) (string, error) {
	path := filepath.Join(dir, SocketName)
	if err := checkSocket(path); err != nil {
		return "", &UsageError{Err: fmt.Errorf("--data %s: %w", dir, err)}
	}
	return path, nil
}

// checkSocket returns an error for a path that is not the private socket of a node of this user,
// or, if this user is root, of any user. Another program at the path would see the requests.
func checkSocket(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("no node runs there: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s is not a socket", path)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s is open to other users (mode %o): restart the node", path, info.Mode().Perm())
	}
	if st, known := info.Sys().(*syscall.Stat_t); known && int(st.Uid) != os.Geteuid() && os.Geteuid() != 0 {
		return fmt.Errorf("%s belongs to user %d: run the command as that user, or as root", path, st.Uid)
	}
	return nil
}

// answers reports whether a process listens at a socket: that of a node that was killed remains.
func answers(path string) bool {
	conn, err := net.DialTimeout("unix", path, socketLook)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// SocketClient returns a client of the admin socket of a node. Its requests need no token.
func SocketClient(path string) (*client.Client, error) {
	return client.New(client.Config{
		Servers: []string{socketURL}, Transport: socketTransport(path), RetryFor: socketRetry, UserAgent: "osqueue-cli",
	})
}

// socketTransport sends every request to a socket.
func socketTransport(path string) *http.Transport {
	return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
}
