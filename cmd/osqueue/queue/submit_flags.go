package queue

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
)

// submitFlags are the flags of "osqueue submit".
type submitFlags struct {
	jobFlags
	kind         string
	typed        bool // a type is given, which may be ''
	id           string
	runAt        view.Time
	delay        time.Duration
	after        []string
	afterFailure string
	batch        string
	key          string // idempotency key
	text         bool
	file         string
	wait         bool
	waitFor      time.Duration
	keepOrder    bool
	quiet        bool
}

// arguments splits TYPE and PAYLOAD; usage is for the error if TYPE is missing. A nil
// payload means that the payload comes from stdin.
func (f *submitFlags) arguments(args []string, usage string) (payload *string, err error) {
	f.typed = f.flags.Changed("type")
	if !f.typed && len(args) > 0 {
		f.kind, f.typed, args = args[0], true, args[1:]
	}
	switch {
	case !f.typed && f.file == "":
		return nil, view.Usagef("TYPE is missing: give the type of the job, or '' for a job without type\nUsage: %s", usage)
	case len(args) > 1:
		return nil, view.Usagef("%q and %q: with --type only PAYLOAD may follow", args[0], args[1])
	case len(args) == 1 && f.file != "":
		return nil, view.Usagef("PAYLOAD and --file exclude each other")
	case len(args) == 1:
		return &args[0], nil
	}
	return nil, nil
}

func (f *submitFlags) check() error {
	if err := f.jobFlags.check(); err != nil {
		return err
	}
	switch {
	case f.delay < 0:
		return view.Usagef("--delay %v: must not be negative", f.delay)
	case f.delay > 0 && f.runAt.Text != "":
		return view.Usagef("--delay and --run-at exclude each other")
	case f.afterFailure != "" && !slices.Contains(afterFailures, f.afterFailure):
		return view.Usagef("--after-failure %q: use %s", f.afterFailure, strings.Join(afterFailures, ", "))
	case f.unique.Text != "" && f.file != "":
		return view.Usagef("--unique is for one job; in a file of jobs give each line a uniqueKey of its own")
	case f.waitFor <= 0:
		return view.Usagef("--wait-for %v: must be positive", f.waitFor)
	case f.text && f.file != "" && !f.typed:
		return view.Usagef("--text with --file needs a type: the lines are payloads then")
	}
	return nil
}

var afterFailures = []string{v1.AfterBlock, v1.AfterCancel, v1.AfterRun}

// job returns a job with the values of the flags.
func (f *submitFlags) job(payload []byte) client.NewJob {
	job := f.jobFlags.job()
	job.ID, job.Type, job.Payload = f.id, f.kind, payload
	job.RunAt, job.Delay = f.runAt.At, f.delay
	job.After, job.AfterFailure, job.BatchID = f.after, f.afterFailure, f.batch
	return job
}

// withKey adds an idempotency key to the writes of ctx, if there is one.
func withKey(ctx context.Context, key string) context.Context {
	if key == "" {
		return ctx
	}
	return client.WithIdempotencyKey(ctx, key)
}

// notePast warns if the time to run is in the past: such a job runs at once.
func notePast(g *view.Globals, runAt view.Time) error {
	if runAt.Text == "" || !runAt.At.Before(time.Now().Add(-time.Second)) {
		return nil
	}
	return view.WritePlain(g.Err, fmt.Sprintf("warning: --run-at %s is in the past (%s): the job runs at once\n",
		runAt.Text, view.LocalTime(runAt.At.UnixMilli())))
}
