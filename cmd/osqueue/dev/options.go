package dev

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"osqueue/client/contexts"
	"osqueue/internal/auth/certs"
	"osqueue/storage/bucketurl"
)

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
