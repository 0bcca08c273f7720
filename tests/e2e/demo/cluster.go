package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
)

// devCluster is a running "osqueue dev".
type devCluster struct {
	binary   string
	httpPort string
	servers  []string
	dev      *process
	client   *client.Client
}

const (
	nodes = 3
	// keepCompleted must exceed the number of files, because the results are read at the end.
	keepCompleted = "1000000"
)

func startCluster(ctx context.Context, binary, dir string, fail func(error)) (*devCluster, error) {
	ports, err := freePorts(2 * nodes)
	if err != nil {
		return nil, err
	}
	c := &devCluster{binary: binary, httpPort: strconv.Itoa(ports)}
	for i := range nodes {
		c.servers = append(c.servers, fmt.Sprintf("127.0.0.1:%d", ports+i))
	}
	log, err := openLog(filepath.Join(dir, "dev.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close() // the process has its own descriptor
	cmd := exec.Command(binary, "dev", "--insecure", "--nodes", strconv.Itoa(nodes), "--dir", filepath.Join(dir, "cluster"),
		"--http-port", c.httpPort, "--raft-port", strconv.Itoa(ports+nodes), "--",
		"--retain-completed-count", keepCompleted)
	cmd.Stdout, cmd.Stderr = log, log
	if c.client, err = client.New(client.Config{Servers: c.servers}); err != nil {
		return nil, err
	}
	if c.dev, err = start("osqueue dev", cmd, fail); err != nil {
		return nil, err
	}
	leader, err := c.awaitLeader(ctx, "")
	if err != nil {
		return nil, errors.Join(err, c.stop())
	}
	say("%d nodes are up on %s, %s leads", nodes, strings.Join(c.servers, " "), leader.NodeID)
	return c, nil
}

func (c *devCluster) stop() error {
	c.client.Close()
	return c.dev.stop()
}

// freePorts finds n consecutive ports without a listener. They are below the range from which
// the system assigns ports to outgoing connections.
func freePorts(n int) (first int, err error) {
	for first = 20_000; first+n <= 32_000; first += n {
		if err = portsFree(first, n); err == nil {
			return first, nil
		}
	}
	return 0, fmt.Errorf("no %d free ports: %w", n, err)
}

func portsFree(first, n int) error {
	for port := first; port < first+n; port++ {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return err
		}
		l.Close()
	}
	return nil
}

const pollInterval = 20 * time.Millisecond

// poll calls cond repeatedly until it reports true or ctx ends.
func poll(ctx context.Context, every time.Duration, what string, cond func() bool) error {
	for !cond() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
		case <-time.After(every):
		}
	}
	return nil
}

// awaitLeader waits for an active leader other than old.
func (c *devCluster) awaitLeader(ctx context.Context, old string) (leader v1.Status, err error) {
	err = poll(ctx, pollInterval, "a leader", func() bool {
		for _, n := range c.client.StatusAll(ctx) {
			if n.Err == nil && n.Status.State == v1.StateLeader && n.Status.NodeID != old {
				leader = n.Status
				return true
			}
		}
		return false
	})
	return leader, err
}

const progressInterval = 5 * time.Second

// awaitCompleted waits until n jobs have been completed.
func (c *devCluster) awaitCompleted(ctx context.Context, n int) error {
	reported := time.Now()
	return poll(ctx, 5*pollInterval, fmt.Sprintf("%d jobs to be completed", n), func() bool {
		s, err := c.client.Stats(ctx)
		if err != nil {
			return false
		}
		if time.Since(reported) > progressInterval {
			say("%d jobs are completed", s.CompletedTotal)
			reported = time.Now()
		}
		return s.CompletedTotal >= uint64(n)
	})
}

// failover is the result of one SIGKILL.
type failover struct {
	killed, next string
	at           time.Time
	took         time.Duration // from the signal until another node leads
}

// killLeader kills the leader and restarts it when another node leads.
func (c *devCluster) killLeader(ctx context.Context) (failover, error) {
	old, err := c.awaitLeader(ctx, "")
	if err != nil {
		return failover{}, err
	}
	f := failover{killed: old.NodeID, at: time.Now()}
	if err := syscall.Kill(old.Pid, syscall.SIGKILL); err != nil {
		return f, fmt.Errorf("kill %s: %w", old.NodeID, err)
	}
	say("%d jobs are completed: SIGKILL to %s, the leader", old.Tasks.CompletedTotal, old.NodeID)
	next, err := c.awaitLeader(ctx, old.NodeID)
	if err != nil {
		return f, err
	}
	f.next, f.took = next.NodeID, time.Since(f.at)
	say("%s leads after %v; starting %s again", f.next, f.took.Round(time.Millisecond), f.killed)
	out, err := exec.CommandContext(ctx, c.binary, "dev", "restart", f.killed, "--http-port", c.httpPort).CombinedOutput()
	if err != nil {
		return f, fmt.Errorf("dev restart %s: %w: %s", f.killed, err, out)
	}
	return f, nil
}

// awaitAllUp waits until every node has applied the leader's log.
func (c *devCluster) awaitAllUp(ctx context.Context) error {
	return poll(ctx, pollInterval, "all nodes to have caught up", func() bool {
		lsns := make(map[string]bool)
		for _, n := range c.client.StatusAll(ctx) {
			if n.Err != nil {
				return false
			}
			lsns[n.Status.LSN] = true
		}
		return len(lsns) == 1
	})
}
