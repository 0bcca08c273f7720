package attack

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/tests/cluster"
)

const (
	patience = 30 * time.Second
	// memoryMax is how much a node may grow during an attack, in bytes.
	memoryMax = 256 << 20
	// answerMax is the longest time in which the bystander must be served.
	answerMax = 5 * time.Second
)

// calm keeps the leaders of several nodes in office on a busy machine: an election during an attack
// then means that the attack has called it.
var calm = []string{"--raft-heartbeat", "3s", "--raft-election", "3s", "--raft-lease", "2s"}

// calmed appends the flags of calm for more than one node; 0 is three. A single node needs no
// heartbeats, and would take longer to elect itself.
func calmed(nodes int, flags []string) []string {
	if nodes == 1 {
		return flags
	}
	return slices.Concat(flags, calm)
}

// target is a cluster under attack, with a bystander who uses it.
type target struct {
	*cluster.Cluster
	t      *testing.T
	before map[*cluster.Node]int64 // resident memory, in bytes
	terms  map[*cluster.Node]uint64
	token  string // of the bystander; "": it needs none
}

// newTarget starts a cluster that is to be attacked.
func newTarget(t *testing.T, nodes int, flags ...string) *target {
	t.Helper()
	return newTargetWith(t, cluster.Options{Nodes: nodes, Flags: calmed(nodes, flags)})
}

func newTargetWith(t *testing.T, o cluster.Options) *target {
	t.Helper()
	return attacked(t, cluster.Start(t, o))
}

// shareTarget returns a view of the one node that tests share.
func shareTarget(t *testing.T) *target {
	t.Helper()
	return attacked(t, cluster.Share(t, cluster.Options{Nodes: 1}))
}

func attacked(t *testing.T, c *cluster.Cluster) *target {
	t.Helper()
	g := &target{Cluster: c, t: t, before: make(map[*cluster.Node]int64), terms: make(map[*cluster.Node]uint64)}
	g.bystand()
	for _, n := range c.Nodes {
		g.before[n], g.terms[n] = resident(t, n, "VmRSS"), g.status(n).Term
	}
	return g
}

func (g *target) status(n *cluster.Node) v1.Status {
	g.t.Helper()
	var s v1.Status
	g.Eventually(patience, "the status of "+n.Name, func() (err error) {
		s, err = n.Status()
		return err
	})
	return s
}

// bystand uses each node once, as a client that does nothing wrong.
func (g *target) bystand() {
	g.t.Helper()
	for _, n := range g.Nodes {
		began := time.Now()
		body := `{"type":"bystander","payload":{}}`
		head := ""
		if g.token != "" {
			head = bearer(g.token)
		}
		a, err := request(n.HTTP, "POST "+v1.PathJobs+" HTTP/1.1\r\nHost: "+n.HTTP+"\r\n"+head+"Content-Type: application/json\r\nContent-Length: "+
			strconv.Itoa(len(body))+"\r\nConnection: close\r\n\r\n"+body, answerMax)
		if err != nil || a.StatusCode/100 != 2 {
			g.t.Fatalf("%s does not serve others: %v %v after %v", n.Name, a, err, time.Since(began))
		}
	}
}

// attack runs one attack while the bystander uses the cluster, and checks that it has failed.
func (g *target) attack(name string, run func(t *testing.T)) {
	g.t.Helper()
	counted(g.t, 1)
	g.attackMany(name, run)
}

// attackMany is attack for a run of many attacks, which it counts itself.
func (g *target) attackMany(name string, run func(t *testing.T)) {
	g.t.Helper()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
				if n := g.Nodes[0]; !served(n) {
					g.t.Errorf("%s: %s does not serve others meanwhile", name, n.Name)
					return
				}
			}
		}
	})
	g.t.Run(name, run)
	close(stop)
	wg.Wait()
	for _, n := range g.Nodes {
		if !n.Running() {
			g.t.Fatalf("%s: the process of %s has ended", name, n.Name)
		}
	}
}

// served reports whether a node answers a client within answerMax.
func served(n *cluster.Node) bool {
	a, err := request(n.HTTP, "GET "+v1.PathHealthz+" HTTP/1.1\r\nHost: "+n.HTTP+"\r\nConnection: close\r\n\r\n", answerMax)
	return err == nil && a.StatusCode == http.StatusOK
}

// settled checks after all attacks that no election took place, that the memory stayed within
// the bound, and that the cluster serves.
func (g *target) settled() {
	g.t.Helper()
	g.bystand()
	for _, n := range g.Nodes {
		if now := g.status(n).Term; now != g.terms[n] {
			g.t.Errorf("%s went from term %d to %d", n.Name, g.terms[n], now)
		}
		if grown := resident(g.t, n, "VmHWM") - g.before[n]; grown > memoryMax {
			g.t.Errorf("%s has grown by %d MiB", n.Name, grown>>20)
		}
	}
}

// resident returns a figure of /proc/PID/status in bytes.
func resident(t *testing.T, n *cluster.Node, field string) int64 {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.Pid()))
	if err != nil {
		t.Skipf("the memory of a process cannot be read here: %v", err)
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kb << 10
		}
	}
	t.Fatalf("no %s in %s", field, data)
	return 0
}
