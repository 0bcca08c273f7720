package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/clitest"
	"osqueue/tests/cluster"
)

// devProcess is "osqueue dev" in a process of its own, with its nodes.
type devProcess struct {
	t      *testing.T
	binary string
	dir    string // its temporary directory
	secure bool   // without --insecure
	http   int    // port of the first node; the others follow
	raft   int    // the same for raft
	cmd    *exec.Cmd
	out    clitest.Buffer
	client *client.Client
}

const devNodes = 3

func newDevProcess(t *testing.T) *devProcess {
	t.Helper()
	first := freePorts(t, 2*devNodes)
	d := &devProcess{t: t, dir: t.TempDir(), http: first, raft: first + devNodes}
	var err error
	if d.binary, err = cluster.Binary(); err != nil {
		t.Fatal(err)
	}
	if d.client, err = client.New(client.Config{Servers: d.servers()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.client.Close)
	return d
}

// servers returns the HTTP addresses of the nodes.
func (d *devProcess) servers() []string {
	var all []string
	for i := range devNodes {
		all = append(all, fmt.Sprintf("127.0.0.1:%d", d.http+i))
	}
	return all
}

// freePorts returns the first of n consecutive free ports, below the range that the system uses for outgoing
// connections: the port of a process that was killed is still free when it comes back.
func freePorts(t *testing.T, n int) (first int) {
	t.Helper()
	for range 100 {
		first = 12_000 + rand.IntN(18_000)
		if portsFree(first, n) {
			return first
		}
	}
	t.Fatalf("no %d free ports", n)
	return 0
}

func portsFree(first, n int) bool {
	for port := first; port < first+n; port++ {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return false
		}
		l.Close()
	}
	return true
}

// command is a command line of the program. Its cluster is d.
func (d *devProcess) command(args ...string) *exec.Cmd {
	cmd := exec.Command(d.binary, args...)
	cmd.Env = append(os.Environ(), "TMPDIR="+d.dir, "XDG_CONFIG_HOME="+filepath.Join(d.dir, "config"))
	if d.secure {
		cmd.Env = append(cmd.Env, "OSQUEUE_CONTEXT="+fmt.Sprintf("dev-%d", d.http))
	} else {
		cmd.Env = append(cmd.Env, "OSQUEUE_SERVERS="+strings.Join(d.servers(), ","))
	}
	return cmd
}

// start runs dev until the test ends, and waits for a leader.
func (d *devProcess) start(serveFlags ...string) {
	d.t.Helper()
	d.launch(serveFlags...)
	d.eventually("the welcome", func() bool { return strings.Contains(d.out.String(), "Ctrl-C stops everything") })
}

// launch runs dev until the test ends.
func (d *devProcess) launch(serveFlags ...string) {
	d.t.Helper()
	args := []string{"dev", "--http-port", strconv.Itoa(d.http), "--raft-port", strconv.Itoa(d.raft), "--dir", filepath.Join(d.dir, "dev")}
	if !d.secure {
		args = append(args, "--insecure")
	}
	args = append(args, "--")
	d.cmd = d.command(append(args, serveFlags...)...)
	d.cmd.Stdout, d.cmd.Stderr = &d.out, &d.out
	if err := d.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	cmd := d.cmd
	d.t.Cleanup(func() {
		if cmd.ProcessState == nil { // asked to, it ends when its nodes have: they write until then
			_ = cmd.Process.Signal(os.Interrupt)
			limit := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
			_ = cmd.Wait()
			limit.Stop()
		}
		if d.t.Failed() {
			d.t.Logf("dev said:\n%s", d.out.String())
		}
	})
}

// run runs a command line to its end and returns its stdout.
func (d *devProcess) run(args ...string) string {
	d.t.Helper()
	out, stderr, err := d.output(args...)
	if err != nil {
		d.t.Fatalf("%v: %v\n%s%s", args, err, out, stderr)
	}
	return out
}

// commandLimit is how long one command may take.
const commandLimit = 60 * time.Second

// end waits for the end of a command, and kills it if it takes too long.
func end(cmd *exec.Cmd) error {
	limit := time.AfterFunc(commandLimit, func() { _ = cmd.Process.Kill() })
	defer limit.Stop()
	return cmd.Wait()
}

func (d *devProcess) output(args ...string) (stdout, stderr string, err error) {
	cmd := d.command(args...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Start(); err != nil {
		return "", "", err
	}
	err = end(cmd)
	return strings.TrimSpace(out.String()), errOut.String(), err
}

func (d *devProcess) eventually(what string, cond func() bool) {
	d.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !cond() {
		if time.Now().After(deadline) {
			d.t.Fatalf("waited too long for %s", what)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// statuses returns the status of each node that answers, by name.
func (d *devProcess) statuses() map[string]v1.Status {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	all := make(map[string]v1.Status)
	for _, n := range d.client.StatusAll(ctx) {
		if n.Err == nil {
			all[n.Status.NodeID] = n.Status
		}
	}
	return all
}

// leader waits for a leader other than old.
func (d *devProcess) leader(old string) (leader v1.Status) {
	d.t.Helper()
	d.eventually("a leader", func() bool {
		for name, s := range d.statuses() {
			if s.State == v1.StateLeader && name != old {
				leader = s
				return true
			}
		}
		return false
	})
	return leader
}

// A leader is killed and comes back, no job is lost, and Ctrl-C leaves nothing
// behind.
func TestDevSurvivesAKillAndStopsWhole(t *testing.T) {
	t.Parallel()
	d := newDevProcess(t)
	d.start()
	id := d.run("submit", "hello", `{"name":"you"}`)

	old := d.leader("")
	if err := syscall.Kill(old.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	next := d.leader(old.NodeID)
	var job v1.Job
	if err := json.Unmarshal([]byte(d.run("job", "show", id, "--json")), &job); err != nil || job.Status != v1.StatusUnclaimed {
		t.Fatalf("%+v, %v", job, err)
	}
	d.eventually("the killed node to be back", func() bool {
		s, ok := d.statuses()[old.NodeID]
		return ok && s.Pid != old.Pid && s.Applied >= next.Applied
	})
	running := d.statuses()
	if len(running) != devNodes {
		t.Fatalf("%d nodes answer", len(running))
	}
	if err := d.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Wait(); err != nil {
		t.Errorf("dev: %v", err)
	}
	for name, s := range running {
		if err := syscall.Kill(s.Pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("%s (pid %d) is left: %v", name, s.Pid, err)
		}
	}
	if _, err := os.Stat(filepath.Join(d.dir, "dev", "bucket", "queue.json")); err != nil {
		t.Errorf("--dir was not kept: %v", err)
	}
}

// The commands that dev prints work with security on, without a token they do not, and the
// context ends with the cluster.
func TestDevIsSecure(t *testing.T) {
	t.Parallel()
	d := newDevProcess(t)
	d.secure = true
	d.start()
	d.run("submit", "hello", "1")
	if got := d.run("context", "ls"); !strings.Contains(got, fmt.Sprintf("dev-%d", d.http)) || strings.Contains(got, "osq_") {
		t.Errorf("contexts: %s", got)
	}
	if link := d.run("ui"); !strings.HasPrefix(link, fmt.Sprintf("https://127.0.0.1:%d/ui/login?code=", d.http)) {
		t.Errorf("link: %s", link)
	}
	ca := filepath.Join(d.dir, "dev", "certs", "ca.crt")
	stranger := d.command("submit", "hello", "2", "--servers", d.servers()[0], "--ca", ca)
	stranger.Env = append(stranger.Env, "OSQUEUE_CONTEXT=")
	if out, err := stranger.CombinedOutput(); err == nil || !strings.Contains(string(out), "token") {
		t.Errorf("without a token: %v %s", err, out)
	}
	if _, err := exec.LookPath("curl"); err == nil {
		curl := regexp.MustCompile(`(?m)^  curl (.*)$`).FindStringSubmatch(d.out.String())
		if curl == nil {
			t.Fatalf("no line for curl:\n%s", d.out.String())
		}
		out, err := exec.Command("sh", "-c", "curl -sS "+curl[1]).CombinedOutput()
		if err != nil || !strings.Contains(string(out), `"total":1`) {
			t.Errorf("curl: %v %s", err, out)
		}
	}
	if err := d.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Wait(); err != nil {
		t.Errorf("dev: %v", err)
	}
	if files, err := filepath.Glob(filepath.Join(d.dir, "config", "osqueue", "contexts", "*")); err != nil || len(files) > 0 {
		t.Errorf("left: %v, %v", files, err)
	}
}

// When dev itself is killed its nodes stop, and the next one starts with the same jobs.
func TestDevAfterItsOwnKill(t *testing.T) {
	t.Parallel()
	d := newDevProcess(t)
	d.start()
	id := d.run("submit", "hello", "1")
	out, err := d.command("dev", "--nodes", "1", "--http-port", strconv.Itoa(d.http), "--raft-port", strconv.Itoa(d.raft)).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "is in use") {
		t.Errorf("a second one on the same ports: %v %s", err, out)
	}
	if err := d.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Wait(); err == nil {
		t.Error("dev ended well in spite of SIGKILL")
	}
	d.eventually("the nodes to end", func() bool { return portsFree(d.http, 2*devNodes) })
	d.out = clitest.Buffer{}
	d.start()
	if got := d.run("job", "show", id); !strings.Contains(got, id) {
		t.Errorf("%s", got)
	}
}
