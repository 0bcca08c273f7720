package view

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"osqueue/client"
	"osqueue/client/contexts"
)

// SocketName is the name of a node's admin socket in its data directory. Requests over it need
// no token and have the rights of an admin; only the user of the node can open it.
const SocketName = "admin.sock"

// envData is the environment variable with the data directory, of serve and of its clients.
const envData = EnvPrefix + "DATA"

// dataDirs are the data directories in which commands look for a node on this machine if nothing
// says where the cluster is: that of "serve" without --data, and that of the service.
var dataDirs = []string{"osqueue-data", "/var/lib/osqueue"}

// socketURL is the server of a client of the admin socket. Its name does not exist.
const (
	socketHost = "admin.invalid"
	socketURL  = "http://" + socketHost + ":80"
)

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
