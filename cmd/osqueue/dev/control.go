package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"osqueue/cmd/osqueue/view"
	"osqueue/internal/web"
)

// The running "osqueue dev" takes commands on a unix socket, so that a restarted node is
// its child like the others and ends with it.

func controlPath(httpPort int) string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("osqueue-dev-%d-%d.sock", os.Getuid(), httpPort))
}

// listenControl opens the socket; closing it removes the file. It first removes the file
// that a killed process has left behind.
func listenControl(httpPort int) (net.Listener, error) {
	path := controlPath(httpPort)
	if c, err := net.Dial("unix", path); err == nil {
		c.Close()
		return nil, fmt.Errorf("another dev cluster uses --http-port %d; stop it, or choose another port", httpPort)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove the leftover socket: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen for osqueue dev restart: %w", err)
	}
	return l, nil
}

// serveControl answers commands until the returned function is called.
func (d *devCluster) serveControl(l net.Listener) (stop func()) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /restart/{node}", func(w http.ResponseWriter, r *http.Request) {
		up, err := d.restart(r.Context(), r.PathValue("node"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		_, _ = io.WriteString(w, up) // the client has gone if it fails
	})
	return web.Start(&http.Server{Handler: mux, ReadHeaderTimeout: time.Second}, l)
}

// devRestart asks the running dev cluster to start a node again.
func devRestart(ctx context.Context, g *view.Globals, httpPort int, node string) error {
	path := controlPath(httpPort)
	hc := http.Client{
		Timeout: 2 * upWait,
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}},
	}
	defer hc.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://dev/restart/"+node, nil)
	if err != nil {
		return &view.UsageError{Err: fmt.Errorf("node %q: %w", node, err)}
	}
	resp, err := hc.Do(req)
	if err != nil {
		return fmt.Errorf("no dev cluster runs on port %d; start one with \"osqueue dev\", or name its --http-port", httpPort)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10)) // the status says enough
	if resp.StatusCode != http.StatusOK {
		return errors.New(strings.TrimSpace(string(body)))
	}
	return g.Printf("%s\n", body)
}
