package main

import (
	"fmt"
	"time"

	"osqueue/tests/cluster"
	"osqueue/tests/measure"
)

// failover kills the leader repeatedly. Each time it measures the time until one of the other
// nodes has committed a job. -kills is the number of repetitions; the distribution is printed.
func (b *bench) failover() error {
	return b.withBrokers("failover", func(br *brokers) error {
		var took measure.Samples
		for range b.kills {
			d, err := killOnce(br.Cluster)
			if err != nil {
				return err
			}
			took = append(took, d)
		}
		name := fmt.Sprintf("SIGKILL to next commit, %d kills, ", len(took))
		b.report.add(figure{Section: "failover", Name: name + "min", Value: measure.Milliseconds(took.At(0)), Unit: "ms"})
		median := figure{Section: "failover", Name: name + "median", Value: measure.Milliseconds(took.At(50)), Unit: "ms"}
		b.report.add(median.atMost(600, "ms", median.Value))
		for _, p := range []float64{10, 25, 75, 90, 95} {
			b.report.add(figure{Section: "failover", Name: fmt.Sprintf("%sp%g", name, p), Value: measure.Milliseconds(took.At(p)), Unit: "ms"})
		}
		longest := figure{Section: "failover", Name: name + "max", Value: measure.Milliseconds(took.At(100)), Unit: "ms"}
		b.report.add(longest.atMost(1200, "ms", longest.Value))
		return nil
	})
}

func killOnce(c *cluster.Cluster) (time.Duration, error) {
	old := c.WaitLeader()
	if err := repeatTimes(old.HTTP, 1, enqueueOne(old.HTTP)); err != nil {
		return 0, err
	}
	begin := time.Now()
	old.Kill()
	took, err := firstCommit(c, old, begin)
	if err != nil {
		return 0, err
	}
	old.Start()
	c.Eventually(cluster.LeaderTimeout, "the killed node to catch up", func() error {
		theirs, err := old.Status()
		if err != nil {
			return err
		}
		ours, err := c.WaitLeader().Status()
		if err != nil {
			return err
		}
		if theirs.LSN != ours.LSN {
			return fmt.Errorf("it is at %s, the leader at %s", theirs.LSN, ours.LSN)
		}
		return nil
	})
	return took, nil
}

// firstCommit sends a job to one survivor after the other until one commits it.
func firstCommit(c *cluster.Cluster, dead *cluster.Node, begin time.Time) (time.Duration, error) {
	var last error
	for time.Since(begin) < cluster.LeaderTimeout {
		for _, n := range c.Nodes {
			if n == dead {
				continue
			}
			if last = repeatTimes(n.HTTP, 1, enqueueOne(n.HTTP)); last == nil {
				return time.Since(begin), nil
			}
		}
		time.Sleep(time.Millisecond)
	}
	return 0, fmt.Errorf("no node took a job within %v: %w", cluster.LeaderTimeout, last)
}
