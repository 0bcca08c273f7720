package workload

import (
	"bytes"
	"context"
	"io"
	"strings"

	"osqueue/client"
	"osqueue/tests/history"
)

// fileBytes is the size of the artefacts: more than a read of a connection.
const fileBytes = 100_000

// attach gives a job that the worker has an artefact, under a name that is not used again.
func (l *Load) attach(ctx context.Context, a *actor, lease client.Lease) {
	op, value := report(history.Attach, lease), fresh()
	op.Name, op.Value = client.NewID(), string(value)
	file, err := a.client.Upload(ctx, lease.JobID, op.Name, bytes.NewReader(bytes.Repeat(value, fileBytes/len(value))))
	if err != nil {
		return // the bucket is away
	}
	op = l.write(ctx, a, op, func(ctx context.Context, _ *history.Op) error { return a.client.Attach(ctx, lease, file) })
	if op.Outcome != history.Refused {
		l.files.job(op.Job + " " + op.Name)
	}
}

// open reads an artefact to its end.
func (l *Load) open(ctx context.Context, a *actor) {
	job, name, ok := strings.Cut(l.files.one(a), " ")
	if !ok {
		return
	}
	op := l.rec.Begin(history.Op{Client: a.name, Kind: history.Open, Job: job, Name: name})
	value, err := readArtefact(ctx, a.client, job, name)
	l.judgeRead(&op, err)
	op.Value = value
	l.rec.Op(op)
}

// readArtefact returns the value that the bytes of an artefact repeat, or all of them if they do not.
func readArtefact(ctx context.Context, c *client.Client, job, name string) (string, error) {
	r, err := c.OpenArtefact(ctx, job, name)
	if err != nil {
		return "", err
	}
	all, err := io.ReadAll(r)
	if closed := r.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return "", err
	}
	value := all[:min(len(fresh()), len(all))]
	if len(value) == 0 || !bytes.Equal(all, bytes.Repeat(value, len(all)/len(value))) {
		value = all
	}
	return string(value), nil
}
