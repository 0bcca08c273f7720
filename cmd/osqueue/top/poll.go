package top

import (
	"context"
	"errors"
	"iter"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
)

const (
	minutesShown = 30
	typesMost    = 1000 // types that one poll reads, those whose jobs wait longest
)

// figures are the result of one poll.
type figures struct {
	at      time.Time
	nodes   []client.NodeStatus
	types   []v1.Queue
	more    bool // there are more types than typesMost
	workers []v1.Worker
	history v1.History
	err     error // why types, workers or history are those of an earlier poll
}

// cluster is the part of the client that a poll uses.
type cluster interface {
	StatusAll(ctx context.Context) []client.NodeStatus
	QueuesBy(ctx context.Context, sort string) iter.Seq2[v1.Queue, error]
	Workers(ctx context.Context) ([]v1.Worker, error)
	History(ctx context.Context, jobType string, minutes int) (v1.History, error)
}

// poller asks the cluster.
type poller struct {
	c       cluster
	timeout time.Duration
}

// poll returns the present figures. If the cluster does not answer, it keeps those of last.
func (p *poller) poll(last figures) figures {
	ctx, cancel := context.WithTimeout(context.Background(), p.timeout)
	defer cancel()
	now := figures{at: time.Now(), nodes: p.c.StatusAll(ctx)}
	var errs [3]error
	now.types, now.more, errs[0] = p.types(ctx)
	now.workers, errs[1] = p.c.Workers(ctx)
	now.history, errs[2] = p.c.History(ctx, "", minutesShown)
	if now.err = errors.Join(errs[:]...); now.err != nil {
		now.at, now.types, now.more, now.workers, now.history = last.at, last.types, last.more, last.workers, last.history
	}
	return now
}

func (p *poller) types(ctx context.Context) (out []v1.Queue, more bool, err error) {
	for q, err := range p.c.QueuesBy(ctx, v1.SortOldestAt) {
		if err != nil {
			return nil, false, err
		}
		if len(out) == typesMost {
			return out, true, nil
		}
		out = append(out, q)
	}
	return out, false, nil
}
