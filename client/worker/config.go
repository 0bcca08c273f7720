package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"runtime"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
)

// Queue is the part of a cluster's API that a worker uses; *client.Client
// implements it. All methods are safe for concurrent use, return soon after their
// context ends, and repeat requests as far as that is safe. A refusal is a
// *client.Error.
type Queue interface {
	// Claim leases jobs to the worker. A claim with the same request id returns the
	// same jobs, with the present age of their leases.
	Claim(ctx context.Context, opts client.ClaimOptions) ([]client.ClaimedJob, error)
	// Heartbeat extends the leases of one worker and sends the progress of the
	// jobs. The answers are in the order of leases.
	Heartbeat(ctx context.Context, worker string, leases []client.Lease) ([]client.Beat, error)
	// CompleteBatch, FailBatch and ReleaseBatch end claims of one worker, each
	// independently of the others. The answers are in the order of the jobs.
	// Repeated, they succeed again.
	CompleteBatch(ctx context.Context, worker string, jobs []client.Completion) ([]client.Beat, error)
	FailBatch(ctx context.Context, worker string, jobs []client.FailedJob) ([]client.Beat, error)
	ReleaseBatch(ctx context.Context, worker string, leases []client.Lease) ([]client.Beat, error)
	// CompleteAndClaim is CompleteBatch for the worker that claims, and Claim without a wait, in one call.
	CompleteAndClaim(ctx context.Context, jobs []client.Completion, next client.ClaimOptions) ([]client.Beat, []client.ClaimedJob, error)
	// Throttle holds a limit of a claimed job for d.
	Throttle(ctx context.Context, l client.Lease, key string, d time.Duration) error
	// StoreStep stores the value of a step of a claimed job, and returns the one that the job has. Suspend ends a claim,
	// which does not count as an attempt. Repeated, they succeed again.
	StoreStep(ctx context.Context, l client.Lease, name string, value json.RawMessage) (json.RawMessage, error)
	Suspend(ctx context.Context, l client.Lease, s client.Suspension) error
	// CreateBatch makes the children of a claimed job; Batch and Job read them.
	CreateBatch(ctx context.Context, b client.NewBatch) (v1.BatchCreated, error)
	Batch(ctx context.Context, id string) (v1.BatchInfo, error)
	Job(ctx context.Context, id string) (v1.Job, error)
	// PutArtefact and OpenArtefact write and read an artefact of a claimed job.
	PutArtefact(ctx context.Context, l client.Lease, name string, r io.Reader) error
	OpenArtefact(ctx context.Context, jobID, name string) (io.ReadCloser, error)
	// RegisterWorker registers the worker. It is also the keepalive of an idle
	// worker.
	RegisterWorker(ctx context.Context, info client.WorkerInfo) error
	// RemoveInstance removes the registration of the worker, unless another instance has
	// registered since, and releases the jobs of the instance.
	RemoveInstance(ctx context.Context, name, instance string) error
	// SendLogs sends parts of logs and returns the running jobs of the worker that a reader
	// follows. Without parts it waits for such a job.
	SendLogs(ctx context.Context, worker string, parts []client.LogPart, wait time.Duration) ([]client.WantedLog, error)
}

// The defaults of Config.
const (
	DefaultPollWait    = 10 * time.Second
	DefaultKeepAlive   = 10 * time.Second
	DefaultStopTimeout = 30 * time.Second
)

const (
	// leastTime is the minimum of all repetition intervals.
	leastTime = 10 * time.Millisecond
	// mostJobs is far above any practical capacity; it keeps sums within an int.
	mostJobs = 1_000_000
)

// Config configures a worker. The zero value is valid.
type Config struct {
	// Name identifies the worker. No other running worker may use the same name.
	// Default: host, process and a random part.
	Name string
	// Concurrency is the number of jobs that run at once. Default: GOMAXPROCS.
	Concurrency int
	// Prefetch is how many jobs the worker may hold in addition to Concurrency:
	// claimed ahead, or finished and not reported yet. For many short jobs it
	// should cover the jobs that end within a few round trips. Jobs that wait here
	// can run only on this worker, and their timeouts run. Default: 0, which claims
	// nothing ahead.
	Prefetch int
	// PerType limits how many jobs of a type run at once, within Concurrency. A
	// type without an entry has no limit of its own. PerType cannot be combined
	// with HandleAny, because a claim of all types cannot leave one out.
	PerType map[string]int
	// Lease is the lease that each claim asks for. 0 means the lease of the job, or
	// else the server's default.
	Lease time.Duration
	// PollWait is how long a claim waits at the server for a job. 0 means the
	// default: a worker cannot poll without a wait.
	PollWait time.Duration
	// KeepAlive is the longest time without a request to the cluster, which
	// declares a worker dead after a minute, unless serve --worker-timeout says otherwise.
	KeepAlive time.Duration
	// StopTimeout is how long handlers may continue after the context of Run ends.
	// A negative value ends them at once. Their contexts then end, they have 4 s to
	// return, and the jobs that are left are released. If the cluster cannot be
	// reached, Run ends 12 s after StopTimeout (counted as at least 5 s); a
	// supervisor must wait longer before it kills the process.
	StopTimeout time.Duration
	// Version and Address appear in the list of workers.
	Version string
	Address string
	// Finished is called after each job, concurrently from several goroutines. It should return
	// soon, because the job uses capacity until then. The worker does not recover a panic in
	// it.
	Finished func(Finished)
	// Logger receives the log of the worker. Nil means no log.
	Logger *slog.Logger
}

var errNegative = errors.New("must not be negative")

// check refuses invalid values, and values that would make the worker call the cluster without
// a pause.
func (c Config) check() error {
	for name, n := range map[string]int{"concurrency": c.Concurrency, "prefetch": c.Prefetch} {
		if n < 0 {
			return fmt.Errorf("worker %s %d: %w", name, n, errNegative)
		}
		if n > mostJobs {
			return fmt.Errorf("worker %s %d: must be at most %d", name, n, mostJobs)
		}
	}
	for t, n := range c.PerType {
		if n < 1 {
			return fmt.Errorf("worker concurrency %d of type %q: must be at least 1", n, t)
		}
	}
	for name, d := range map[string]time.Duration{"lease": c.Lease, "poll wait": c.PollWait, "keep-alive": c.KeepAlive} {
		if d != 0 && d < leastTime {
			return fmt.Errorf("worker %s %v: must be at least %v, or 0 for the default", name, d, leastTime)
		}
	}
	return nil
}

func (c Config) withDefaults() (Config, error) {
	if err := c.check(); err != nil {
		return c, err
	}
	c.PerType = maps.Clone(c.PerType)
	c.Name, c.Concurrency = cmp.Or(c.Name, defaultName()), cmp.Or(c.Concurrency, runtime.GOMAXPROCS(0))
	c.PollWait, c.KeepAlive = cmp.Or(c.PollWait, DefaultPollWait), cmp.Or(c.KeepAlive, DefaultKeepAlive)
	c.StopTimeout, c.Logger = cmp.Or(c.StopTimeout, DefaultStopTimeout), cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Finished == nil {
		c.Finished = func(Finished) {}
	}
	return c, nil
}

// defaultName returns a readable name that is unique by the random part of its end.
func defaultName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "worker"
	}
	id := client.NewID()
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), id[len(id)-6:])
}
