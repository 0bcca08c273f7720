package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"osqueue/client"
	"osqueue/client/worker"
	"osqueue/tests/cluster"
)

// scrape returns the text of a node's metrics.
func scrape(ctx context.Context, node *cluster.Node) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+node.HTTP+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("/metrics answered %s", res.Status)
	}
	return text, err
}

// parse returns the families of a scrape by name.
func parse(text []byte) (map[string]*dto.MetricFamily, error) {
	p := expfmt.NewTextParser(model.UTF8Validation)
	return p.TextToMetricFamilies(bytes.NewReader(text))
}

// counters returns the counters of types, with the numbers of observations of their histograms,
// as "name type".
func counters(families map[string]*dto.MetricFamily) map[string]float64 {
	out := make(map[string]float64)
	for name, f := range families {
		if !strings.HasPrefix(name, "osqueue_type_") {
			continue
		}
		for _, m := range f.Metric {
			key := name + " " + label(m, "type")
			switch f.GetType() {
			case dto.MetricType_COUNTER:
				out[key] = m.Counter.GetValue()
			case dto.MetricType_HISTOGRAM:
				out[key] = float64(m.Histogram.GetSampleCount())
			}
		}
	}
	return out
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.Label {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// tally counts the answers to the clients, by type of job.
type tally struct {
	mu    sync.Mutex // guards the field below
	types map[string]*outcomes
}

// outcomes counts the answers about the jobs of one type.
type outcomes struct{ enqueued, claimed, completed, failed, retried, dead, cancelled float64 }

func (l *tally) add(jobType string, fn func(*outcomes)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.types[jobType] == nil {
		l.types[jobType] = new(outcomes)
	}
	fn(l.types[jobType])
}

// enqueued returns the number of jobs so far.
func (l *tally) enqueued() (n float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.types {
		n += t.enqueued
	}
	return n
}

// want returns the counters that follow from the tally.
func (l *tally) want() map[string]float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make(map[string]float64)
	for name, t := range l.types {
		for metric, n := range map[string]float64{
			"jobs_enqueued_total": t.enqueued, "jobs_claimed_total": t.claimed, "jobs_completed_total": t.completed,
			"attempts_failed_total": t.failed, "jobs_retried_total": t.retried, "jobs_dead_total": t.dead,
			"jobs_cancelled_total": t.cancelled, "leases_lost_total": 0, "dead_jobs_removed_total": 0,
			"wait_seconds": t.claimed, "run_seconds": t.claimed, "attempts": t.completed + t.dead + t.cancelled,
		} {
			out["osqueue_type_"+metric+" "+name] = n
		}
	}
	return out
}

// watchCounters compares the counters of the active leader with those before, until ctx ends, and puts
// the names of the leaders into seen. A follower may be behind, so only the leader's count.
func watchCounters(ctx context.Context, t *testing.T, c *cluster.Cluster, seen *atomic.Pointer[string]) {
	last := make(map[string]float64)
	for ctx.Err() == nil {
		for _, node := range c.Nodes {
			text, err := scrape(ctx, node)
			if err != nil {
				continue
			}
			families, err := parse(text)
			if err != nil {
				t.Errorf("%s: %v", node.Name, err)
				return
			}
			if f := families["osqueue_active_leader"]; f == nil || f.Metric[0].Gauge.GetValue() != 1 {
				continue
			}
			now := counters(families)
			for name, before := range last {
				if now[name] < before {
					t.Errorf("%s went back from %v to %v on %s", name, before, now[name], node.Name)
				}
			}
			last = now
			seen.Store(&node.Name)
		}
		select {
		case <-ctx.Done():
		case <-time.After(30 * time.Millisecond):
		}
	}
}

var jobTypes = []string{"a", "b", "c"}

// enqueueRandomly enqueues n jobs with random endings in their payload, and cancels some that wait.
func enqueueRandomly(ctx context.Context, t *testing.T, c *client.Client, l *tally, rng *rand.Rand, n int) {
	endings := []string{"completed", "completed", "completed", "failed once", "dead", "never"}
	for i := range n {
		job := client.NewJob{ID: fmt.Sprintf("j%d", i), Type: jobTypes[rng.IntN(len(jobTypes))]}
		ending := endings[rng.IntN(len(endings))]
		job.Payload, _ = json.Marshal(ending)
		if ending == "never" {
			job.Delay = time.Hour
		}
		if _, err := c.Enqueue(ctx, job); err != nil {
			t.Errorf("enqueue %s: %v", job.ID, err)
			return
		}
		l.add(job.Type, func(t *outcomes) { t.enqueued++ })
		if ending != "never" {
			continue
		}
		if _, err := c.Cancel(ctx, job.ID); err != nil {
			t.Errorf("cancel %s: %v", job.ID, err)
		}
		l.add(job.Type, func(t *outcomes) { t.cancelled++ })
	}
}

// work runs jobs until ctx ends, and writes what became of each attempt to the tally.
func work(ctx context.Context, t *testing.T, c *client.Client, l *tally) {
	w, err := worker.New(c, worker.Config{Concurrency: 8, PollWait: 500 * time.Millisecond, Finished: func(f worker.Finished) {
		switch f.Outcome {
		case worker.Completed:
			l.add(f.Job.Type, func(t *outcomes) { t.completed++ })
		case worker.Failed:
			l.add(f.Job.Type, func(t *outcomes) { t.failed++ })
		case worker.Lost:
			// The leader died after it had committed the failure and before it answered, and the
			// retry was claimed before the report was repeated. No lease ends in this test.
			if f.Job.Attempt != 1 || string(f.Job.Payload) != `"failed once"` {
				t.Errorf("job %s is lost: %v", f.Job.ID, f.Err)
			}
			l.add(f.Job.Type, func(t *outcomes) { t.failed++ })
		default:
			t.Errorf("job %s ended as %s: %v", f.Job.ID, f.Outcome, f.Err)
		}
	}})
	if err != nil {
		t.Error(err)
		return
	}
	for _, name := range jobTypes {
		w.Handle(name, func(_ context.Context, job worker.Job) (json.RawMessage, error) {
			l.add(job.Type, func(t *outcomes) { t.claimed++ })
			var ending string
			if err := json.Unmarshal(job.Payload, &ending); err != nil {
				return nil, err
			}
			switch {
			case ending == "dead":
				l.add(job.Type, func(t *outcomes) { t.dead++ })
				return nil, worker.Permanent(errors.New("dead"))
			case ending == "failed once" && job.Attempt == 1:
				l.add(job.Type, func(t *outcomes) { t.retried++ })
				return nil, worker.RetryAfter(0, errors.New("once"))
			}
			return nil, nil
		})
	}
	if err := w.Run(ctx); err != nil {
		t.Error(err)
	}
}

// Over a random workload with three leaders killed the counters of the nodes never go back, and
// in the end all nodes have those of the answers to the clients.
func TestCountersAreTrueOverFailovers(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	c := cluster.Start(t, cluster.Options{})
	ctx, l := c.Context(2*time.Minute), &tally{types: make(map[string]*outcomes)}
	var watching, working sync.WaitGroup
	watched, stopWatch := context.WithCancel(ctx)
	worked, stopWork := context.WithCancel(ctx)
	defer watching.Wait()
	defer stopWatch()
	defer working.Wait()
	defer stopWork()
	var seen atomic.Pointer[string]
	watching.Go(func() { watchCounters(watched, t, c, &seen) })
	working.Go(func() { work(worked, t, c.Client, l) })
	var producing sync.WaitGroup
	producing.Go(func() { enqueueRandomly(ctx, t, c.Client, l, rand.New(rand.NewPCG(seed, 0)), 600) })
	var down *cluster.Node
	for i := range 3 {
		var leader *cluster.Node
		c.Eventually(30*time.Second, "a scrape of the leader, and jobs", func() (err error) {
			if leader, err = c.Leader(); err != nil {
				return err
			}
			if n := l.enqueued(); n < float64(150*(i+1)) || seen.Load() == nil || *seen.Load() != leader.Name {
				return fmt.Errorf("%v jobs, the leader is %s", n, leader.Name)
			}
			return nil
		})
		leader.Kill()
		if down != nil {
			down.Start()
		}
		down = leader
		c.WaitOtherLeader(leader)
	}
	down.Start()
	producing.Wait()
	c.Eventually(time.Minute, "the end of all jobs", func() error { return compareAll(ctx, c, l) })
}

// compareAll compares the counters of all nodes with those of the tally.
func compareAll(ctx context.Context, c *cluster.Cluster, l *tally) error {
	var errs []error
	want := l.want()
	for _, node := range c.Nodes {
		text, err := scrape(ctx, node)
		if err != nil {
			return err
		}
		families, err := parse(text)
		if err != nil {
			return err
		}
		got := counters(families)
		maps.DeleteFunc(got, func(name string, _ float64) bool { return strings.HasSuffix(name, " other") })
		for _, name := range slices.Sorted(maps.Keys(got)) {
			if got[name] != want[name] {
				errs = append(errs, fmt.Errorf("%s has %s %v, the clients %v", node.Name, name, got[name], want[name]))
			}
		}
		if len(got) != len(want) {
			errs = append(errs, fmt.Errorf("%s has %d counters, want %d", node.Name, len(got), len(want)))
		}
	}
	return errors.Join(errs...)
}

// The metrics of a real node follow the conventions of Prometheus, and have all that alerts
// need.
func TestMetricsOfANodeConform(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Nodes: 1})
	ctx := c.Context(time.Minute)
	if _, err := c.Client.Enqueue(ctx, client.NewJob{Type: "t"}); err != nil {
		t.Fatal(err)
	}
	check(t, c.Client.RegisterWorker(ctx, client.WorkerInfo{Name: "w1", Types: []string{"t"}}))
	if jobs, err := c.Client.Claim(ctx, client.ClaimOptions{Worker: "w1", Types: []string{"t"}, Max: 1}); err != nil || len(jobs) != 1 {
		t.Fatal(jobs, err)
	}
	text, err := scrape(ctx, c.Nodes[0])
	check(t, err)
	problems, err := promlint.New(bytes.NewReader(text)).Lint()
	check(t, err)
	for _, p := range problems {
		if !strings.HasPrefix(p.Metric, "go_") { // of the Go runtime
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	for _, line := range []string{
		`osqueue_type_jobs{status="in_progress",type="t"} 1`, `osqueue_type_oldest_available_age_seconds{type="t"} 0`,
		`osqueue_type_jobs_enqueued_total{type="t"} 1`, `osqueue_type_jobs_claimed_total{type="t"} 1`,
		`osqueue_type_jobs_completed_total{type="t"} 0`, `osqueue_type_attempts_failed_total{type="t"} 0`,
		`osqueue_type_jobs_retried_total{type="t"} 0`, `osqueue_type_jobs_dead_total{type="t"} 0`,
		`osqueue_type_leases_lost_total{type="t"} 0`, `osqueue_type_wait_seconds_count{type="t"} 1`,
		`osqueue_type_run_seconds_count{type="t"} 0`, `osqueue_type_attempts_count{type="t"} 0`,
		`osqueue_worker_running{worker="w1"} 1`, `osqueue_worker_running{worker="other"} 0`, `osqueue_workers 1`, `osqueue_claims_waiting 0`,
	} {
		if !bytes.Contains(text, []byte("\n"+line+"\n")) {
			t.Errorf("there is no line %s", line)
		}
	}
}
