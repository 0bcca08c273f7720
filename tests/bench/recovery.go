package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/tests/cluster"
)

// recoveryTimeout bounds each way back of a deep queue.
const recoveryTimeout = 10 * time.Minute

// recovery measures the ways back of a deep queue: a node's and all nodes' restart,
// the loss of all disks, and the restore of an earlier state.
func (b *bench) recovery() error {
	return b.withBrokers("recovery", func(br *brokers) error {
		middle, err := b.fillFlushed(br)
		if err != nil {
			return err
		}
		follower := br.Follower()
		b.timed("restart of a follower, until it has all", func() error {
			follower.Kill()
			follower.Start()
			return br.allAt(follower)
		})
		b.timed("restart of all nodes, until a leader answers", func() error {
			br.killAll()
			return br.startAll(b.deep)
		})
		b.timed("restore --at the middle, to another directory", func() error {
			return restoreAt(br, middle)
		})
		b.timed("all disks lost, until a leader has the jobs from the bucket", func() error {
			br.killAll()
			for _, n := range br.Nodes {
				if err := os.RemoveAll(filepath.Join(n.Dir, "data")); err != nil {
					return err
				}
			}
			return br.startAll(b.deep)
		})
		return b.failed()
	})
}

// timed reports how long fn took, or keeps its error.
func (b *bench) timed(name string, fn func() error) {
	if b.failure != nil {
		return
	}
	begin := time.Now()
	if b.failure = fn(); b.failure != nil {
		b.failure = fmt.Errorf("%s: %w", name, b.failure)
		return
	}
	b.report.add(figure{
		Section: "recovery", Name: fmt.Sprintf("%s (%d jobs)", name, b.deep), Value: time.Since(begin).Seconds(), Unit: "s",
	})
}

func (b *bench) failed() error {
	err := b.failure
	b.failure = nil
	return err
}

// fillFlushed fills the queue, and returns the LSN in the middle of it.
func (b *bench) fillFlushed(br *brokers) (middle string, err error) {
	host := br.leader.HTTP
	begin := time.Now()
	if err := fill(host, b.deep/2); err != nil {
		return "", fmt.Errorf("fill: %w", err)
	}
	half, err := br.leader.Status()
	if err != nil {
		return "", err
	}
	if err := fill(host, b.deep-b.deep/2); err != nil {
		return "", fmt.Errorf("fill: %w", err)
	}
	filled := time.Now()
	if err := br.until(br.leader, func(s v1.Status) bool { return s.LagEntries == 0 }); err != nil {
		return "", err
	}
	b.report.add(figure{
		Section: "recovery", Name: "bucket behind after filling, until it has all", Value: time.Since(filled).Seconds(), Unit: "s",
		Beside: fmt.Sprintf("filled in %.1f s; %s", filled.Sub(begin).Seconds(), documentSize(br.Bucket())),
	})
	return half.LSN, nil
}

func (br *brokers) killAll() {
	for _, n := range br.Nodes {
		n.Kill()
	}
}

// startAll starts all nodes and returns when one leads and has the jobs.
func (br *brokers) startAll(jobs int) error {
	for _, n := range br.Nodes {
		n.Start()
	}
	return br.until(nil, func(s v1.Status) bool { return s.State == v1.StateLeader && s.Tasks.Total >= jobs })
}

// allAt returns when a node has applied the leader's log.
func (br *brokers) allAt(n *cluster.Node) error {
	leader, err := br.leader.Status()
	if err != nil {
		return err
	}
	return br.until(n, func(s v1.Status) bool { return s.LSN == leader.LSN })
}

// until polls a node, or any if it is nil.
func (br *brokers) until(n *cluster.Node, done func(v1.Status) bool) error {
	nodes := br.Nodes
	if n != nil {
		nodes = []*cluster.Node{n}
	}
	for end := time.Now().Add(recoveryTimeout); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		for _, n := range nodes {
			if s, err := n.Status(); err == nil && done(s) {
				return nil
			}
		}
	}
	return errors.New("not within " + recoveryTimeout.String())
}

// restoreAt has the program restore an earlier state to another directory.
func restoreAt(br *brokers, lsn string) error {
	program, err := cluster.Binary()
	if err != nil {
		return err
	}
	to, err := os.MkdirTemp(br.leader.Dir, "restored-")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), recoveryTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "restore", "--from", br.Bucket(), "--at", lsn, "--to", "file://"+to)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("osqueue restore: %w\n%s", err, out)
	}
	return nil
}
