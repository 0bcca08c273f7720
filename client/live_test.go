package client_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "osqueue/api/v1"
	"osqueue/client"
	"osqueue/tests/live"
)

// start starts a cluster for a test, and a client of it.
func start(t *testing.T, nodes int) (*live.Cluster, *client.Client) {
	t.Helper()
	cluster, err := live.Start(nodes)
	if err != nil {
		t.Fatal(err)
	}
	c, err := cluster.Client()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	return cluster, c
}

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// Calls of every kind go on while the leader is killed; each write takes effect
// once.
func TestLeaderIsKilled(t *testing.T) {
	cluster, c := start(t, 3)
	ctx := bounded(t)
	const jobs = 60
	errs := make(chan error, jobs)
	for i := range jobs {
		go func() {
			id := fmt.Sprintf("j%d", i)
			_, err := c.Enqueue(ctx, client.NewJob{ID: id, Type: "t", Delay: time.Hour})
			if err == nil && i%2 == 0 {
				var done client.Change
				if done, err = c.Cancel(ctx, id); err == nil && done.Duplicate {
					err = fmt.Errorf("%s was cancelled twice", id)
				}
			}
			errs <- err
		}()
		if i == jobs/2 {
			if err := cluster.KillLeader(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range jobs {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	q, err := c.Queue(ctx, "t")
	if err != nil || q.Cancelled != jobs/2 || q.Scheduled != jobs/2 {
		t.Errorf("%+v, %v", q, err)
	}
	n, err := c.DeleteWhere(ctx, client.Filter{Statuses: []string{v1.StatusCancelled}})
	if err != nil || n != jobs/2 {
		t.Errorf("deleted %d, %v", n, err)
	}
}
