package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	v1 "osqueue/api/v1"
)

// Node is one process, or the place for one.
type Node struct {
	Name string
	HTTP string
	Raft string
	Dir  string

	cluster *Cluster
	binary  string

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{}
	err  error // how the process ended
}

// Start runs the node. Its data directory is the one of the last time.
func (n *Node) Start(extra ...string) {
	c := n.cluster
	c.tb.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd != nil {
		c.tb.Fatalf("%s is running", n.Name)
	}
	if err := os.MkdirAll(n.Dir, 0o700); err != nil {
		c.tb.Fatal(err)
	}
	log, err := os.OpenFile(n.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		c.tb.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(n.binary, append(n.args(), extra...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), c.opt.Env...)
	if err := cmd.Start(); err != nil {
		c.tb.Fatal(err)
	}
	n.cmd, n.done = cmd, make(chan struct{})
	go n.wait(cmd, n.done)
}

func (n *Node) args() []string {
	c := n.cluster
	peers := make([]string, len(c.Nodes))
	for i, p := range c.Nodes {
		peers[i] = p.Name + "=" + p.HTTP
	}
	return append([]string{
		"serve",
		"--name", n.Name,
		"--data", filepath.Join(n.Dir, "data"),
		"--bucket", c.opt.Bucket,
		"--http-addr", n.HTTP,
		"--raft-addr", n.Raft,
		"--peers", strings.Join(peers, ","),
		"--flush-interval", "50ms", // whatever the store: tests have no bill
	}, c.opt.Flags...)
}

func (n *Node) wait(cmd *exec.Cmd, done chan struct{}) {
	err := cmd.Wait()
	n.mu.Lock()
	n.cmd, n.err = nil, err
	n.mu.Unlock()
	close(done)
}

// Running reports whether the process lives.
func (n *Node) Running() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cmd != nil
}

// Pid is the process id, 0 if none runs.
func (n *Node) Pid() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		return 0
	}
	return n.cmd.Process.Pid
}

// Kill ends the process with SIGKILL and waits for its end.
func (n *Node) Kill() { n.signalAndWait(syscall.SIGKILL) }

// Stop ends the process with SIGTERM and waits for its end. It returns how it
// ended.
func (n *Node) Stop() error {
	n.signalAndWait(syscall.SIGTERM)
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

// Wipe deletes the data directory of a node that has ended. What it logged stays.
func (n *Node) Wipe() {
	if err := os.RemoveAll(filepath.Join(n.Dir, "data")); err != nil {
		n.cluster.tb.Fatal(err)
	}
}

// Pause stops the process with SIGSTOP: it lives, and does nothing.
func (n *Node) Pause() { n.signal(syscall.SIGSTOP) }

// Continue wakes a paused process.
func (n *Node) Continue() { n.signal(syscall.SIGCONT) }

func (n *Node) signal(s syscall.Signal) (done chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		return nil
	}
	if err := n.cmd.Process.Signal(s); err != nil {
		n.cluster.tb.Logf("signal %v to %s: %v", s, n.Name, err)
	}
	return n.done
}

func (n *Node) signalAndWait(s syscall.Signal) {
	if done := n.signal(s); done != nil {
		<-done
	}
}

// Status asks the node for its /status.
func (n *Node) Status() (v1.Status, error) {
	var s v1.Status
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return s, n.GetJSON(ctx, "/status", &s)
}

// GetJSON reads a JSON answer from this very node.
func (n *Node) GetJSON(ctx context.Context, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.HTTP+path, nil)
	if err != nil {
		return err
	}
	resp, err := plain.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s%s: %s: %s", n.HTTP, path, resp.Status, body)
	}
	return json.Unmarshal(body, into)
}

// plain keeps no connections: a node that was killed must not be remembered.
var plain = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func (n *Node) logPath() string { return filepath.Join(n.Dir, "log") }

// Log is everything that the node has logged.
func (n *Node) Log() string {
	data, err := os.ReadFile(n.logPath())
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// LogTail is the end of the node's log.
func (n *Node) LogTail(lines int) string {
	all := strings.Split(strings.TrimSpace(n.Log()), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// RaftDB is the file of the node's raft log, for reading after its end.
func (n *Node) RaftDB() string { return filepath.Join(n.Dir, "data", "raft.db") }
