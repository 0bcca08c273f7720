package dev

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"osqueue/client/contexts"
	"osqueue/cmd/osqueue/view"
	"osqueue/internal/auth/certs"
	"osqueue/storage/bucketurl"
)

// newDevCommand returns the command dev. checkServe checks flags for the nodes as serve
// does.
func newDevCommand(g *view.Globals, checkServe func(g *view.Globals, flags []string) error) *cobra.Command {
	var o devOptions
	cmd := &cobra.Command{
		Use:   "dev [-- SERVE-FLAGS]",
		Short: "Run a three-node cluster on this machine, to try things out",
		Long: `Runs a cluster of three node processes on loopback, with a directory as its bucket.
Ctrl-C stops all of them. You can kill a node to watch a failover; dev starts it again
after 5 s.

The nodes have certificates of their own CA and require access tokens. dev keeps
servers, CA and a token of the role admin in the context dev (dev-PORT with another
--http-port), which commands use unless another context is the current one. With
--insecure there are no certificates and tokens: every user and program of this machine
can control the queue.

Flags after -- are flags of serve, for every node.`,
		Example: `  osqueue dev
  osqueue dev --http-port 9080 --raft-port 9180 --dir ./dev -- --lease 5s --log-level debug`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && cmd.ArgsLenAtDash() != 0 {
				return view.Usagef("%q: dev takes no arguments; write flags for the nodes after --\nUsage: %s", args[0], cmd.UseLine())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.serve = args
			err := o.validate()
			if err == nil {
				err = checkServe(g, args)
			}
			if err != nil {
				return &view.UsageError{Err: err}
			}
			return runDev(cmd.Context(), g, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.dir, "dir", "", "directory for everything, kept afterwards (default: a temporary one, removed at the end)")
	f.StringVar(&o.bucket, "bucket", "", "bucket URL (default: a directory under --dir)")
	f.IntVar(&o.nodes, "nodes", 3, "number of nodes")
	f.BoolVar(&o.insecure, "insecure", false, "no certificates and no access tokens, only plain HTTP on loopback")
	f.IntVar(&o.httpPort, "http-port", defaultPort, "HTTP port of the first node; the others follow")
	f.IntVar(&o.raftPort, "raft-port", 7080, "raft port of the first node; the others follow")
	return cmd
}

// runDev runs the cluster until ctx ends.
func runDev(ctx context.Context, g *view.Globals, o devOptions) (err error) {
	ctx, stop := untilHangup(ctx)
	defer stop()
	if err := o.portsFree(); err != nil {
		return err
	}
	cleanUp, err := o.makeDir()
	if err != nil {
		return err
	}
	defer func() {
		if err == nil { // else the logs are needed
			cleanUp()
		}
	}()
	if err := o.makeCerts(time.Now()); err != nil {
		return err
	}
	d := newDevCluster(g, o)
	defer d.forget()
	defer d.stopAll()
	for i := range o.nodes {
		if err := d.start(i); err != nil {
			return err
		}
	}
	c, err := o.client()
	if err != nil {
		return err
	}
	defer c.Close()
	return d.watch(ctx, c)
}

// untilHangup ends ctx also when the terminal is closed, unless SIGHUP is ignored, as
// under nohup.
func untilHangup(ctx context.Context) (context.Context, context.CancelFunc) {
	if signal.Ignored(syscall.SIGHUP) {
		return context.WithCancel(ctx)
	}
	return signal.NotifyContext(ctx, syscall.SIGHUP)
}

// Commands returns the commands of this package, which use the flags and streams of g.
// checkServe checks flags for the nodes as serve does.
func Commands(g *view.Globals, checkServe func(g *view.Globals, flags []string) error) []*cobra.Command {
	return []*cobra.Command{newDevCommand(g, checkServe)}
}

// devOptions are the flags of dev.
type devOptions struct {
	dir      string
	bucket   string
	nodes    int
	httpPort int
	raftPort int
	insecure bool     // no certificates and no tokens
	serve    []string // further flags for the nodes
}

func (o *devOptions) validate() error {
	if o.nodes < 1 || o.nodes > 9 {
		return fmt.Errorf("--nodes %d: use 1 to 9", o.nodes)
	}
	if o.httpPort < 1 || o.httpPort+o.nodes > 65535 || o.raftPort < 1 || o.raftPort+o.nodes > 65535 {
		return fmt.Errorf("--http-port %d and --raft-port %d: the ports of %d nodes must lie between 1 and 65535", o.httpPort, o.raftPort, o.nodes)
	}
	if o.httpPort < o.raftPort+o.nodes && o.raftPort < o.httpPort+o.nodes {
		return fmt.Errorf("--http-port %d and --raft-port %d: each is the first of %d ports, and these overlap: choose ports that are %[3]d or more apart", o.httpPort, o.raftPort, o.nodes)
	}
	if o.bucket != "" {
		if err := bucketurl.Check(o.bucket); err != nil {
			return fmt.Errorf("--bucket: %w", err)
		}
		if strings.HasPrefix(o.bucket, "mem:") && o.nodes > 1 {
			return fmt.Errorf("--bucket %s: each node is a process, and would have a bucket of its own: give a bucket that they share, as in file:///DIR", o.bucket)
		}
	}
	return nil
}

func (o *devOptions) name(i int) string { return fmt.Sprintf("n%d", i+1) }
func (o *devOptions) http(i int) string { return fmt.Sprintf("127.0.0.1:%d", o.httpPort+i) }
func (o *devOptions) raft(i int) string { return fmt.Sprintf("127.0.0.1:%d", o.raftPort+i) }
func (o *devOptions) log(i int) string  { return filepath.Join(o.dir, o.name(i), "log") }

func (o *devOptions) servers() []string {
	all := make([]string, o.nodes)
	for i := range all {
		all[i] = o.http(i)
	}
	return all
}

// serveArgs returns the command line of a node.
func (o *devOptions) serveArgs(i int) []string {
	peers := make([]string, o.nodes)
	for p := range peers {
		peers[p] = o.name(p) + "=" + o.http(p)
	}
	args := append([]string{
		"serve", "--stop-with-stdin",
		"--name", o.name(i),
		"--data", filepath.Join(o.dir, o.name(i)),
		"--bucket", o.bucket,
		"--http-addr", o.http(i),
		"--raft-addr", o.raft(i),
		"--peers", strings.Join(peers, ","),
		"--hook-allow", "127.0.0.0/8,::1", // receivers of hooks on this machine
		// Other programs keep a laptop busy; long timeouts avoid needless elections.
		"--raft-heartbeat", "1s", "--raft-election", "1s", "--raft-lease", "500ms",
	}, o.secureArgs(i)...)
	return append(args, o.serve...)
}

// makeDir makes the directory and, unless --bucket is given, the bucket in it.
func (o *devOptions) makeDir() (cleanUp func(), err error) {
	cleanUp = func() {}
	if o.dir == "" {
		if o.dir, err = os.MkdirTemp("", "osqueue-dev-"); err != nil {
			return nil, fmt.Errorf("make a temporary directory: %w", err)
		}
		cleanUp = func() { _ = os.RemoveAll(o.dir) } // a leftover in the temporary directory does no harm
	}
	if o.dir, err = filepath.Abs(o.dir); err != nil {
		return nil, err
	}
	for i := range o.nodes {
		if err := os.MkdirAll(filepath.Join(o.dir, o.name(i)), 0o700); err != nil {
			return nil, fmt.Errorf("make the node's directory: %w", err)
		}
	}
	if o.bucket == "" {
		o.bucket = "file://" + filepath.Join(o.dir, "bucket")
	}
	return cleanUp, nil
}

// portsFree returns an error that names the first port in use, before any node starts.
func (o *devOptions) portsFree() error {
	for i := range o.nodes {
		for flag, addr := range map[string]string{"--http-port": o.http(i), "--raft-port": o.raft(i)} {
			l, err := net.Listen("tcp", addr)
			if err != nil {
				return fmt.Errorf("%s is in use, perhaps by another dev cluster; choose other ports with %s", addr, flag)
			}
			_ = l.Close() // the listener only tested the port
		}
	}
	return nil
}

// defaultPort is the HTTP port of the first node.
const defaultPort = 8080

// The files of a secure cluster in its directory.
const (
	certDir    = "certs"
	headerFile = "header" // for curl -H @FILE
)

func (o *devOptions) cert(name string) string { return filepath.Join(o.dir, certDir, name) }

func (o *devOptions) header() string { return filepath.Join(o.dir, headerFile) }

// contextName is the name of the context of this cluster. Clusters on different ports have
// different ones.
func (o *devOptions) contextName() string {
	if o.httpPort == defaultPort {
		return contexts.DevName
	}
	return fmt.Sprintf("%s-%d", contexts.DevName, o.httpPort)
}

// scheme is that of the URLs of the nodes.
func (o *devOptions) scheme() string {
	if o.insecure {
		return "http"
	}
	return "https"
}

// secureArgs are the flags of serve that protect node i.
func (o *devOptions) secureArgs(i int) []string {
	if o.insecure {
		return nil
	}
	return []string{
		"--security", "on",
		"--tls-ca", o.cert(certs.CAFile), "--tls-cert", o.cert(o.name(i) + ".crt"), "--tls-key", o.cert(o.name(i) + ".key"),
	}
}
