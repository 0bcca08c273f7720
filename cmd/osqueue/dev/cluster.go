package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"osqueue/client"
	"osqueue/client/contexts"
	"osqueue/cmd/osqueue/view"
	"osqueue/internal/auth/certs"
	"osqueue/internal/sleep"
	"osqueue/internal/web"
)

// devCluster owns the node processes of "osqueue dev".
type devCluster struct {
	g *view.Globals
	o devOptions

	token      string // of the context; "": not made yet
	complained bool   // that there is none

	mu    sync.Mutex
	nodes []*devNode // nil where none runs
	quiet bool       // the cluster is being stopped: exits are no news
}

// devNode is one running process.
type devNode struct {
	cmd      *exec.Cmd
	lifeline io.Closer     // open while this process lives
	done     chan struct{} // closed when the process has been waited for
}

func newDevCluster(g *view.Globals, o devOptions) *devCluster {
	return &devCluster{g: g, o: o, nodes: make([]*devNode, o.nodes)}
}

// start runs node i. Its log is appended to.
func (d *devCluster) start(i int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.nodes[i] != nil {
		return fmt.Errorf("%s is running (pid %d): end that process first", d.o.name(i), d.nodes[i].cmd.Process.Pid)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	log, err := os.OpenFile(d.o.log(i), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the log of %s: %w", d.o.name(i), err)
	}
	defer log.Close() // the child has its own descriptor
	cmd := exec.Command(self, d.o.serveArgs(i)...)
	cmd.Stdout, cmd.Stderr = log, log
	// The node gets a process group of its own, so that Ctrl-C reaches it only through
	// stopAll, and a pipe whose end tells it that this process has ended.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	lifeline, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("start %s: %w", d.o.name(i), err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", d.o.name(i), err)
	}
	n := &devNode{cmd: cmd, lifeline: lifeline, done: make(chan struct{})}
	d.nodes[i] = n
	go d.wait(i, n)
	return nil
}

// wait reaps the process of a node and reports its end.
func (d *devCluster) wait(i int, n *devNode) {
	err := n.cmd.Wait()
	d.mu.Lock()
	d.nodes[i] = nil
	quiet := d.quiet
	d.mu.Unlock()
	close(n.done)
	if quiet {
		return
	}
	reason := "exited"
	if err != nil {
		reason = "ended: " + err.Error()
	}
	d.say("%s (pid %d) %s. Its log: %s\n    start it again:  osqueue dev restart %s%s\n",
		d.o.name(i), n.cmd.Process.Pid, reason, d.o.log(i), d.o.name(i), d.portFlag())
}

// stopAll stops every node gracefully, and kills the nodes that do not stop in time.
func (d *devCluster) stopAll() {
	d.mu.Lock()
	d.quiet = true
	running := make([]*devNode, 0, len(d.nodes))
	for _, n := range d.nodes {
		if n != nil {
			running = append(running, n)
			_ = n.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
		}
	}
	d.mu.Unlock()
	patience := time.After(devStopTimeout)
	for _, n := range running {
		select {
		case <-n.done:
		case <-patience:
			_ = n.cmd.Process.Kill()
			<-n.done
		}
	}
}

// devStopTimeout is the time that the nodes have to stop gracefully.
const devStopTimeout = 10 * time.Second

// upWait is how long dev restart waits until the node answers.
const upWait = 8 * time.Second

// restart starts the node with the given name, for "dev restart", and says when it is up again.
func (d *devCluster) restart(ctx context.Context, name string) (text string, err error) {
	for i := range d.o.nodes {
		if d.o.name(i) != name {
			continue
		}
		if err := d.start(i); err != nil {
			return "", err
		}
		c, err := d.o.client()
		if err != nil {
			return "", err
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(ctx, upWait)
		defer cancel()
		for c.Ready(ctx, d.o.http(i)) != nil {
			if !sleep.For(ctx, devPollInterval) {
				return fmt.Sprintf("%s is starting; its log: %s", name, d.o.log(i)), nil
			}
		}
		return fmt.Sprintf("%s of the cluster in %s is up again at %s://%s", name, d.o.dir, d.o.scheme(), d.o.http(i)), nil
	}
	return "", fmt.Errorf("node %q does not exist; the nodes are n1 to n%d", name, d.o.nodes)
}

// watch prints changes of the leader until ctx ends.
func (d *devCluster) watch(ctx context.Context, c *client.Client) error {
	leader := ""
	for {
		if now := d.leader(ctx, c); now != "" && now != leader && d.admitted(ctx, now) {
			if leader == "" {
				d.welcome(now)
			} else {
				d.say("%s is the active leader now\n", now)
			}
			leader = now
		}
		if !sleep.For(ctx, devPollInterval) {
			d.say("stopping\n")
			return nil
		}
		if d.running() == 0 {
			return errors.New("no node is running; their logs say why: " + d.o.log(0))
		}
	}
}

// leader returns the name of the active leader, or "" if there is none.
func (d *devCluster) leader(ctx context.Context, c *client.Client) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for _, s := range c.StatusAll(ctx) {
		if s.Err == nil && s.Status.State == "leader" {
			return s.Status.NodeID
		}
	}
	return ""
}

func (d *devCluster) running() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for _, node := range d.nodes {
		if node != nil {
			n++
		}
	}
	return n
}

// welcome prints the nodes and example commands.
func (d *devCluster) welcome(leader string) {
	pid := 0
	rows := ""
	d.mu.Lock()
	for i, n := range d.nodes {
		if n == nil {
			continue
		}
		mark := ""
		if d.o.name(i) == leader {
			mark, pid = "  leader", n.cmd.Process.Pid
		}
		rows += fmt.Sprintf("  %s  %s://%s/ui  pid %d%s\n", d.o.name(i), d.o.scheme(), d.o.http(i), n.cmd.Process.Pid, mark)
	}
	d.mu.Unlock()
	self := programName()
	d.say(`a cluster of %s is up

%s
  bucket  %s
  logs    %s/n*/log

Try, in another terminal:
%[5]s  %[6]s submit hello '{"name":"you"}'
  %[6]s worker --exec 'hello=cat'
  %[6]s status
  %[6]s inspect %[7]s
%[12]s  kill -9 %[8]d              # the leader dies; %[9]s
  %[6]s dev restart %[10]s%[11]s

Ctrl-C stops everything.
`, view.Plural(d.o.nodes, "node"), rows, d.o.bucket, d.o.dir, d.accessHint(), self, view.ShellWord(d.o.bucket), pid, d.afterDeath(), leader, d.portFlag(), d.webHint(self))
}

// afterDeath describes the effect of one node's death on the cluster.
func (d *devCluster) afterDeath() string {
	if d.o.nodes < 3 {
		return "the queue stops until the node is back"
	}
	return "nothing is lost"
}

// programName returns the command that started this program, for commands that people paste:
// its name if PATH finds it, or else its path.
func programName() string {
	found, err := exec.LookPath("osqueue")
	own, fault := os.Executable()
	if err == nil && fault == nil {
		if a, err := os.Stat(found); err == nil {
			if b, err := os.Stat(own); err == nil && os.SameFile(a, b) {
				return "osqueue"
			}
		}
	}
	return view.ShellWord(os.Args[0])
}

// serversHint returns the flags that other commands need to find a cluster on other
// ports.
func (d *devCluster) serversHint() string {
	if servers := strings.Join(d.o.servers(), ","); servers != view.DefaultServers {
		return "  export OSQUEUE_SERVERS=" + servers + "\n"
	}
	return ""
}

func (d *devCluster) portFlag() string {
	if d.o.httpPort == defaultPort {
		return ""
	}
	return fmt.Sprintf(" --http-port %d", d.o.httpPort)
}

func (d *devCluster) say(format string, args ...any) {
	_ = d.g.Printf("osqueue dev: "+format, args...) // a closed terminal must not stop the cluster
}

// devPollInterval is the interval at which dev polls for a change of leader.
const devPollInterval = 300 * time.Millisecond

// accessHint are the lines of the welcome about the way to the cluster.
func (d *devCluster) accessHint() string {
	if d.o.insecure {
		return d.serversHint()
	}
	chosen, err := d.g.Contexts().Current()
	if err == nil && chosen == d.o.contextName() && d.g.Getenv(contexts.EnvContext) == "" {
		return ""
	}
	return "  export OSQUEUE_CONTEXT=" + d.o.contextName() + "\n"
}

// webHint are the lines of the welcome about the dashboard and HTTP.
func (d *devCluster) webHint(self string) string {
	if d.o.insecure {
		return fmt.Sprintf("  curl http://%s/v1/stats\n", d.o.http(0))
	}
	return fmt.Sprintf("  %s ui                  # prints a link to the dashboard\n  curl --cacert %s -H @%s https://%s/v1/stats\n",
		self, view.ShellWord(d.o.cert(certs.CAFile)), view.ShellWord(d.o.header()), d.o.http(0))
}

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
