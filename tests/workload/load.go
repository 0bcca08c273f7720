package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/internal/sleep"
	"osqueue/tests/history"
)

// Load is clients at work. Its methods are safe for concurrent use.
type Load struct {
	cfg     Config
	servers []string
	rec     *history.Recorder
	control *client.Client
	clients []*client.Client
	http    *http.Client // of the readers
	known   known
	waiting known // jobs that may have had to wait
	files   known // jobs with artefacts, each with the name of one

	stop, quit context.CancelFunc // of those who ask for work, and of those who do it
	asking     sync.WaitGroup
	working    sync.WaitGroup
	calm       atomic.Bool // consumers only complete
	answered   atomic.Int64

	mu  sync.Mutex
	err error
}

// attemptTimeout bounds one request: a frozen node must not hold a client for long.
const attemptTimeout = 2 * time.Second

// ackWait is how long a client waits for the bucket.
const ackWait = 2 * time.Second

// Start starts the clients. servers are the addresses of the nodes, or of the proxies in front
// of them. Close ends the clients.
func Start(cfg Config, servers []string, rec *history.Recorder) (*Load, error) {
	cfg, err := cfg.filled()
	if err != nil {
		return nil, err
	}
	l := &Load{cfg: cfg, servers: servers, rec: rec}
	l.known.jobs = make([]string, 0, knownMax)
	l.http = &http.Client{Transport: &http.Transport{DialContext: cfg.Dial}, Timeout: attemptTimeout}
	if l.control, err = l.newClient(servers, client.ProtocolAuto); err != nil {
		return nil, err
	}
	asking, stop := context.WithCancel(context.Background())
	working, quit := context.WithCancel(context.Background())
	l.stop, l.quit = stop, quit
	for _, k := range l.kinds() {
		goesOn, wg := asking, &l.asking
		if k.works {
			goesOn, wg = working, &l.working
		}
		for i := range k.n {
			if err := l.run(goesOn, working, wg, k, i); err != nil {
				l.Close()
				return nil, err
			}
		}
	}
	return l, nil
}

// kind is a kind of clients.
type kind struct {
	name  string
	n     int
	every time.Duration // between two turns of one client, on average; 0: at once
	works bool          // it is there until the end
	turn  func(context.Context, *actor)
}

func (l *Load) kinds() []kind {
	every := func(n int, rate float64) time.Duration {
		return time.Duration(float64(n) / rate * float64(time.Second))
	}
	c := l.cfg
	return []kind{
		{"w", c.Consumers, 0, true, l.consume},
		{"p", c.Producers, every(c.Producers, c.JobRate), false, l.produce},
		{"c", c.Cancellers, every(c.Cancellers, c.CancelRate), false, l.cancel},
		{"e", c.Editors, every(c.Editors, c.EditRate), false, l.edit},
		{"l", c.Limiters, every(c.Limiters, c.LimitRate), false, l.limit},
		{"r", c.Readers, every(c.Readers, c.ReadRate), false, l.read},
	}
}

// actor is one client. One goroutine uses it.
type actor struct {
	name   string // in the history
	client *client.Client
	rng    *rand.Rand

	// Of a consumer.
	lives int    // how often it has fallen silent
	late  []late // reports that are made when their lease is over

	edited string // of an editor: the job that it edited last
}

// worker returns the name under which a consumer claims.
func (a *actor) worker() string {
	if a.lives == 0 {
		return a.name
	}
	return fmt.Sprintf("%s.%d", a.name, a.lives)
}

// run starts one client. It makes no turn after goesOn has ended. A call in progress ends only
// with calls: an enqueue that is given up may commit after all, when the load counts what is left.
func (l *Load) run(goesOn, calls context.Context, wg *sync.WaitGroup, k kind, i int) error {
	number := uint64(len(l.clients))
	a := &actor{name: fmt.Sprint(k.name, i+1), rng: rand.New(rand.NewPCG(l.cfg.Seed, number))}
	order := slices.Clone(l.servers)
	a.rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	var err error
	if a.client, err = l.newClient(order, protocol(i)); err != nil {
		return err
	}
	l.clients = append(l.clients, a.client)
	wg.Go(func() {
		for goesOn.Err() == nil {
			k.turn(calls, a)
			if k.every > 0 {
				sleep.For(goesOn, k.every/2+time.Duration(a.rng.Int64N(int64(k.every))))
			}
		}
	})
	return nil
}

// protocol returns the protocol of the i-th client of a kind: most use streams, as clients of the
// Go SDK do.
func protocol(i int) client.Protocol {
	if i%3 == 1 {
		return client.ProtocolHTTP
	}
	return client.ProtocolStream
}

func (l *Load) newClient(servers []string, p client.Protocol) (*client.Client, error) {
	cfg := client.Config{Servers: servers, Protocol: p, AttemptTimeout: attemptTimeout, RetryFor: l.cfg.Patience, AckWait: ackWait}
	if l.cfg.Dial != nil {
		cfg.Transport = &http.Transport{DialContext: l.cfg.Dial}
	}
	return client.New(cfg)
}

// Sent returns the number of operations that have been answered.
func (l *Load) Sent() int64 { return l.answered.Load() }

// Err returns the first answer that a correct client cannot get; nil if there was none.
func (l *Load) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

func (l *Load) fault(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
	}
}

// StopProducing ends all clients except the consumers, and waits for them.
func (l *Load) StopProducing() {
	l.stop()
	l.asking.Wait()
}

// Drain stops the producers, waits until no job is available or running, at most until ctx
// ends, and then ends the consumers. Meanwhile the consumers make no deliberate faults.
func (l *Load) Drain(ctx context.Context) error {
	l.StopProducing()
	l.dropSchedules(ctx)
	l.calm.Store(true)
	err := l.empty(ctx)
	l.quit()
	l.working.Wait()
	return errors.Join(err, l.Err())
}

// empty waits until every job has ended.
func (l *Load) empty(ctx context.Context) error {
	last := errors.New("nobody was asked")
	for ctx.Err() == nil {
		s, err := l.control.Stats(ctx)
		left := s.Unclaimed + s.InProgress + s.Scheduled + s.Blocked
		if err == nil && left == 0 {
			return nil
		}
		if last = err; err == nil {
			last = fmt.Errorf("%d jobs wait, %d run, %d are scheduled, %d blocked", s.Unclaimed, s.InProgress, s.Scheduled, s.Blocked)
		}
		sleep.For(ctx, 100*time.Millisecond)
	}
	return fmt.Errorf("workload: not everything has ended: %w", last)
}

// finalsPage is how many jobs one request reads at the end.
const finalsPage = 500

// Finals reads all jobs of the cluster and records them as the end of the run.
func (l *Load) Finals(ctx context.Context) error {
	var all []history.Final
	for j, err := range l.control.Jobs(ctx, client.ListOptions{Statuses: []string{v1.StatusAll}, PageSize: finalsPage}) {
		if err != nil {
			return fmt.Errorf("workload: read the jobs at the end: %w", err)
		}
		all = append(all, history.Final{
			Job: j.ID, Status: j.Status, Type: j.Type, Payload: string(j.Payload), Result: string(j.Result),
			Token: j.Token, Attempts: int(j.Attempts), Scheduled: history.Scheduled{Schedule: j.Cron, At: j.CronAt},
		})
	}
	l.rec.Final(all...)
	return nil
}

// Close ends all clients at once, and the calls that they are making. It may be
// called more than once.
func (l *Load) Close() {
	l.stop()
	l.quit()
	l.asking.Wait()
	l.working.Wait()
	for _, c := range l.clients {
		c.Close()
	}
	l.control.Close()
	l.http.CloseIdleConnections()
}
