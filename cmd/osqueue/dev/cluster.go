package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"osqueue/client"
	"osqueue/client/contexts"
	"osqueue/cmd/osqueue/view"
	"osqueue/internal/auth/certs"
	"osqueue/internal/sleep"
)

// devCluster owns the node processes of "osqueue dev".
type devCluster struct {
	g *view.Globals
	o devOptions

	token      string // of the context; "": not made yet
	complained bool   // that there is none

	stopping chan struct{} // closed when the cluster is being stopped: exits are no news then

	mu    sync.Mutex
	nodes []*devNode // nil where none runs
}

// devNode is one running process.
type devNode struct {
	cmd      *exec.Cmd
	lifeline io.Closer     // open while this process lives
	done     chan struct{} // closed when the process has been waited for
}

func newDevCluster(g *view.Globals, o devOptions) *devCluster {
	return &devCluster{g: g, o: o, nodes: make([]*devNode, o.nodes), stopping: make(chan struct{})}
}

// start runs node i, unless the cluster is being stopped. Its log is appended to.
func (d *devCluster) start(i int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-d.stopping:
		return nil
	default:
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

// restartPause is how long a node that has ended stays away, so that its absence can be seen.
const restartPause = 5 * time.Second

// wait reaps the process of a node, reports its end, and starts the node again.
func (d *devCluster) wait(i int, n *devNode) {
	err := n.cmd.Wait()
	d.mu.Lock()
	d.nodes[i] = nil
	d.mu.Unlock()
	close(n.done)
	select {
	case <-d.stopping:
		return
	default:
	}
	reason := "exited"
	if err != nil {
		reason = "ended: " + err.Error()
	}
	d.say("%s (pid %d) %s. It starts again in %s. Its log: %s\n", d.o.name(i), n.cmd.Process.Pid, reason, restartPause, d.o.log(i))
	select {
	case <-d.stopping:
		return
	case <-time.After(restartPause):
	}
	if err := d.start(i); err != nil {
		d.say("%v\n", err)
	}
}

// stopAll stops every node gracefully, and kills the nodes that do not stop in time.
func (d *devCluster) stopAll() {
	d.mu.Lock()
	close(d.stopping)
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
		if leader == "" && d.running() == 0 {
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
%[10]s  kill -9 %[8]d              # the leader dies; %[9]s

Ctrl-C stops everything.
`, view.Plural(d.o.nodes, "node"), rows, d.o.bucket, d.o.dir, d.accessHint(), self, view.ShellWord(d.o.bucket), pid, d.afterDeath(), d.webHint(self))
}

// afterDeath describes the effect of one node's death on the cluster.
func (d *devCluster) afterDeath() string {
	if d.o.nodes < 3 {
		return "the queue stops until the node is back"
	}
	return "another node leads, and this one comes back"
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
