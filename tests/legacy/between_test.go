package legacy

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	osqueue "osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/tests/cluster"
)

// TestLegacyInBetween fills our queue with everything that a legacy broker does not
// know, and kills all our nodes. A legacy broker takes over, processes the jobs that it
// sees, and dies. Our nodes return, with or without their disks. Nothing may be lost.
func TestLegacyInBetween(t *testing.T) {
	t.Parallel()
	for _, disks := range []string{"kept", "lost"} {
		t.Run("disks="+disks, func(t *testing.T) {
			t.Parallel()
			b := begin(t)
			c := b.ours(3)
			start(c)
			c.WaitLeader()
			w := &world{together: b, c: c}
			w.fill()
			b.stop(c)
			left := b.seen()

			old := b.legacy(patient)
			old.WaitServing()
			w.work(caller{t, old.Address}, left)
			old.Kill()
			b.store.Settle()
			between := b.seen()
			if d := b.document(); d.Header == nil || !d.Overtaken || d.Large {
				t.Fatalf("the stale header is not noticed: %+v, overtaken %v", d.Header, d.Overtaken)
			}

			if disks == "lost" {
				for _, n := range c.Nodes {
					n.Wipe()
				}
			}
			start(c)
			c.WaitLeader()
			b.flushed(c)
			w.check(left, between)
		})
	}
}

// world is a queue with one job or record of every kind.
type world struct {
	*together
	c *cluster.Cluster

	beside   map[string]v1.Job // jobs that a legacy broker does not see, by id
	plain    []string          // available
	running  osqueue.ClaimedJob
	batch    string // of two jobs, with a callback
	inBatch  []string
	blocked  string // until the first job of the batch is completed
	once     string // has a unique key for an hour
	repeated string // was enqueued with an idempotency key
	fresh    []string
	finished []string // by the legacy broker
}

const owner = "w-before"

func (w *world) enqueue(j osqueue.NewJob) string {
	w.Helper()
	if j.Payload == nil {
		j.Payload = []byte(`{"large":9007199254740991}`)
	}
	e, err := w.c.Client.Enqueue(safely(w.Context()), j)
	if err != nil {
		w.Fatal(err)
	}
	return e.JobID
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// fill creates the jobs and records.
func (w *world) fill() {
	w.Helper()
	cl, ctx := w.c.Client, w.Context()
	w.end("dead", func(l osqueue.Lease) error {
		return cl.Fail(ctx, l, osqueue.Failure{Error: "broken", Permanent: true})
	})
	w.end("done", func(l osqueue.Lease) error { return cl.Complete(ctx, l, []byte(`{"sum":1}`)) })
	for i := range 8 {
		w.plain = append(w.plain, w.enqueue(osqueue.NewJob{
			Type: fmt.Sprintf("plain%d", i%2), Group: fmt.Sprintf("g%d", i%3), Tags: []string{"tag"},
			Backoff: &osqueue.Backoff{Kind: "exponential", Base: time.Second, Cap: time.Minute},
		}))
	}
	later := w.enqueue(osqueue.NewJob{Type: "later", Delay: time.Hour})
	gone := w.enqueue(osqueue.NewJob{Type: "gone"})
	_, err := cl.Cancel(ctx, gone)
	w.must(err)
	_, err = cl.PutCron(ctx, "nightly", osqueue.NewCron{Spec: "0 3 * * *", TimeZone: "Europe/Berlin", Job: osqueue.NewJob{Type: "report"}})
	w.must(err)
	_, err = cl.SetQueue(ctx, "settled", osqueue.QueuePatch{MaxRunning: osqueue.SetTo(int64(5)), Paused: osqueue.SetTo(true)})
	w.must(err)
	made, err := cl.CreateBatch(ctx, osqueue.NewBatch{
		Jobs: []osqueue.NewJob{{Type: "batched"}, {Type: "batched"}}, Callback: &osqueue.NewJob{ID: "callback", Type: "called"},
	})
	w.must(err)
	w.batch, w.inBatch = made.BatchID, made.JobIDs
	w.blocked = w.enqueue(osqueue.NewJob{Type: "blocked", After: w.inBatch[:1]})
	never := w.enqueue(osqueue.NewJob{Type: "blocked", After: []string{later}})
	w.once = w.enqueue(osqueue.NewJob{Type: "once", Unique: osqueue.Unique{Key: "k", Scope: v1.UniquePeriod, Period: time.Hour}})
	e, err := cl.Enqueue(osqueue.WithIdempotencyKey(ctx, "key-1"), osqueue.NewJob{Type: "repeated"})
	w.must(err)
	w.repeated = e.JobID
	run := w.enqueue(osqueue.NewJob{Type: "running"})
	w.running = w.claim("running")
	if w.running.ID != run {
		w.Fatalf("claimed %s, not %s", w.running.ID, run)
	}
	w.flushed(w.c)
	w.beside = make(map[string]v1.Job)
	for id, j := range w.jobs() {
		if j.Status != v1.StatusUnclaimed && j.Status != v1.StatusInProgress && id != w.blocked {
			w.beside[id] = j
		}
	}
	if _, has := w.beside[never]; !has || len(w.beside) != 5 {
		w.Fatalf("beside the list are %v", w.beside)
	}
}

// end enqueues a job and completes it at once.
func (w *world) end(jobType string, how func(osqueue.Lease) error) {
	w.Helper()
	w.enqueue(osqueue.NewJob{Type: jobType})
	w.must(how(held(owner, w.claim(jobType))))
}

func (w *world) claim(jobType string) osqueue.ClaimedJob {
	w.Helper()
	jobs, err := w.c.Client.Claim(w.Context(), osqueue.ClaimOptions{Worker: owner, Types: []string{jobType}, Max: 1})
	w.must(err)
	if len(jobs) != 1 {
		w.Fatalf("%d jobs of type %s", len(jobs), jobType)
	}
	return jobs[0]
}

func (w *world) jobs() map[string]v1.Job {
	w.Helper()
	jobs := make(map[string]v1.Job)
	for j, err := range w.c.Client.Jobs(w.Context(), osqueue.ListOptions{Statuses: []string{v1.StatusAll}, PageSize: 100}) {
		w.must(err)
		jobs[j.ID] = j
	}
	return jobs
}

// work makes the legacy broker enqueue, hand out and complete jobs, and complete a job
// that our worker had claimed.
func (w *world) work(at caller, left seenDocument) {
	w.Helper()
	at.beat(w.running.ID, fields{"workerId": owner})
	at.complete(w.running.ID, fields{"workerId": owner})
	w.finished = append(w.finished, w.running.ID)
	for range w.inBatch {
		id := at.claim(fields{"workerId": "o", "types": []string{"batched"}})
		at.complete(id, fields{"workerId": "o"})
		w.finished = append(w.finished, id)
	}
	if id := at.claim(fields{"workerId": "o"}); id != w.plain[0] {
		w.Errorf("the legacy broker hands out %s first, and %s is the oldest", id, w.plain[0])
	}
	id := at.claim(fields{"workerId": "o", "types": []string{"plain1"}})
	at.complete(id, fields{"workerId": "o"})
	w.finished = append(w.finished, id)
	for i := range 5 {
		w.fresh = append(w.fresh, at.submit(fields{"payload": i, "type": "fresh"}))
	}
	if s := at.stats(); s.Total != len(left.Jobs)-len(w.finished)+len(w.fresh) {
		w.Errorf("the legacy broker has %+v, of %d jobs %d were completed and %d added", s, len(left.Jobs), len(w.finished), len(w.fresh))
	}
}

// check checks the queue after our nodes have taken it back.
func (w *world) check(left, between seenDocument) {
	w.Helper()
	cl, ctx := w.c.Client, w.Context()
	jobs := w.jobs()
	w.checkBeside(jobs)

	// Jobs that the legacy broker saw are as it left them. Its changes have made two more
	// jobs available: the blocked one and the callback.
	after := w.seen()
	var old, came []seen
	for _, j := range after.Jobs {
		if slices.Contains(between.ids(), j.ID) {
			old = append(old, j)
		} else {
			came = append(came, j)
		}
	}
	wantJobs(w.T, old, between.Jobs)
	if len(came) != 2 || came[0].ID != w.blocked && came[1].ID != w.blocked || came[0].ID != "callback" && came[1].ID != "callback" {
		w.Errorf("new in the list are %v", came)
	}
	if want := left.CompletedTotal + len(w.finished); after.CompletedTotal != want || between.CompletedTotal != want {
		w.Errorf("%d completed, %d before, %d by the legacy broker", after.CompletedTotal, left.CompletedTotal, len(w.finished))
	}
	for _, id := range w.finished {
		if j, there := jobs[id]; there {
			w.Errorf("job %s, which the legacy broker has completed, is %s", id, j.Status)
		}
	}

	info, err := cl.Batch(ctx, w.batch)
	w.must(err)
	if info.Completed != 2 || info.Pending != 0 || !info.Called {
		w.Errorf("the batch is %+v", info)
	}
	cron, err := cl.Cron(ctx, "nightly")
	w.must(err)
	if cron.Spec != "0 3 * * *" || cron.TimeZone != "Europe/Berlin" {
		w.Errorf("the schedule is %+v", cron)
	}
	queue, err := cl.Queue(ctx, "settled")
	w.must(err)
	if !queue.Settings.Paused || queue.Settings.MaxRunning != 5 {
		w.Errorf("the settings are %+v", queue)
	}
	if id := w.enqueue(osqueue.NewJob{Type: "once", Unique: osqueue.Unique{Key: "k", Scope: v1.UniquePeriod, Period: time.Hour}}); id != w.once {
		w.Errorf("the unique key is free again: %s, and not %s", id, w.once)
	}
	e, err := cl.Enqueue(osqueue.WithIdempotencyKey(ctx, "key-1"), osqueue.NewJob{Type: "repeated"})
	w.must(err)
	if e.JobID != w.repeated {
		w.Errorf("a repeated request makes job %s, and made %s", e.JobID, w.repeated)
	}
	w.checkTokens()
}

func (w *world) checkBeside(jobs map[string]v1.Job) {
	w.Helper()
	for id, before := range w.beside {
		after, there := jobs[id]
		if !there {
			w.Errorf("the job %s, which was %s, has vanished", id, before.Status)
		} else if !reflect.DeepEqual(after, before) {
			b, _ := json.Marshal(before)
			a, _ := json.Marshal(after)
			w.Errorf("job %s is\n%s, and was\n%s", id, a, b)
		}
	}
}

// checkTokens checks that tokens from before the takeover are refused and that new ones
// are higher.
func (w *world) checkTokens() {
	w.Helper()
	err := w.c.Client.Complete(w.Context(), held(owner, w.running), nil)
	if !osqueue.IsLeaseLost(err) {
		w.Errorf("a report about a job that the legacy broker completed: %v", err)
	}
	if j := w.claim("once"); j.Token <= w.running.Token {
		w.Errorf("token %d is not above %d", j.Token, w.running.Token)
	}
}

// TestHandedOverGracefully stops our nodes with SIGTERM. A legacy broker then finds
// everything in the document, even if the bucket is slow and writes are answered before
// the flush.
func TestHandedOverGracefully(t *testing.T) {
	t.Parallel()
	b := begin(t)
	c := b.ours(3)
	start(c)
	c.WaitLeader()
	if b.store.HasProxy() {
		b.store.Proxy(t).SetSlow(300 * time.Millisecond)
	}
	var ids []string
	for i := range 50 {
		e, err := c.Client.Enqueue(t.Context(), osqueue.NewJob{Type: "quorum", Payload: fmt.Append(nil, i)})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, e.JobID)
	}
	c.StopAll()
	b.store.Settle()
	left := b.seen()
	if got := left.ids(); !slices.Equal(got, ids) {
		t.Errorf("%d jobs are in the document, of %d", len(got), len(ids))
	}
	if b.store.HasProxy() {
		b.store.Proxy(t).SetSlow(0)
	}
	old := b.legacy(patient)
	old.WaitServing()
	at := caller{t, old.Address}
	for _, id := range ids {
		if got := at.claim(fields{"workerId": "o"}); got != id {
			t.Fatalf("claimed %q, %s is next", got, id)
		}
	}
}
