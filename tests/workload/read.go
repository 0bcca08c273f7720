package workload

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/tests/history"
)

// read asks for an enqueued job, or for figures.
func (l *Load) read(ctx context.Context, a *actor) {
	job, lsn, ok := l.known.any(a)
	if !ok {
		return
	}
	switch n := a.rng.IntN(100); {
	case n < 20:
		l.open(ctx, a)
	case n < 50:
		l.readLeader(ctx, a, job)
	case n < 85:
		op := history.Op{Kind: history.GetJob, Job: job, MinLSN: lsn}
		var j v1.Job
		l.readNode(ctx, a, op, v1.PathJobs+"/"+url.PathEscape(job), &j, func(op *history.Op) { shown(op, &j) })
	default:
		op := history.Op{Kind: history.Stats, MinLSN: lsn}
		var s v1.Stats
		l.readNode(ctx, a, op, v1.PathStats, &s, func(op *history.Op) {
			var err error
			if op.LSN, err = history.ParseLSN(s.LSN); err != nil || op.LSN.IsZero() {
				l.fault(fmt.Errorf("operation %d: figures without an LSN: %w", op.ID, err))
			}
		})
	}
}

// shown records a job as the answer to a read has it.
func shown(op *history.Op, j *v1.Job) {
	op.Status, op.Token, op.Attempts, op.Result = j.Status, j.Token, int(j.Attempts), string(j.Result)
}

// readLeader sends a read to the current leader.
func (l *Load) readLeader(ctx context.Context, a *actor, job string) {
	op := l.rec.Begin(history.Op{Client: a.name, Kind: history.GetJob, Job: job})
	j, err := a.client.Job(ctx, job)
	l.judgeRead(&op, err)
	if err == nil {
		shown(&op, &j)
	}
	l.rec.Op(op)
}

// judgeRead is judge for reads: of the errors, only "not found" is an answer.
func (l *Load) judgeRead(op *history.Op, err error) {
	l.judge(op, err)
	if op.Outcome == history.Refused && op.Tag != v1.TagNotFound {
		op.Outcome = history.Unknown
	}
}

// readNode asks any one node for a state at least as new as the operation's LSN.
func (l *Load) readNode(ctx context.Context, a *actor, op history.Op, path string, into any, read func(*history.Op)) {
	op.Client, op.Node = a.name, l.servers[a.rng.IntN(len(l.servers))]
	op = l.rec.Begin(op)
	err := l.get(ctx, op.Node, path+"?"+v1.ParamMinLSN+"="+op.MinLSN.String(), into)
	l.judgeRead(&op, err)
	if err == nil {
		read(&op)
	}
	l.rec.Op(op)
}

// answerMax bounds the answers to these reads.
const answerMax = 1 << 20

// get reads an answer of the given node itself.
func (l *Load) get(ctx context.Context, server, path string, into any) error {
	if !strings.Contains(server, "://") {
		server = "http://" + server
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server+path, nil)
	if err != nil {
		return err
	}
	resp, err := l.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, answerMax))
	if err != nil {
		return err
	}
	if resp.StatusCode == http.StatusOK {
		return json.Unmarshal(body, into)
	}
	var p v1.Problem
	_ = json.Unmarshal(body, &p) // else it has no name
	return &client.Error{Op: "read", Status: resp.StatusCode, Tag: p.Tag, Message: p.Detail, Committed: client.CommittedNo}
}
