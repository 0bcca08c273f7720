package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"osqueue/api/core"
	"osqueue/client"
	"osqueue/cluster"
	"osqueue/cmd/osqueue/view"
	"osqueue/internal/inbox"
	"osqueue/storage"
	"osqueue/storage/bucketurl"
)

// dropFlags are the flags of "osqueue drop": the flags of submit that work without a
// server, and the place of the job.
type dropFlags struct {
	submitFlags
	bucket string
	fresh  bool
}

func newDropCommand(g *view.Globals) *cobra.Command {
	f := &dropFlags{}
	cmd := &cobra.Command{
		Use:   "drop [TYPE] [PAYLOAD]",
		Short: "Put a job into the inbox of a bucket, without a cluster",
		Long: `Writes a job to the bucket, as inbox/<id>.json, and prints its id. The command needs no
node: the active leader enqueues the job when it next reads the inbox, exactly once,
and removes the file. It moves a job that it rejects to inbox-rejected/, next to a file
with the reason.

PAYLOAD is JSON, or any text with --text; with -, or if stdin is a pipe, it is read from
stdin. --delay counts from the time at which the leader enqueues the job.

An id is used once, also after a rejection. Commands with the same --id add the job
once, as long as the queue remembers it.

With --unique KEY[:SCOPE] nothing is added while another job of the type holds
KEY; the file is removed, and the leader's log names that job.
` + view.UniqueForm + "\n\n" + view.BackoffHelp,
		Example: `  osqueue drop --bucket file:///srv/osqueue wc '"three little words"'
  date | osqueue drop --bucket s3://jobs/prod?region=eu-central-1 --type log --text
  osqueue drop --bucket gs://jobs/prod report --id report-2026-12-24 --run-at '2026-12-24 18:00'`,
		RunE: func(cmd *cobra.Command, args []string) error { return runDrop(cmd.Context(), g, f, args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.bucket, "bucket", g.Getenv(view.EnvPrefix+"BUCKET"), "the bucket of the cluster: "+bucketurl.Forms+" (environment: OSQUEUE_BUCKET)")
	flags.BoolVar(&f.fresh, "new", false, "write the job even if no cluster has written to the bucket yet")
	flags.StringVar(&f.id, "id", "", "id of the job: letters, digits and . _ ~ = + @ , : - (default: a fresh UUID)")
	f.bindJob(cmd)
	return cmd
}

func runDrop(ctx context.Context, g *view.Globals, f *dropFlags, args []string) error {
	argument, err := f.arguments(args, "osqueue drop --bucket URL TYPE [PAYLOAD]")
	if err != nil {
		return err
	}
	if err := errors.Join(f.check(), f.checkBucket()); err != nil {
		return err
	}
	f.id = cmp.Or(f.id, client.NewID())
	job, err := f.one(ctx, g, argument)
	if err != nil {
		return err
	}
	body, err := f.body(ctx, g, job)
	if err != nil {
		return err
	}
	key, err := inbox.Key(f.id)
	if err != nil {
		return view.Usagef("--id: %w", err)
	}
	if err := notePast(g, f.runAt); err != nil {
		return err
	}
	p := &pipeline{
		g: g, progress: g.NewProgress(true), window: 1,
		enqueue: func(ctx context.Context, _ []client.NewJob) (client.BatchEnqueued, error) {
			ctx, cancel := context.WithTimeout(ctx, g.Timeout)
			defer cancel()
			return client.BatchEnqueued{JobIDs: []string{f.id}}, f.put(ctx, g, body)
		},
		each: func(*line) error {
			return g.Print(map[string]string{"jobId": f.id, "key": key}, "%s\n", f.id)
		},
	}
	return p.outcome(ctx, p.run(ctx, slices.Values([]*line{{job: job}})), "", "")
}

func (f *dropFlags) checkBucket() error {
	if f.bucket == "" {
		return view.Usagef("--bucket is missing: give the bucket of the cluster, for example --bucket file:///srv/osqueue")
	}
	if err := bucketurl.Check(f.bucket); err != nil {
		return view.Usagef("--bucket: %w", err)
	}
	if view.InMemory(f.bucket) {
		return view.Usagef("--bucket %s: a bucket in memory exists in one process only; give the bucket of the cluster", f.bucket)
	}
	return nil
}

// body returns the content of the file, in a form that the queue accepts.
func (f *dropFlags) body(ctx context.Context, g *view.Globals, job client.NewJob) ([]byte, error) {
	keys, err := g.Cipher()
	if err != nil {
		return nil, err
	}
	if job, err = client.Seal(ctx, keys, job); err != nil {
		return nil, err
	}
	body, err := client.EncodeJob(job)
	if err != nil {
		return nil, err
	}
	now := func() int64 { return time.Now().UnixMilli() }
	if _, err := core.JobReader(core.Limits{}, core.MaxBodyBytes, nil, now)(f.id, body); err != nil {
		return nil, view.Usagef("the queue would reject the job: %w", err)
	}
	return body, nil
}

func (f *dropFlags) put(ctx context.Context, g *view.Globals, body []byte) error {
	if !f.fresh {
		if err := hasQueue(ctx, f.bucket); err != nil {
			return err
		}
	}
	b, err := bucketurl.Open(ctx, f.bucket)
	if err != nil {
		return fmt.Errorf("--bucket: %w", view.OpenError(err))
	}
	return errors.Join(f.explain(inbox.Put(ctx, b, f.id, body), g.Timeout), b.Close())
}

// explain adds the next step for the user to the error of a job that was not put, or
// perhaps was.
func (f *dropFlags) explain(err error, within time.Duration) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, inbox.ErrTaken):
		return fmt.Errorf("another job with the id %s waits in the inbox: give this job another --id", f.id)
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("the bucket did not confirm the job within %s (--timeout): %w", view.Short(within), err)
	}
	return fmt.Errorf("%w\nTo try again without adding a second job, give --id %s", err, f.id)
}

// hasQueue returns an error if a bucket has no document. It passes if the producer may only write.
func hasQueue(ctx context.Context, bucket string) error {
	b, err := bucketurl.OpenReadOnly(ctx, bucket)
	if err != nil {
		return fmt.Errorf("--bucket: %w", view.OpenError(err))
	}
	found := false
	err = b.List(ctx, cluster.DocumentKey, func(o storage.Info) bool {
		found = o.Key == cluster.DocumentKey
		return !found
	})
	if err != nil || found {
		return b.Close()
	}
	return errors.Join(b.Close(), fmt.Errorf("%s has no %s: check the URL and its prefix. Nothing was written; give --new to write the job "+
		"for a cluster that has not started yet", bucket, cluster.DocumentKey))
}
