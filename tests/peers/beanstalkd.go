package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/beanstalkd/go-beanstalk"

	"osqueue/tests/cluster"
	"osqueue/tests/measure"
)

func beanstalkdBinary() (string, error) {
	return program("run make peers as root, or install beanstalkd", "beanstalkd", "/usr/sbin/beanstalkd")
}

func checkBeanstalkd() error {
	_, err := beanstalkdBinary()
	return err
}

// beanstalkdQueue is one beanstalkd that syncs its log after each write.
type beanstalkdQueue struct {
	address string
	pid     int
}

func startBeanstalkd(p *measure.Place) (queue, error) {
	binary, err := beanstalkdBinary()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(p.Dir, "beanstalkd")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	host := cluster.FreshNet() + ".1"
	q := &beanstalkdQueue{address: host + ":11300"}
	if q.pid, err = launch(p, "beanstalkd", exec.Command(binary, "-l", host, "-p", "11300", "-b", dir, "-f0")); err != nil {
		return nil, err
	}
	return q, eventually("reach beanstalkd", func() error { return listens(q.address) })
}

func (q *beanstalkdQueue) roles() []role { return []role{{name: "server", pids: []int{q.pid}}} }

func (q *beanstalkdQueue) newCaller(int, int) (caller, error) {
	c, err := beanstalk.DialTimeout("tcp", q.address, stopLimit)
	if err != nil {
		return nil, err
	}
	return &beanstalkdCaller{conn: c}, nil
}

type beanstalkdCaller struct{ conn *beanstalk.Conn }

func (c *beanstalkdCaller) close() { _ = c.conn.Close() }

func (c *beanstalkdCaller) enqueue(_ context.Context, payload []byte) error {
	_, err := c.conn.Put(payload, 0, 0, time.Minute)
	return err
}

func (c *beanstalkdCaller) claim(context.Context) (job, error) {
	id, body, err := c.conn.Reserve(claimWait)
	if errors.Is(err, beanstalk.ErrTimeout) {
		return job{}, errNoJob
	}
	if err != nil {
		return job{}, err
	}
	return job{payload: body, complete: func(context.Context) error { return c.conn.Delete(id) }}, nil
}
