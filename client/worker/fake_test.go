package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/client/internal/sleep"
)

// fakeJob is a job in a fakeQueue.
type fakeJob struct {
	id       string
	jobType  string
	status   string // unclaimed, in_progress, completed, dead
	worker   string
	token    uint64
	ended    string // how the attempt of the token ended: completed, failed, released
	until    time.Time
	claimed  time.Time
	attempts int
	result   string
	failure  client.Failure
	timeout  time.Duration
	cancel   bool // cancellation was requested
	last     bool // its attempts are last ones, to be confirmed
	told     []client.Progress
	accepted int // completions that counted
	released int // releases that counted
	steps    []v1.Step
	signals  []v1.Signal
	awaits   client.Suspension // while it is suspended
	batch    string
}

// fakeQueue is a cluster in one struct, with leases, tokens, and faults.
type fakeQueue struct {
	mu       sync.Mutex
	jobs     []*fakeJob
	lease    time.Duration
	tokens   uint64
	requests map[string][]client.ClaimedJob
	files    map[string]string // artefacts by job and name
	added    chan struct{}     // closed and replaced when a job becomes claimable

	// fault, if set, decides about each call: before refuses it before it takes effect, after
	// loses the answer.
	fault func(op string) (before, after error)

	// If set, these stand around calls: an error of the last two refuses the call.
	onClaim func(ctx context.Context, claim func() ([]client.ClaimedJob, error)) ([]client.ClaimedJob, error)
	onBeat  func(ctx context.Context, worker string, leases []client.Lease) error
	onEnd   func(ctx context.Context, op string) error

	throttled []string // jobs with limits and times

	spoilt map[string]bool // jobs whose completion makes its call be refused

	calls     map[string]int
	batches   map[string][]int // how many items each call with reports had
	claims    []client.ClaimOptions
	beatSizes []int
	seen      []client.WorkerInfo
	seenAt    []time.Time
	removed   []string
	ended     []string // the instances of removed
}

func newFake(lease time.Duration) *fakeQueue {
	return &fakeQueue{
		lease:    lease,
		requests: make(map[string][]client.ClaimedJob),
		added:    make(chan struct{}),
		calls:    make(map[string]int),
		batches:  make(map[string][]int),
		spoilt:   make(map[string]bool),
	}
}

func (q *fakeQueue) add(jobType string, n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for range n {
		id := fmt.Sprintf("j%d", len(q.jobs)+1)
		q.jobs = append(q.jobs, &fakeJob{id: id, jobType: jobType, status: "unclaimed"})
	}
	q.wakeLocked()
}

func (q *fakeQueue) wakeLocked() {
	close(q.added)
	q.added = make(chan struct{})
}

// enter counts the call, decides about its faults, and lets leases run out:
// not while the cluster cannot be reached, for then it may be down.
func (q *fakeQueue) enter(op string) (before, after error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.calls[op]++
	if q.fault != nil {
		before, after = q.fault(op)
	}
	if before != nil {
		return before, nil
	}
	for _, j := range q.jobs {
		if j.status == "in_progress" && j.timeout > 0 && !time.Now().Before(j.claimed.Add(j.timeout)) {
			j.status, j.ended = "unclaimed", "timeout"
			q.wakeLocked()
		}
		if j.status == "in_progress" && time.Now().After(j.until) {
			j.status, j.ended = "unclaimed", "lease"
			q.wakeLocked()
		}
	}
	return nil, after
}

func unreachable() error {
	return &client.Error{Op: "test", Committed: client.CommittedNo, Message: "nobody there"}
}

func lostAnswer() error {
	return &client.Error{Op: "test", Committed: client.CommittedUnknown, Message: "the answer was lost"}
}

func (q *fakeQueue) Claim(ctx context.Context, o client.ClaimOptions) ([]client.ClaimedJob, error) {
	claim := func() ([]client.ClaimedJob, error) { return q.claim(ctx, o) }
	if q.onClaim != nil {
		return q.onClaim(ctx, claim)
	}
	return claim()
}

func (q *fakeQueue) claim(ctx context.Context, o client.ClaimOptions) ([]client.ClaimedJob, error) {
	before, after := q.enter("claim")
	if before != nil {
		return nil, before
	}
	q.mu.Lock()
	q.claims = append(q.claims, o)
	q.mu.Unlock()
	end := time.NewTimer(o.Wait)
	defer end.Stop()
	for {
		jobs, added := q.take(o)
		if len(jobs) > 0 || o.Wait <= 0 {
			if after != nil {
				return nil, after
			}
			return jobs, nil
		}
		select {
		case <-added:
		case <-end.C:
			return nil, nil
		case <-ctx.Done():
			return nil, &client.Error{Op: "claim", Committed: client.CommittedUnknown, Err: ctx.Err()}
		}
	}
}

func (q *fakeQueue) take(o client.ClaimOptions) ([]client.ClaimedJob, chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if jobs, ok := q.requests[o.RequestID]; ok {
		return q.againLocked(jobs), q.added
	}
	var jobs []client.ClaimedJob
	for _, j := range q.jobs {
		if len(jobs) == max(o.Max, 1) {
			break
		}
		if j.status == "unclaimed" && (len(o.Types) == 0 || slices.Contains(o.Types, j.jobType)) {
			jobs = append(jobs, q.leaseLocked(j, o.Worker))
		}
	}
	if len(jobs) > 0 {
		q.requests[o.RequestID] = jobs
	}
	return jobs, q.added
}

// againLocked returns the answer to a repeated claim: the leases that are still
// valid.
func (q *fakeQueue) againLocked(jobs []client.ClaimedJob) []client.ClaimedJob {
	var still []client.ClaimedJob
	for _, job := range jobs {
		if j, tag := q.held(job.Lease(), ""); tag == "" {
			job.Age = time.Since(j.claimed)
			still = append(still, job)
		}
	}
	return still
}

func (q *fakeQueue) leaseLocked(j *fakeJob, worker string) client.ClaimedJob {
	q.tokens++
	j.status, j.worker, j.token, j.ended = "in_progress", worker, q.tokens, ""
	j.claimed, j.until = time.Now(), time.Now().Add(q.lease)
	j.attempts++
	return client.ClaimedJob{
		ID: j.id, Type: j.jobType, Attempt: j.attempts, Token: j.token, Length: q.lease, Worker: worker, Timeout: j.timeout, Confirm: j.last,
		Steps: slices.Clone(j.steps), Signals: slices.Clone(j.signals),
	}
}

// held decides like the machine does.
func (q *fakeQueue) held(l client.Lease, ended string) (j *fakeJob, tag string) {
	i := slices.IndexFunc(q.jobs, func(j *fakeJob) bool { return j.id == l.JobID })
	if i < 0 {
		return nil, v1.TagNotFound
	}
	j = q.jobs[i]
	switch {
	case j.token != l.Token:
		return nil, v1.TagStaleToken
	case j.status == "in_progress":
		return j, ""
	case ended != "" && j.ended == ended:
		return nil, ""
	case j.ended == "timeout":
		return nil, v1.TagTimedOut
	case j.ended == "lease":
		return nil, v1.TagLeaseExpired
	}
	return nil, v1.TagNotRunning
}

func (q *fakeQueue) Heartbeat(ctx context.Context, worker string, leases []client.Lease) ([]client.Beat, error) {
	if q.onBeat != nil {
		if err := q.onBeat(ctx, worker, leases); err != nil {
			return nil, err
		}
	}
	before, after := q.enter("heartbeat")
	if before != nil {
		return nil, before
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.beatSizes = append(q.beatSizes, len(leases))
	beats := make([]client.Beat, len(leases))
	for i, l := range leases {
		j, tag := q.held(l, "")
		beats[i] = client.Beat{JobID: l.JobID, Tag: tag}
		if j != nil {
			beats[i].Cancel = j.cancel
			j.until = time.Now().Add(q.lease)
			if l.Progress != nil {
				j.told = append(j.told, *l.Progress)
			}
		}
	}
	if after != nil {
		return nil, after
	}
	return beats, nil
}

// endEach ends claims, each decided for itself.
func endEach[T any](ctx context.Context, q *fakeQueue, op, ended string, items []T, lease func(T) client.Lease, change func(*fakeJob, T)) ([]client.Beat, error) {
	if q.onEnd != nil {
		if err := q.onEnd(ctx, op); err != nil {
			return nil, err
		}
	}
	before, after := q.enter(op)
	if before != nil {
		return nil, before
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.batches[op] = append(q.batches[op], len(items))
	beats := make([]client.Beat, len(items))
	for _, item := range items {
		l := lease(item)
		if op == "complete" && q.spoilt[l.JobID] {
			return nil, &client.Error{Op: op, Status: http.StatusRequestEntityTooLarge, Committed: client.CommittedNo, Message: "too large"}
		}
	}
	for i, item := range items {
		l := lease(item)
		j, tag := q.held(l, ended)
		beats[i] = client.Beat{JobID: l.JobID, Tag: tag}
		if j != nil {
			j.ended = ended
			change(j, item)
			q.wakeLocked()
		}
	}
	if after != nil {
		return nil, after
	}
	return beats, nil
}

func (q *fakeQueue) CompleteBatch(ctx context.Context, _ string, jobs []client.Completion) ([]client.Beat, error) {
	lease := func(c client.Completion) client.Lease { return c.Lease }
	return endEach(ctx, q, "complete", "completed", jobs, lease, func(j *fakeJob, c client.Completion) {
		j.status, j.result = "completed", string(c.Result)
		j.accepted++
		if j.batch != "" && q.batchLocked(j.batch).EndedAt != 0 {
			for _, p := range q.jobs {
				if p.status == "suspended" && p.awaits.BatchID == j.batch {
					p.status = "unclaimed"
				}
			}
		}
	})
}

func (q *fakeQueue) CompleteAndClaim(ctx context.Context, jobs []client.Completion, next client.ClaimOptions) ([]client.Beat, []client.ClaimedJob, error) {
	beats, err := q.CompleteBatch(ctx, next.Worker, jobs)
	return beats, nil, err
}

func (q *fakeQueue) FailBatch(ctx context.Context, _ string, jobs []client.FailedJob) ([]client.Beat, error) {
	lease := func(f client.FailedJob) client.Lease { return f.Lease }
	return endEach(ctx, q, "fail", "failed", jobs, lease, func(j *fakeJob, f client.FailedJob) {
		j.status, j.failure = "unclaimed", f.Failure
		switch {
		case j.cancel:
			j.status = "cancelled"
		case f.Failure.Permanent || j.attempts >= 3:
			j.status = "dead"
		}
	})
}

func (q *fakeQueue) ReleaseBatch(ctx context.Context, _ string, leases []client.Lease) ([]client.Beat, error) {
	lease := func(l client.Lease) client.Lease { return l }
	return endEach(ctx, q, "release", "released", leases, lease, func(j *fakeJob, _ client.Lease) {
		j.status = "unclaimed"
		j.attempts--
		j.released++
	})
}

func (q *fakeQueue) PutArtefact(_ context.Context, l client.Lease, name string, r io.Reader) error {
	data, err := io.ReadAll(r)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.files == nil {
		q.files = make(map[string]string)
	}
	q.files[l.JobID+"/"+name] = string(data)
	return err
}

func (q *fakeQueue) OpenArtefact(_ context.Context, jobID, name string) (io.ReadCloser, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return io.NopCloser(strings.NewReader(q.files[jobID+"/"+name])), nil
}

func (q *fakeQueue) Throttle(_ context.Context, l client.Lease, key string, d time.Duration) error {
	before, after := q.enter("throttle")
	if before != nil {
		return before
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.throttled = append(q.throttled, fmt.Sprintf("%s of %s, token %d: %s for %v", l.JobID, l.Worker, l.Token, key, d))
	return after
}

func (q *fakeQueue) StoreStep(_ context.Context, l client.Lease, name string, value json.RawMessage) (json.RawMessage, error) {
	before, after := q.enter("step")
	if before != nil {
		return nil, before
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	j, tag := q.held(l, "")
	if tag != "" {
		return nil, &client.Error{Op: "step", Status: http.StatusConflict, Tag: tag, Committed: client.CommittedNo}
	}
	if i := slices.IndexFunc(j.steps, func(s v1.Step) bool { return s.Name == name }); i >= 0 {
		return j.steps[i].Value, after
	}
	j.steps = append(j.steps, v1.Step{Name: name, Value: value})
	return value, after
}

func (q *fakeQueue) Suspend(_ context.Context, l client.Lease, s client.Suspension) error {
	before, after := q.enter("suspend")
	if before != nil {
		return before
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	j, tag := q.held(l, "suspended")
	switch {
	case tag != "":
		return &client.Error{Op: "suspend", Status: http.StatusConflict, Tag: tag, Committed: client.CommittedNo}
	case j == nil: // it was suspended by this claim before
		return after
	}
	j.status, j.ended, j.awaits = "suspended", "suspended", s
	j.attempts--
	if s.For > 0 {
		time.AfterFunc(s.For, func() { q.resume(func(o *fakeJob) bool { return o == j }) })
	}
	if q.batchLocked(s.BatchID).EndedAt != 0 || slices.ContainsFunc(j.signals, func(got v1.Signal) bool { return got.Name == s.Signal }) {
		j.status = "unclaimed"
		q.wakeLocked()
	}
	return after
}

// resume ends the suspension of those jobs that fit.
func (q *fakeQueue) resume(fits func(j *fakeJob) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, j := range q.jobs {
		if j.status == "suspended" && fits(j) {
			j.status = "unclaimed"
			q.wakeLocked()
		}
	}
}

// signal sends a signal to the i-th job, counted from 1.
func (q *fakeQueue) signal(i int, name, value string) {
	q.mu.Lock()
	j := q.jobs[i-1]
	j.signals = append(j.signals, v1.Signal{Name: name, Value: json.RawMessage(value)})
	q.mu.Unlock()
	q.resume(func(o *fakeJob) bool { return o == j && j.awaits.Signal == name })
}

func (q *fakeQueue) CreateBatch(_ context.Context, b client.NewBatch) (v1.BatchCreated, error) {
	before, after := q.enter("batch")
	if before != nil {
		return v1.BatchCreated{}, before
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, tag := q.held(*b.Parent, ""); tag != "" {
		return v1.BatchCreated{}, &client.Error{Op: "batch", Status: http.StatusConflict, Tag: tag, Committed: client.CommittedNo}
	}
	for _, n := range b.Jobs {
		if !slices.ContainsFunc(q.jobs, func(j *fakeJob) bool { return j.id == n.ID }) {
			q.jobs = append(q.jobs, &fakeJob{id: n.ID, jobType: n.Type, status: "unclaimed", batch: b.ID})
		}
	}
	q.wakeLocked()
	return v1.BatchCreated{BatchID: b.ID}, after
}

func (q *fakeQueue) Batch(_ context.Context, id string) (v1.BatchInfo, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.batchLocked(id), nil
}

func (q *fakeQueue) batchLocked(id string) v1.BatchInfo {
	b := v1.BatchInfo{ID: id}
	for _, j := range q.jobs {
		if id == "" || j.batch != id {
			continue
		}
		if b.Total++; j.status != "completed" && j.status != "dead" {
			b.Pending++
		}
	}
	if b.Total > 0 && b.Pending == 0 {
		b.EndedAt = 1
	}
	return b
}

func (q *fakeQueue) Job(_ context.Context, id string) (v1.Job, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.IndexFunc(q.jobs, func(j *fakeJob) bool { return j.id == id })
	return v1.Job{ID: id, Status: q.jobs[i].status, Result: json.RawMessage(q.jobs[i].result)}, nil
}

func (q *fakeQueue) RegisterWorker(_ context.Context, info client.WorkerInfo) error {
	before, after := q.enter("register")
	if before != nil {
		return before
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.seen, q.seenAt = append(q.seen, info), append(q.seenAt, time.Now())
	return after
}

// SendLogs has no reader.
func (q *fakeQueue) SendLogs(ctx context.Context, _ string, _ []client.LogPart, wait time.Duration) ([]client.WantedLog, error) {
	sleep.For(ctx, wait)
	return nil, ctx.Err()
}

func (q *fakeQueue) RemoveInstance(_ context.Context, name, instance string) error {
	before, after := q.enter("remove")
	if before != nil {
		return before
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.removed, q.ended = append(q.removed, name), append(q.ended, instance)
	return after
}

// job returns a copy of the i-th job, counted from 1.
func (q *fakeQueue) job(i int) fakeJob {
	q.mu.Lock()
	defer q.mu.Unlock()
	return *q.jobs[i-1]
}

func (q *fakeQueue) count(status string) (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, j := range q.jobs {
		if j.status == status {
			n++
		}
	}
	return n
}

func (q *fakeQueue) called(op string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.calls[op]
}

// counts returns a copy of the counts of calls.
func (q *fakeQueue) counts() map[string]int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return maps.Clone(q.calls)
}

// calledWith returns how many reports each call of that kind had.
func (q *fakeQueue) calledWith(op string) []int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.batches[op])
}

// released returns how often the first n jobs were released, in total.
func (q *fakeQueue) released(n int) (sum int) {
	for i := range n {
		sum += q.job(i + 1).released
	}
	return sum
}

// runningOf returns the number of jobs of a type that workers hold.
func (q *fakeQueue) runningOf(jobType string) (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, j := range q.jobs {
		if j.jobType == jobType && j.status == "in_progress" {
			n++
		}
	}
	return n
}

func (q *fakeQueue) setFault(f func(op string) (before, after error)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.fault = f
}

// failAll makes all calls of a kind fail: before they take effect, or, with after, later.
func (q *fakeQueue) failAll(op string, before, after error) {
	q.setFault(func(called string) (error, error) {
		if called == op {
			return before, after
		}
		return nil, nil
	})
}

// extend gives every lease its full length again, as a new leader does.
func (q *fakeQueue) extend() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, j := range q.jobs {
		j.until = time.Now().Add(q.lease)
	}
}

// cancel requests the cancellation of a running job.
func (q *fakeQueue) cancel(i int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.jobs[i-1].cancel = true
}

// steal hands a running job to another worker.
func (q *fakeQueue) steal(i int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.leaseLocked(q.jobs[i-1], "other")
}
