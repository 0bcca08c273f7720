package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"time"

	"github.com/hashicorp/go-hclog"

	"osqueue/client"
)

// Queue is what a worker needs of a cluster; *client.Client is one. All
// methods are safe for concurrent use, return soon after their context ends,
// and repeat by themselves what can be repeated. Errors that are refusals are
// *client.Error.
type Queue interface {
	// Claim leases jobs to the worker. The same request id gets the same jobs,
	// with the age that their leases have by then.
	Claim(ctx context.Context, opts client.ClaimOptions) ([]client.ClaimedJob, error)
	// Heartbeat renews leases of one worker, and tells the progress of the jobs;
	// the answers are in their order.
	Heartbeat(ctx context.Context, worker string, leases []client.Lease) ([]client.Beat, error)
	// CompleteBatch, FailBatch and ReleaseBatch end claims of one worker, each
	// decided for itself; the answers are in their order. Repeated, they succeed
	// again.
	CompleteBatch(ctx context.Context, worker string, jobs []client.Completion) ([]client.Beat, error)
	FailBatch(ctx context.Context, worker string, jobs []client.FailedJob) ([]client.Beat, error)
	ReleaseBatch(ctx context.Context, worker string, leases []client.Lease) ([]client.Beat, error)
	// RegisterWorker is also the sign of life of an idle worker.
	RegisterWorker(ctx context.Context, info client.WorkerInfo) error
	// RemoveWorker takes the worker from the list, and its jobs back.
	RemoveWorker(ctx context.Context, name string) error
}

// The defaults of Config.
const (
	DefaultPollWait    = 10 * time.Second
	DefaultKeepAlive   = 10 * time.Second
	DefaultStopTimeout = 30 * time.Second
)

const (
	// leastTime is the least of the times after which something is repeated.
	leastTime = 10 * time.Millisecond
	// mostJobs is far beyond what a worker can hold; sums stay within an int.
	mostJobs = 1_000_000
)

// Config sets a worker up. The zero value works.
type Config struct {
	// Name must be the worker's own: a second one of that name would share
	// its fate. Default: host, process and a random part.
	Name string
	// Concurrency is how many jobs run at once. Default: GOMAXPROCS.
	Concurrency int
	// Prefetch is how many jobs may be held beyond Concurrency: claimed ahead, or
	// done and about to be reported. For many short jobs it should cover what
	// ends within a few round trips. Jobs that wait here wait for this worker
	// alone, and their timeouts run. Default: 0, nothing is claimed ahead.
	Prefetch int
	// PerType bounds how many jobs of a type run at once, within Concurrency. A
	// type without an entry has no bound of its own. It cannot be used together
	// with HandleAny: a claim of all types cannot leave one out.
	PerType map[string]int
	// Lease is asked for with each claim; 0 takes the job's wish, then the
	// server's default.
	Lease time.Duration
	// PollWait is how long a claim waits at the server for a job; 0 is the
	// default, and none is not possible: idle workers would never be silent.
	PollWait time.Duration
	// KeepAlive is the longest silence towards the cluster. It declares a
	// worker dead after 30 s.
	KeepAlive time.Duration
	// StopTimeout is how long handlers may go on after Run's context ended.
	// Negative: not at all. Handlers then have 4 s to return, and what is left is
	// given back: with a cluster out of reach Run ends 12 s after StopTimeout, which
	// counts as 5 s at least. Who kills the process must wait for longer.
	StopTimeout time.Duration
	// Version and Address are shown in the list of workers.
	Version string
	Address string
	// Finished is called after each job, from several goroutines at once. It
	// should return soon: the job keeps its place meanwhile. A panic in it is not
	// caught.
	Finished func(Finished)
	// Logger: nil is no log.
	Logger hclog.Logger
}

var errNegative = errors.New("must not be negative")

// check refuses what cannot be meant, and what would make the worker ask the
// cluster all the time.
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
	if c.Name == "" {
		c.Name = defaultName()
	}
	if c.Concurrency == 0 {
		c.Concurrency = runtime.GOMAXPROCS(0)
	}
	c.PollWait = orDefault(c.PollWait, DefaultPollWait)
	c.KeepAlive = orDefault(c.KeepAlive, DefaultKeepAlive)
	c.StopTimeout = orDefault(c.StopTimeout, DefaultStopTimeout)
	if c.Finished == nil {
		c.Finished = func(Finished) {}
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	return c, nil
}

func orDefault(v, otherwise time.Duration) time.Duration {
	if v == 0 {
		return otherwise
	}
	return v
}

// defaultName is readable and, for the random end of its id, unique.
func defaultName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "worker"
	}
	id := client.NewID()
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), id[len(id)-6:])
}
