package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/tests/cluster"
	"osqueue/tests/cluster/store"
	"osqueue/tests/replay/needs"
)

// The ways in which the leader dies during a call.
const (
	dieBefore     = "before it"             // no broker receives the request
	dieUnanswered = "before it has read it" // the request is on its way
	dieLost       = "with the answer"       // the request has been carried out
)

// step is the moment at which the leader dies.
type step struct{ call, how string }

func (s step) String() string { return s.call + ", " + s.how }

// oldLease is the time after which a job returns to the queue if its worker does not know that
// it has claimed the job.
const oldLease = 3 * time.Second

// The leader is killed during the flows of all clients of the original osqueue at once, in each
// call, in three ways. Each flow ends as without the fault: the job is completed, and no job is
// left.
func TestFailoverInOldFlows(t *testing.T) { //nolint:tparallel // steps follow each other
	t.Parallel()
	c, s := startOnStore(t, "--lease", oldLease.String())
	var flows []*flow
	for _, name := range []string{needs.REST, needs.WS, needs.Connect, needs.ConnectWeb} {
		for _, follows := range []bool{false, true} {
			f := &flow{name: name, c: c, find: byDocument(s), wire: newWire()}
			if follows {
				f.name, f.find, f.follows = name+"-follower", aFollower(c), true
			}
			f.client = needs.NewClient(name, f.wire.http)
			flows = append(flows, f)
		}
	}
	playSteps(t, c, flows)
	checkBucket(t, c, s)
}

// The same with the clients of dtq, which get tasks of any type.
func TestFailoverInOldFlowsOfDTQ(t *testing.T) { //nolint:tparallel // steps follow each other
	t.Parallel()
	c, s := startOnStore(t, "--lease", oldLease.String())
	w := newWire()
	f := &flow{name: "dtq", c: c, find: byStatus(c), wire: w}
	f.client = newDTQClient("w-dtq", w)
	playSteps(t, c, []*flow{f})
	checkBucket(t, c, s)
}

func playSteps(t *testing.T, c *cluster.Cluster, flows []*flow) {
	t.Helper()
	defer func() {
		for _, f := range flows {
			f.client.Close()
		}
	}()
	for _, call := range []string{needs.Submit, needs.Claim, needs.Heartbeat, needs.Complete} {
		for _, how := range []string{dieBefore, dieUnanswered, dieLost} {
			if testing.Short() && how != dieLost {
				continue
			}
			s := step{call, how}
			if !t.Run(s.String(), func(t *testing.T) { playStep(t, c, s, flows) }) {
				return
			}
		}
	}
}

// playStep lets all flows reach the step, kills the leader, and lets the flows end.
func playStep(t *testing.T, c *cluster.Cluster, s step, flows []*flow) {
	leader := c.WaitLeader()
	d := &death{step: s, leader: leader, together: newBarrier(len(flows))}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	errs := make([]error, len(flows))
	var wg sync.WaitGroup
	for i, f := range flows {
		wg.Go(func() {
			if errs[i] = f.play(ctx, d); errs[i] != nil {
				cancel() // the others may wait for this one
				errs[i] = fmt.Errorf("%s: %w; its calls:\n%s", f.name, errs[i], strings.Join(f.calls, "\n"))
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if leader.Running() {
		t.Fatal("the leader was not killed")
	}
	leader.Start()
	c.Eventually(cluster.LeaderTimeout, "three nodes", func() error {
		for _, n := range c.Nodes {
			if s, err := n.Status(); err != nil || s.LeaderAddress == nil {
				return fmt.Errorf("%s: %w, leader %v", n.Name, err, s.LeaderAddress)
			}
		}
		return nil
	})
	stats, err := c.Client.Stats(c.Context(10 * time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if left := stats.Unclaimed + stats.InProgress + stats.Scheduled + stats.Blocked + stats.Dead; left > 0 {
		t.Errorf("%d jobs are left: %+v", left, stats)
	}
}

// death is the death of the leader, in a step that all flows have reached.
type death struct {
	step     step
	leader   *cluster.Node
	together *barrier
}

// in makes a call of a flow. The leader dies in the first call of that name.
func (d *death) in(ctx context.Context, f *flow, call string, do func() error) error {
	return f.note(call, d.through(ctx, f, call, do), "")
}

func (d *death) through(ctx context.Context, f *flow, call string, do func() error) error {
	if call != d.step.call || f.seen {
		return do()
	}
	f.seen = true
	switch d.step.how {
	case dieBefore:
		d.together.meet(ctx, d.leader.Kill)
		return do()
	case dieUnanswered:
		d.together.meet(ctx, d.leader.Pause)
		done := make(chan error, 1)
		go func() { done <- do() }()
		time.Sleep(100 * time.Millisecond) // for the request to be on its way; it is not read before the kill
		d.together.meet(ctx, d.leader.Kill)
		return <-done
	default:
		f.wire.loseNext(func() { d.together.meet(ctx, d.leader.Kill) })
		return do()
	}
}

// barrier is a reusable barrier for n goroutines.
type barrier struct {
	mu   sync.Mutex
	n    int
	here int
	open chan struct{}
}

func newBarrier(n int) *barrier { return &barrier{n: n, open: make(chan struct{})} }

// meet waits for the other goroutines. The last one calls do before all continue.
func (b *barrier) meet(ctx context.Context, do func()) {
	b.mu.Lock()
	b.here++
	open := b.open
	if b.here < b.n {
		b.mu.Unlock()
		select {
		case <-open:
		case <-ctx.Done():
		}
		return
	}
	do()
	b.here, b.open = 0, make(chan struct{})
	b.mu.Unlock()
	close(open)
}

// flow is a producer and a worker: the producer submits a job, the worker runs the available
// jobs.
type flow struct {
	name   string
	c      *cluster.Cluster
	client oldClient
	wire   *wire
	find   func(context.Context) (broker string, err error)

	follows bool // the client is at a follower

	seen  bool     // the step's call was made
	calls []string // of this step, for people
}

// note records the result of a call.
func (f *flow) note(call string, err error, about string) error {
	f.calls = append(f.calls, fmt.Sprintf("%s %s %s: %v", time.Now().Format("05.000"), call, about, err))
	return err
}

// play runs a flow. It handles errors as the old clients do: the producer tries again, the
// worker reconnects after a failed claim, and ignores the result of a heartbeat or a
// completion.
func (f *flow) play(ctx context.Context, d *death) error {
	f.seen, f.calls = false, nil
	if err := f.reconnect(ctx); err != nil {
		return err
	}
	id, err := f.submit(ctx, d)
	if err != nil {
		return err
	}
	p, unsure := needs.Params{Worker: "w-" + f.name, Type: f.name}, int32(0)
	if d.step.call == needs.Claim && d.step.how != dieLost && !f.follows {
		unsure = -1 // that one certainly was not carried out
	}
	for {
		if over, err := f.over(ctx, id, 1+unsure); over || err != nil {
			return err
		}
		err := d.in(ctx, f, needs.Claim, func() (err error) {
			p.Job, err = f.client.Call(ctx, needs.Claim, p)
			return err
		})
		switch {
		case err != nil:
			unsure++
			if err := f.reconnect(ctx); err != nil {
				return err
			}
		case p.Job == "":
			pause(ctx, 100*time.Millisecond)
		default:
			report := func(method string) error {
				return d.in(ctx, f, method, func() error {
					_, err := f.client.Call(ctx, method, p)
					return err
				})
			}
			_ = report(needs.Heartbeat)
			err := report(needs.Complete)
			if err != nil && d.step != (step{needs.Complete, dieLost}) { // in that case it was carried out
				unsure++
			}
		}
	}
}

func (f *flow) submit(ctx context.Context, d *death) (id string, err error) {
	for ctx.Err() == nil {
		err = d.in(ctx, f, needs.Submit, func() (err error) {
			id, err = f.client.Call(ctx, needs.Submit, needs.Params{Type: f.name})
			return err
		})
		if err == nil {
			return id, nil
		}
		if err := f.reconnect(ctx); err != nil {
			return "", err
		}
	}
	return "", ctx.Err()
}

// reconnect looks for a broker until one accepts the connection.
func (f *flow) reconnect(ctx context.Context) error {
	for {
		broker, err := f.find(ctx)
		if err == nil {
			err = f.note("connect", f.client.Connect(ctx, "http://"+broker), broker)
		}
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("there is no broker: %w", err)
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// over reports whether the flow's job is completed, and no other job of its type is left. A job
// is claimed again only if its worker did not get the answer to the claim, or could not report
// the completion. attempts is the maximum number of claims.
func (f *flow) over(ctx context.Context, id string, attempts int32) (bool, error) {
	if !f.seen {
		return false, ctx.Err() // the leader still has to die
	}
	j, err := f.c.Client.Job(ctx, id)
	if err != nil {
		return false, fmt.Errorf("job %s: %w", id, err)
	}
	if j.Attempts > attempts {
		return false, fmt.Errorf("job %s was handed out %d times", id, j.Attempts)
	}
	if j.Status != v1.StatusCompleted {
		return false, nil
	}
	q, err := f.c.Client.Queue(ctx, f.name)
	return err == nil && q.Unclaimed+q.InProgress == 0, err
}

// byDocument finds the broker as the original's clients do, in the document.
func byDocument(s *store.Store) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		o, err := s.Bucket().Get(ctx, "queue.json")
		if err != nil {
			return "", err
		}
		var d struct{ Broker string }
		err = json.Unmarshal(o.Data, &d)
		return d.Broker, err
	}
}

// aFollower returns a node that does not lead, because a DNS name may resolve to any node.
func aFollower(c *cluster.Cluster) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		for _, n := range c.Nodes {
			if s, err := n.Status(); err == nil && s.State == v1.StateFollower {
				return n.HTTP, nil
			}
		}
		return "", errors.New("no node follows")
	}
}

// byStatus asks each broker for its status, as dtq's worker does.
func byStatus(c *cluster.Cluster) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		for _, n := range c.Nodes {
			if s, err := n.Status(); err == nil && s.State == v1.StateLeader {
				return n.HTTP, nil
			}
		}
		return "", errors.New("no node leads")
	}
}
