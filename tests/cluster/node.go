package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "osqueue/client/api/v1"
)

// Node is a process of `osqueue serve`, or a placeholder for one.
type Node struct {
	process
	HTTP string // where others find it: on the node itself, or on the port of its link
	Raft string
	// Legacy is the address for legacy clients, with Options.Legacy.
	Legacy string

	// Binary is the program that Start runs; "" means the cluster's.
	Binary string
	// Flags are further flags of this node, after those of the cluster.
	Flags []string

	httpBind, raftBind string // where it listens

	clockSerial int64  // of the last SetClock
	disk        string // where a file system of its own is mounted; "": none is
}

// Start runs the node with the data directory of its last run.
func (n *Node) Start(extra ...string) {
	n.cluster.tb.Helper()
	n.launch(cmp.Or(n.Binary, n.cluster.binary), append(n.args(), extra...)...)
}

func (n *Node) args() []string {
	c := n.cluster
	peers := make([]string, len(c.Nodes))
	for i, p := range c.Nodes {
		peers[i] = p.Name + "=" + p.HTTP
	}
	var legacy []string
	if c.opt.Legacy {
		legacy = []string{"--legacy-http-addr", n.Legacy}
	}
	return append([]string{
		"serve",
		"--name", n.Name,
		"--data", n.data(),
		"--bucket", c.nodeBucket,
		"--http-addr", n.httpBind,
		"--http-advertise", n.HTTP,
		"--raft-addr", n.raftBind,
		"--raft-advertise", n.Raft,
		"--peers", strings.Join(peers, ","),
		"--flush-interval", "50ms", // for every store: tests pay no bill
	}, slices.Concat(c.secure.flags(n.Name), legacy, c.opt.Flags, n.Flags)...)
}

// data returns the node's data directory.
func (n *Node) data() string { return filepath.Join(n.Dir, "data") }

// Wipe empties the data directory of a node that has ended. It keeps the node's log output.
func (n *Node) Wipe() {
	entries, err := os.ReadDir(n.data())
	if err != nil && !os.IsNotExist(err) {
		n.cluster.tb.Fatal(err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(n.data(), e.Name())); err != nil {
			n.cluster.tb.Fatal(err)
		}
	}
}

// Status reads the node's /status.
func (n *Node) Status() (v1.Status, error) { return n.status(n.HTTP) }

// OwnStatus is like Status, but does not use the node's links, which may be cut.
func (n *Node) OwnStatus() (v1.Status, error) { return n.status(n.httpBind) }

func (n *Node) status(addr string) (v1.Status, error) {
	var s v1.Status
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return s, n.getJSON(ctx, addr, "/status", &s)
}

func (n *Node) getJSON(ctx context.Context, addr, path string, into any) error {
	base, hc := "http://"+addr, plain
	if s := n.cluster.secure; s != nil {
		base, hc = "https://"+addr, s.http
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, nil)
	if err != nil {
		return err
	}
	if s := n.cluster.secure; s != nil {
		req.Header.Set("Authorization", "Bearer "+s.token.Text)
	}
	resp, err := hc.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s%s: %s: %s", addr, path, resp.Status, body)
	}
	return json.Unmarshal(body, into)
}

// plain keeps no connections, because a connection to a killed node must not be reused.
var plain = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// DataDir returns the node's data directory.
func (n *Node) DataDir() string { return n.data() }
