package main

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	"github.com/hibiken/asynq"

	"osqueue/tests/cluster"
	"osqueue/tests/measure"
)

func redisBinary() (string, error) {
	return program("run make peers as root, or install redis-server", "redis-server")
}

func checkRedis() error {
	_, err := redisBinary()
	return err
}

// asynqPoll is how often a server of asynq without jobs looks for a job. The default is a second.
const asynqPoll = 2 * time.Millisecond

// asynqQueue is one Redis whose append-only file is synced before each answer.
type asynqQueue struct {
	address string
	pid     int
}

func startAsynq(p *measure.Place) (queue, error) {
	binary, err := redisBinary()
	if err != nil {
		return nil, err
	}
	host := cluster.FreshNet() + ".1"
	q := &asynqQueue{address: host + ":6379"}
	q.pid, err = launch(p, "redis", exec.Command(binary, "--bind", host, "--port", "6379", "--dir", p.Dir, "--save", "",
		"--appendonly", "yes", "--appendfsync", "always"))
	if err != nil {
		return nil, err
	}
	return q, eventually("reach Redis", func() error { return listens(q.address) })
}

func (q *asynqQueue) roles() []role { return []role{{name: "server", pids: []int{q.pid}}} }

func (q *asynqQueue) newCaller(int, int) (caller, error) {
	return &asynqCaller{asynq.NewClient(asynq.RedisClientOpt{Addr: q.address, PoolSize: 1})}, nil
}

type asynqCaller struct{ client *asynq.Client }

func (c *asynqCaller) close() { _ = c.client.Close() }

func (c *asynqCaller) enqueue(ctx context.Context, payload []byte) error {
	_, err := c.client.EnqueueContext(ctx, asynq.NewTask(jobType, payload))
	return err
}

// work runs a server of asynq. It removes a job from Redis after its handler has returned.
func (q *asynqQueue) work(ctx context.Context, workers int, h handlers) error {
	s := asynq.NewServer(asynq.RedisClientOpt{Addr: q.address, PoolSize: workers + 8}, asynq.Config{
		Concurrency: workers, TaskCheckInterval: asynqPoll, ShutdownTimeout: stopLimit, LogLevel: asynq.FatalLevel,
	})
	err := s.Start(asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error {
		h.taken(t.Payload())
		h.completed()
		return nil
	}))
	if err != nil {
		return fmt.Errorf("start the server of asynq: %w", err)
	}
	<-ctx.Done()
	s.Shutdown()
	return nil
}
