package serve

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"

	"osqueue/api/core"
	"osqueue/cluster"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/tenants"
	"osqueue/internal/auth"
	"osqueue/internal/inbox"
	"osqueue/storage"
	"osqueue/storage/cost"
)

// inboxOptions are the flags for what the inbox takes, and how often it is listed.
type inboxOptions struct {
	types    []string
	interval *time.Duration // nil: that of the store
	idle     *time.Duration // nil: that of the store, or interval
	cfg      inbox.Config   // of the flags, set by complete
}

// complete checks the flags together, with the defaults of the store. If only the interval
// is given, it is also used while the inbox is empty.
func (o *inboxOptions) complete(interval, idle time.Duration) error {
	if err := auth.CheckGlobs(o.types); err != nil {
		return fmt.Errorf("--inbox-types: %w", err)
	}
	interval, idle = given(o.interval, interval), given(o.idle, idle)
	if interval == 0 || o.interval != nil && o.idle == nil {
		idle = interval
	}
	if idle < interval {
		return fmt.Errorf("--inbox-idle-interval %v: must not be shorter than --inbox-interval, %v", idle, interval)
	}
	o.cfg = inbox.Config{Interval: interval, IdleInterval: idle}
	return nil
}

// repeated returns the listings of an inbox in which no file arrives.
func (o *inboxOptions) repeated() cost.Repeated {
	return cost.Repeated{
		Name: "a listing of the inbox", Every: o.cfg.IdleInterval, Counts: cost.Counts{Lists: 1}, Flag: "--inbox-idle-interval",
	}
}

// newBox returns the inbox of a bucket. The node runs it while it leads.
func (o *inboxOptions) newBox(bucket storage.Bucket, log hclog.Logger) *inbox.Box {
	cfg := o.cfg
	cfg.Bucket, cfg.Log = bucket, log.Named("inbox")
	return inbox.New(cfg)
}

// mayEnqueue returns the rule for the types of files. Where producers need tokens, only some may start
// programs, and a file has no token.
func (o *inboxOptions) mayEnqueue(security *securityOptions) func(jobType string) bool {
	return func(jobType string) bool {
		if len(o.types) > 0 {
			return tenants.Within(o.types, jobType)
		}
		return security.mode != core.SecurityOn || len(security.programs) == 0 || !tenants.Within(security.programs, jobType)
	}
}

// empty runs the inbox while a node leads. A file may have bodyLimit bytes.
func empty(box *inbox.Box, bodyLimit int64, mayEnqueue func(jobType string) bool) func(context.Context, *cluster.Node) {
	return func(ctx context.Context, n *cluster.Node) {
		box.Run(ctx, inboxQueue{Node: n, read: core.JobReader(core.Limits{}, bodyLimit, mayEnqueue, n.Now)})
	}
}

// inboxQueue is a node as the inbox sees it. A file is a job by the rules of POST /v1/jobs.
type inboxQueue struct {
	*cluster.Node
	read func(id string, data []byte) (*fsmpb.Mutation, error)
}

// Enqueue implements inbox.Queue.
func (q inboxQueue) Enqueue(ctx context.Context, files []inbox.File) ([]inbox.Answer, fsm.LSN, error) {
	answers := make([]inbox.Answer, len(files))
	var jobs []*fsmpb.Mutation
	var of []int // index of the file of each job
	for i, f := range files {
		m, err := q.read(f.ID, f.Data)
		if err != nil {
			answers[i].Defect = err
			continue
		}
		m.Request = f.Request
		jobs, of = append(jobs, m), append(of, i)
	}
	if len(jobs) == 0 {
		return answers, fsm.LSN{}, nil
	}
	results, lsn, err := q.ProposeAll(ctx, jobs)
	if err != nil {
		return nil, fsm.LSN{}, err
	}
	for i, res := range results {
		answers[of[i]].Result = res
	}
	return answers, lsn, nil
}

var (
	descFiles = desc("inbox_files_total", "Files that this node has removed from the inbox, by result: enqueued, repeated without a new "+
		"job, or rejected.", "outcome")
	descFilesWaiting = desc("inbox_files_waiting", "Files in the inbox that can become jobs (active leader only).")
	descInboxFailing = desc("inbox_failing", "1 while the inbox cannot be emptied (active leader only).")
)

// inboxCollector sends the figures of the inbox at each scrape.
func inboxCollector(node *cluster.Node, box *inbox.Box) collect {
	return func(out sender) {
		s := box.Stats()
		out.counter(descFiles, float64(s.Taken), "taken")
		out.counter(descFiles, float64(s.Repeated), "repeated")
		out.counter(descFiles, float64(s.Rejected), "rejected")
		if _, active := node.Leader(); active {
			out.gauge(descFilesWaiting, float64(s.Waiting))
			out.gauge(descInboxFailing, oneIf(s.Failing != ""))
		}
	}
}
