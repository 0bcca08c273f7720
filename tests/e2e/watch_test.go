package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
)

// counted counts the reads of single jobs. It can also answer requests for the
// stream of events.
type counted struct {
	next   http.RoundTripper
	reads  atomic.Int64
	events atomic.Int64
	stream func(n int64, r *http.Request) *http.Response // nil, or its answer: the real stream
}

func (c *counted) RoundTrip(r *http.Request) (*http.Response, error) {
	if held, ok := r.Context().Value(heldName{}).(heldBack); ok {
		select {
		case held.sent <- struct{}{}:
		default: // it is repeated
		}
		<-held.goOn
	}
	switch {
	case r.URL.Path == v1.PathEvents:
		n := c.events.Add(1)
		if c.stream != nil {
			if resp := c.stream(n, r); resp != nil {
				return resp, nil
			}
		}
	case r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, v1.PathJobs+"/"):
		c.reads.Add(1)
	}
	return c.next.RoundTrip(r)
}

// watching is a cluster with a client whose requests are counted.
func watching(t *testing.T, nodes int) (*liveCluster, *client.Client, *counted) {
	t.Helper()
	cluster, _ := start(t, nodes)
	transport := &http.Transport{}
	count := &counted{next: transport}
	c, err := client.New(client.Config{Servers: cluster.Servers(), Transport: count})
	check(t, err)
	t.Cleanup(func() {
		c.Close()
		transport.CloseIdleConnections()
	})
	return cluster, c, count
}

func newWatch(ctx context.Context, t *testing.T, c *client.Client, jobType string) *client.Watch {
	t.Helper()
	w, err := c.Watch(ctx, jobType)
	check(t, err)
	t.Cleanup(w.Close)
	return w
}

// complete completes jobs with their ids, as they come, until ctx ends.
func complete(ctx context.Context, c *client.Client, jobType string) {
	for ctx.Err() == nil {
		jobs, err := c.Claim(ctx, client.ClaimOptions{Worker: "w", Types: []string{jobType}, Max: 50, Wait: time.Second})
		if err != nil {
			continue
		}
		for _, job := range jobs {
			_ = c.Complete(ctx, job.Lease(), json.RawMessage(fmt.Sprintf("%q", job.ID)))
		}
	}
}

// next wants a job to end.
func next(ctx context.Context, t *testing.T, w *client.Watch) v1.Job {
	t.Helper()
	job, err := w.Next(ctx)
	check(t, err)
	return job
}

// nothing wants that no other job is handed out by the time that a new one has
// ended.
func nothing(ctx context.Context, t *testing.T, c *client.Client, w *client.Watch) {
	t.Helper()
	id := client.NewID()
	if _, err := w.Enqueue(ctx, []client.NewJob{{ID: id, Type: "last"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Cancel(ctx, id); err != nil {
		t.Fatal(err)
	}
	if job := next(ctx, t, w); job.ID != id {
		t.Errorf("%s (%s) was handed out, too", job.ID, job.Status)
	}
}

// Hundreds of jobs are waited for with one stream and one read each, though the
// leader is killed meanwhile.
func TestWatchManyJobs(t *testing.T) {
	cluster, c, count := watching(t, 3)
	ctx := bounded(t)
	w := newWatch(ctx, t, c, "t")
	working, stop := context.WithCancel(ctx)
	var worker sync.WaitGroup
	worker.Go(func() { complete(working, c, "t") })
	defer worker.Wait()
	defer stop()
	const jobs, batch = 600, 100
	var enqueues sync.WaitGroup
	for n := range jobs / batch {
		enqueues.Go(func() {
			list := make([]client.NewJob, batch)
			for i := range list {
				list[i] = client.NewJob{ID: fmt.Sprintf("j%d", n*batch+i), Type: "t"}
			}
			if _, err := w.Enqueue(ctx, list); err != nil {
				t.Error(err)
			}
		})
	}
	seen := map[string]bool{}
	for len(seen) < jobs {
		job := next(ctx, t, w)
		if seen[job.ID] || job.Status != v1.StatusCompleted || string(job.Result) != fmt.Sprintf("%q", job.ID) {
			t.Fatalf("seen before: %v, %+v", seen[job.ID], job)
		}
		seen[job.ID] = true
		if len(seen) == jobs/3 {
			check(t, cluster.KillLeader())
		}
	}
	enqueues.Wait()
	// A read whose connection is cut is repeated, and so is the one of a job that
	// was there already when its enqueue was repeated.
	if reads := count.reads.Load(); reads > jobs+jobs/2 {
		t.Errorf("%d reads for %d jobs", reads, jobs)
	}
}

// Without a failover it is one read a job exactly, and one stream.
func TestWatchIsCheap(t *testing.T) {
	_, c, count := watching(t, 1)
	ctx := bounded(t)
	w := newWatch(ctx, t, c, "")
	working, stop := context.WithCancel(ctx)
	var worker sync.WaitGroup
	worker.Go(func() { complete(working, c, "t") })
	defer worker.Wait()
	defer stop()
	const jobs = 500
	list := make([]client.NewJob, jobs)
	for i := range list {
		list[i].Type = "t"
	}
	if _, err := w.Enqueue(ctx, list); err != nil {
		t.Fatal(err)
	}
	for range jobs {
		next(ctx, t, w)
	}
	if reads, streams := count.reads.Load(), count.events.Load(); reads != jobs || streams != 1 {
		t.Errorf("%d reads and %d streams for %d jobs", reads, streams, jobs)
	}
}

// Jobs that ended before they were watched, that are there twice, that were
// retried, and that are gone.
func TestWatchJobsThatAreThereAlready(t *testing.T) {
	_, c, _ := watching(t, 1)
	ctx := bounded(t)
	if _, err := c.Enqueue(ctx, client.NewJob{ID: "old", Type: "t"}); err != nil {
		t.Fatal(err)
	}
	completeOne(ctx, t, c, "t", `1`)
	w := newWatch(ctx, t, c, "")

	w.Add("old")
	if job := next(ctx, t, w); job.ID != "old" || string(job.Result) != "1" {
		t.Fatalf("%+v", job)
	}
	got, err := w.Enqueue(ctx, []client.NewJob{{ID: "old", Type: "t"}})
	if err != nil || len(got.Duplicates) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	if job := next(ctx, t, w); job.ID != "old" {
		t.Fatalf("%+v", job)
	}
	nothing(ctx, t, c, w)

	// The same call of another process: nothing says that its job is an old one.
	keyed := client.WithIdempotencyKey(ctx, "k")
	first, err := c.EnqueueBatch(keyed, []client.NewJob{{Type: "t"}})
	check(t, err)
	completeOne(ctx, t, c, "t", `2`)
	if again, err := w.Enqueue(keyed, []client.NewJob{{Type: "t"}}); err != nil || again.JobIDs[0] != first.JobIDs[0] {
		t.Fatalf("%+v, %v", again, err)
	}
	if job := next(ctx, t, w); job.ID != first.JobIDs[0] || string(job.Result) != "2" {
		t.Fatalf("%+v", job)
	}
	nothing(ctx, t, c, w)

	w.Add("never there")
	if job := next(ctx, t, w); job.ID != "never there" || job.Status != "" {
		t.Fatalf("%+v", job)
	}
}

// Another job has the unique key: the one that was not added is not waited for.
func TestWatchUniqueKey(t *testing.T) {
	_, c, _ := watching(t, 1)
	ctx := bounded(t)
	unique := client.NewJob{Type: "t", Unique: client.Unique{Key: "k"}}
	holder, err := c.Enqueue(ctx, unique)
	check(t, err)
	w := newWatch(ctx, t, c, "")
	got, err := w.Enqueue(ctx, []client.NewJob{unique})
	if err != nil || got.JobIDs[0] != holder.JobID {
		t.Fatalf("%+v, %v", got, err)
	}
	completeOne(ctx, t, c, "t", `1`)
	nothing(ctx, t, c, w)
	w.Add(holder.JobID)
	if job := next(ctx, t, w); job.ID != holder.JobID {
		t.Fatalf("%+v", job)
	}
}

func TestWatchJobsThatAreRemoved(t *testing.T) {
	_, c, _ := watching(t, 1)
	ctx := bounded(t)
	w := newWatch(ctx, t, c, "")
	if _, err := w.Enqueue(ctx, []client.NewJob{{ID: "a", Type: "t"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Delete(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	if job := next(ctx, t, w); job.ID != "a" || job.Result != nil || client.Finished(job.Status) {
		t.Fatalf("%+v", job)
	}
}

// A batch that is refused is not waited for.
func TestWatchRefusedEnqueue(t *testing.T) {
	_, c, _ := watching(t, 1)
	ctx := bounded(t)
	if _, err := c.Enqueue(ctx, client.NewJob{ID: "a", Type: "t"}); err != nil {
		t.Fatal(err)
	}
	w := newWatch(ctx, t, c, "")
	_, err := w.Enqueue(ctx, []client.NewJob{{ID: "b", Type: "t"}, {ID: "a", Type: "other"}})
	if !client.HasTag(err, v1.TagIDTaken) {
		t.Fatalf("%v", err)
	}
	if _, err := c.Cancel(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	nothing(ctx, t, c, w)
}

// While the first stream is dumb, a job ends. The stream then says that it has
// lost events: the job is found, and so is the next one.
func TestWatchReadsAllWhenEventsAreMissing(t *testing.T) {
	for name, answer := range map[string]func(io.Reader) *http.Response{
		"gap in the stream": func(held io.Reader) *http.Response {
			body := io.MultiReader(strings.NewReader("id: 0-0.0\n\n"), held, strings.NewReader("event: gap\ndata: {\"kind\":\"gap\"}\n\n"))
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(body)}
		},
		"history is gone": func(held io.Reader) *http.Response {
			_, _ = io.Copy(io.Discard, held)
			return &http.Response{StatusCode: http.StatusGone, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"_tag":"history_gone"}`))}
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, c, count := watching(t, 1)
			ctx := bounded(t)
			held, release := io.Pipe()
			defer release.Close()
			count.stream = func(n int64, _ *http.Request) *http.Response {
				if n > 1 {
					return nil
				}
				return answer(held)
			}
			w := newWatch(ctx, t, c, "")
			list := []client.NewJob{{ID: "a", Type: "t"}, {ID: "b", Type: "t"}}
			if _, err := w.Enqueue(ctx, list); err != nil {
				t.Fatal(err)
			}
			completeOne(ctx, t, c, "t", `1`)
			if _, err := c.Enqueue(ctx, client.NewJob{Type: "later"}); err != nil { // the end of a is not the newest event
				t.Fatal(err)
			}
			release.Close()
			if job := next(ctx, t, w); job.ID != "a" {
				t.Fatalf("%+v", job)
			}
			completeOne(ctx, t, c, "t", `2`)
			if job := next(ctx, t, w); job.ID != "b" {
				t.Fatalf("%+v", job)
			}
			nothing(ctx, t, c, w)
		})
	}
}

func TestWatchEnds(t *testing.T) {
	cluster, c, _ := watching(t, 1)
	ctx := bounded(t)
	w, err := c.Watch(ctx, "")
	check(t, err)
	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	if _, err := w.Next(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	w.Close()
	w.Close()
	if _, err := w.Next(ctx); err == nil {
		t.Error("a closed watch has a job")
	}

	broken := &breaking{next: &http.Transport{DisableKeepAlives: true}}
	hasty, err := client.New(client.Config{Servers: cluster.Servers(), RetryFor: 100 * time.Millisecond, Transport: broken})
	check(t, err)
	defer hasty.Close()
	w, err = hasty.Watch(ctx, "")
	check(t, err)
	defer w.Close()
	broken.broken.Store(true)
	w.Add("j")
	var failed *client.Error
	if _, err := w.Next(ctx); !errors.As(err, &failed) {
		t.Errorf("without a cluster: %v", err)
	}
	if _, err := hasty.Watch(ctx, ""); err == nil {
		t.Error("a watch of no cluster")
	}
}

// breaking fails while its flag is set.
type breaking struct {
	next   http.RoundTripper
	broken atomic.Bool
}

func (b *breaking) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.broken.Load() {
		return nil, errors.New("broken")
	}
	return b.next.RoundTrip(r)
}

// The ids that callers learn beforehand are those that the jobs get.
func TestWithIDs(t *testing.T) {
	_, c, _ := watching(t, 1)
	ctx := client.WithIdempotencyKey(bounded(t), "k")
	jobs := []client.NewJob{{Type: "t"}, {ID: "mine"}, {Type: "t"}}
	named := client.WithIDs(ctx, jobs)
	got, err := c.EnqueueBatch(ctx, jobs)
	check(t, err)
	for i, id := range got.JobIDs {
		if named[i].ID != id || (jobs[i].ID != "" && jobs[i].ID != id) {
			t.Errorf("job %d is %s, and not %s", i, id, named[i].ID)
		}
	}
}

// heldBack, as the value of a context, keeps what is sent under it until it may go on.
type heldBack struct{ sent, goOn chan struct{} }

type heldName struct{}

// Several calls watch one job: that one of them is refused takes it from no other.
func TestWatchRefusedEnqueueTakesNoJobFromOthers(t *testing.T) {
	_, c, _ := watching(t, 1)
	ctx := bounded(t)
	for id, watch := range map[string]func(*client.Watch) error{
		"added": func(w *client.Watch) error {
			w.Add("added")
			return nil
		},
		"enqueued": func(w *client.Watch) error {
			_, err := w.Enqueue(ctx, []client.NewJob{{ID: "enqueued", Type: "t"}})
			return err
		},
	} {
		t.Run(id, func(t *testing.T) {
			if _, err := c.Enqueue(ctx, client.NewJob{ID: id, Type: "t"}); err != nil {
				t.Fatal(err)
			}
			w := newWatch(ctx, t, c, "")
			held := heldBack{make(chan struct{}, 1), make(chan struct{})}
			var refused sync.WaitGroup
			refused.Go(func() {
				late := context.WithValue(ctx, heldName{}, held)
				if _, err := w.Enqueue(late, []client.NewJob{{ID: id, Type: "other"}}); !client.HasTag(err, v1.TagIDTaken) {
					t.Errorf("%v", err)
				}
			})
			<-held.sent
			if err := watch(w); err != nil {
				t.Error(err)
			}
			close(held.goOn)
			refused.Wait()
			if _, err := c.Cancel(ctx, id); err != nil {
				t.Fatal(err)
			}
			if job := next(ctx, t, w); job.ID != id || job.Status != v1.StatusCancelled {
				t.Errorf("%+v", job)
			}
		})
	}
}

// completeOne claims jobs of the type and completes them with the result.
func completeOne(ctx context.Context, t *testing.T, c *client.Client, jobType, result string) {
	t.Helper()
	jobs, err := c.Claim(ctx, client.ClaimOptions{Worker: "w1", Types: []string{jobType}, Wait: 10 * time.Second})
	check(t, err)
	for _, job := range jobs {
		if err := c.Complete(ctx, job.Lease(), json.RawMessage(result)); err != nil {
			t.Error(err)
		}
	}
}
