package client

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"sync"

	v1 "osqueue/client/api/v1"
)

// Stats returns the counters of the queue.
func (c *Admin) Stats(ctx context.Context) (v1.Stats, error) {
	return sendRead[v1.Stats](ctx, c.caller, call{op: "stats", path: v1.PathStats})
}

// StatsByType returns the counters of the queue, in total and by type.
func (c *Admin) StatsByType(ctx context.Context) (v1.Stats, error) {
	return sendRead[v1.Stats](ctx, c.caller, call{op: "stats", path: v1.PathStats, query: url.Values{v1.ParamTypes: {"true"}}})
}

// Past returns the pieces of the history that the bucket has. At selects a state in them.
func (c *Admin) Past(ctx context.Context) (v1.Past, error) {
	return send[v1.Past](ctx, c.caller, call{op: "list earlier states", path: v1.PathPast})
}

// History returns the figures of the last minutes, the present one last, of the jobs of a
// type or, if jobType is "", of all. v1.QueueName("") names the jobs without type.
func (c *Admin) History(ctx context.Context, jobType string, minutes int) (v1.History, error) {
	q := url.Values{v1.ParamMinutes: {strconv.Itoa(minutes)}}
	if jobType != "" {
		q.Set(v1.ParamType, jobType)
	}
	return sendRead[v1.History](ctx, c.caller, call{op: "history", path: v1.PathHistory, query: q})
}

// State returns the queue's document as JSON. Its size grows with the queue; see
// Config.MaxAnswerBytes.
func (c *Admin) State(ctx context.Context) (json.RawMessage, error) {
	return send[json.RawMessage](ctx, c.caller, call{op: "state", path: v1.PathState})
}

// Status returns the status of the cluster as the leader sees it. If there is no
// leader, any node answers.
func (c *Admin) Status(ctx context.Context) (v1.Status, error) {
	return send[v1.Status](ctx, c.caller, call{op: "status", path: v1.PathStatus})
}

// NodeStatus is the answer of one server to StatusAll.
type NodeStatus struct {
	Server string
	Status v1.Status // valid if Err is nil
	Err    error
}

// StatusAll asks every server once, all at the same time, for its status. The
// answers are in the order of Servers.
func (c *Admin) StatusAll(ctx context.Context) []NodeStatus {
	nodes := make([]NodeStatus, len(c.cfg.Servers))
	var wg sync.WaitGroup
	for i, server := range c.cfg.Servers {
		wg.Go(func() {
			status, err := c.statusOf(ctx, server)
			nodes[i] = NodeStatus{Server: server, Status: status, Err: err}
		})
	}
	wg.Wait()
	return nodes
}

// Ready returns nil if the given server reports that it is ready to serve.
func (c *Admin) Ready(ctx context.Context, server string) error {
	base, err := c.cfg.baseURL(server)
	if err != nil {
		return local("ready", err)
	}
	return c.askOnce(ctx, base, call{op: "ready", path: v1.PathReadyz}, func(answer) error { return nil })
}

// statusOf asks one server for its status.
func (c *caller) statusOf(ctx context.Context, server string) (v1.Status, error) {
	var status v1.Status
	err := c.askOnce(ctx, server, call{op: "status", path: v1.PathStatus}, func(body answer) error { return body.decode(&status) })
	return status, err
}

// askOnce makes one attempt at one server.
func (c *caller) askOnce(ctx context.Context, server string, k call, accept func(answer) error) error {
	tgt := newTarget(server, false, 0)
	o := c.attempt(ctx, tgt, k, accept)
	if o.err == nil && o.status/100 == 2 {
		return nil
	}
	t := &trial{call: k}
	t.note(tgt, o, verdict{})
	return t.fail(nil)
}
