package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/hashicorp/go-hclog"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/cluster"
	"osqueue/cluster/notify"
	"osqueue/cluster/past"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage"
	"osqueue/storage/archive"
	queuejson "osqueue/storage/document"
	"osqueue/storage/mem"
)

// fakeNode is a backend of one node: a real machine, without log and quorum.
// Its clock stands unless it is moved.
type fakeNode struct {
	mu      sync.Mutex
	m       *fsm.Machine
	now     int64
	index   uint64
	writes  int // mutations applied
	entries int
	changed chan struct{} // closed and replaced at each write
	history *notify.History
	told    *notify.JobHistory

	leader     string // "" and lead false: none known
	lead       bool
	proposeErr error
	// reportsPass lets single mutations pass in spite of proposeErr.
	reportsPass bool
	linearErr   error
	stall       chan struct{} // Propose waits for it, if set
	overtake    func()        // Propose calls it before it applies, if set
	sleeping    int           // in AwaitClaim
	handOver    bool          // AwaitClaim commits the claim itself
	awaiting    int           // in WaitEnded
	flushed     fsm.LSN       // the LSN in the bucket
	flushing    int           // in WaitFlushed
	damaged     error         // the damage of the archive that the leader knows
	// status changes the result of Status.
	status func(*cluster.Status)
}

// ProgressOf implements Reader.
func (f *fakeNode) ProgressOf(id string) []notify.ProgressPoint { return f.told.Progress(id) }

// ActionsOn implements Reader.
func (f *fakeNode) ActionsOn(id string) []notify.Action { return f.told.Actions(id) }

// historyKept is how many events a fake node holds.
const historyKept = 1000

const startMs = 1_700_000_000_000

func newFake() *fakeNode {
	f := &fakeNode{m: fsm.New(), now: startMs, lead: true, leader: "10.0.0.1:8080", changed: make(chan struct{})}
	f.history, f.told = notify.NewHistory(historyKept), notify.NewJobHistory()
	f.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterBroker{RegisterBroker: &fsmpb.RegisterBroker{
		Node: "n1", Address: "10.0.0.1:8080", Epoch: 1, Cluster: "c", Lineage: "l",
	}}})
	f.writes, f.entries = 0, 0
	return f
}

// apply takes mutations through the log's encoding, as a node does.
func (f *fakeNode) apply(ms ...*fsmpb.Mutation) ([]fsm.Result, fsm.LSN, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	data, err := fsm.EncodeEntry(&fsmpb.Batch{NowMs: f.now, Mutations: ms})
	if err != nil {
		return nil, fsm.LSN{}, err
	}
	batch, err := fsm.DecodeEntry(data)
	if err != nil {
		return nil, fsm.LSN{}, err
	}
	f.index++
	f.writes += len(ms)
	f.entries++
	res := f.m.Apply(f.index, 3, batch)
	f.history.Applied(f.m)
	f.told.Applied(f.m)
	close(f.changed)
	f.changed = make(chan struct{})
	return res, f.m.Meta().LSN, nil
}

func (f *fakeNode) Propose(ctx context.Context, m *fsmpb.Mutation) (fsm.Result, fsm.LSN, error) {
	res, lsn, err := f.ProposeAll(ctx, []*fsmpb.Mutation{m})
	if err != nil {
		return fsm.Result{}, fsm.LSN{}, err
	}
	return res[0], lsn, nil
}

func (f *fakeNode) ProposeWithin(ctx context.Context, ms []*fsmpb.Mutation, limit time.Duration) ([]fsm.Result, fsm.LSN, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return f.ProposeAll(ctx, ms)
}

func (f *fakeNode) ProposeAll(ctx context.Context, ms []*fsmpb.Mutation) ([]fsm.Result, fsm.LSN, error) {
	f.mu.Lock()
	err, stall, overtake := f.proposeErr, f.stall, f.overtake
	f.mu.Unlock()
	if err != nil && (len(ms) > 1 || !f.reportsPass) {
		return nil, fsm.LSN{}, err
	}
	if overtake != nil {
		overtake()
	}
	if stall != nil {
		select {
		case <-stall:
		case <-ctx.Done():
			return nil, fsm.LSN{}, ctx.Err()
		}
	}
	return f.apply(ms...)
}

func (f *fakeNode) entriesSoFar() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.entries
}

// asleep returns the number of claims that wait.
func (f *fakeNode) asleep() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sleeping
}

func (f *fakeNode) Refusal() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if errors.Is(f.proposeErr, cluster.ErrFlushLag) {
		return f.proposeErr
	}
	return nil
}

func (f *fakeNode) Now() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *fakeNode) Ready(worker string, types []string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.m.Quiet(worker) && f.m.Ready(types)
}

func (f *fakeNode) Remembers(worker, requestID string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.m.Remembers(worker, requestID)
}

func (f *fakeNode) AwaitClaim(ctx context.Context, until <-chan struct{}, claim *fsmpb.Mutation) (cluster.Awaited, error) {
	for {
		f.mu.Lock()
		changed, lead, ready := f.changed, f.lead, !f.m.Quiet(claim.GetClaim().Worker) && f.m.Ready(claim.GetClaim().Types)
		handOver := f.handOver
		f.sleeping++
		f.mu.Unlock()
		var a cluster.Awaited
		var err error
		var over bool
		switch {
		case !lead:
			err = cluster.ErrNotLeader
		case ready && handOver:
			res, lsn, failed := f.apply(claim)
			if err = failed; err == nil {
				a = cluster.Awaited{Result: res[0], LSN: lsn}
			}
		case ready:
			a.Woken = true
		default:
			select {
			case <-changed:
			case <-until:
				over = true
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		f.set(func(f *fakeNode) { f.sleeping-- })
		if err != nil || ready || over {
			return a, err
		}
	}
}

func (f *fakeNode) Linearize(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.linearErr != nil {
		return f.linearErr
	}
	return ctx.Err()
}

func (f *fakeNode) WaitApplied(ctx context.Context, lsn fsm.LSN) error {
	for {
		f.mu.Lock()
		at, changed := f.m.Meta().LSN, f.changed
		f.mu.Unlock()
		if at.Compare(lsn) >= 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (f *fakeNode) WaitFlushed(ctx context.Context, lsn fsm.LSN) error {
	f.set(func(f *fakeNode) { f.flushing++ })
	defer f.set(func(f *fakeNode) { f.flushing-- })
	for {
		f.mu.Lock()
		at, changed, lead, damaged := f.flushed, f.changed, f.lead, f.damaged
		f.mu.Unlock()
		switch {
		case !lead:
			return cluster.ErrNotLeader
		case damaged != nil:
			return damaged
		case at.Compare(lsn) >= 0:
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// flush puts all that there is into the bucket.
func (f *fakeNode) flush() { f.rescan(func(f *fakeNode) { f.flushed = f.m.Meta().LSN }) }

// rescan changes the fake, and wakes all goroutines that wait for a change.
func (f *fakeNode) rescan(change func(*fakeNode)) {
	f.set(func(f *fakeNode) {
		change(f)
		close(f.changed)
		f.changed = make(chan struct{})
	})
}

func (f *fakeNode) WaitEnded(ctx context.Context, id string) error {
	for {
		f.mu.Lock()
		j, changed := f.m.Job(id), f.changed
		f.awaiting++
		f.mu.Unlock()
		over := j == nil || core.Ended(j)
		var err error
		if !over {
			select {
			case <-changed:
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		f.mu.Lock()
		f.awaiting--
		f.mu.Unlock()
		if over || err != nil {
			return err
		}
	}
}

func (f *fakeNode) Job(id string) *fsm.Job {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.m.Job(id)
}

func (f *fakeNode) Token(id string) *fsm.Token {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.m.Token(id)
}

func (f *fakeNode) TokensEnded() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed
}

func (f *fakeNode) AccountUsage(name string) (jobs, bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.m.AccountUsage(name)
}

func (f *fakeNode) View() *fsm.View {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.m.View()
}

func (f *fakeNode) TypeStats(name string) fsm.TypeStats {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.m.TypeStats(name)
}

func (f *fakeNode) AllTypeStats() map[string]fsm.TypeStats {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make(map[string]fsm.TypeStats)
	f.m.Types(func(name string, s fsm.TypeStats) bool { out[name] = s; return true })
	return out
}

func (f *fakeNode) Events() *notify.History {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.history
}

func (f *fakeNode) Document(context.Context) ([]byte, error) {
	return []byte(`{"broker":"10.0.0.1:8080","jobs":[]}`), nil
}

func (f *fakeNode) Status() cluster.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.m.Meta()
	st := cluster.Status{
		Node: "n1", ServerID: "n1~1", State: "leader", RaftState: "Leader", Term: 3,
		LeaderNode: "n1", LeaderAddress: f.leader, CommitIndex: f.index, Applied: f.index,
		LSN: m.LSN, FlushedLSN: f.flushed, Epoch: m.Broker.Epoch, Fence: cluster.FenceActive, Counts: f.m.Counts(),
		CompletedEver: m.CompletedTotal, Peers: []cluster.Peer{{Name: "n1", ServerID: "n1~1", Voter: true, Leader: true}},
		StartedAt: startMs, Level: m.Level,
	}
	if f.status != nil {
		f.status(&st)
	}
	return st
}

func (f *fakeNode) Leader() (string, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.leader, f.lead
}

// set changes the fake under its lock.
func (f *fakeNode) set(change func(*fakeNode)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *fakeNode) written() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.writes
}

// tick moves the clock and lets the machine see it.
func (f *fakeNode) tick(d time.Duration) {
	f.set(func(f *fakeNode) { f.now += d.Milliseconds() })
	_, _, _ = f.apply()
}

// rig is a server over a fake node, without a network.
type rig struct {
	t    testing.TB
	node *fakeNode
	s    *Server

	bucket storage.Bucket // of earlier states; flush writes it
}

func newRig(t testing.TB, change ...func(*core.Config)) *rig {
	t.Helper()
	node := newFake()
	bucket := mem.New()
	states := past.New(past.Config{Bucket: bucket, Key: cluster.DocumentKey, MaxBytes: 1 << 30})
	t.Cleanup(states.Close)
	cfg := core.Config{Backend: node, Logger: hclog.NewNullLogger(), Past: states}
	for _, f := range change {
		f(&cfg)
	}
	s := New(cfg)
	g := &rig{t: t, node: node, s: s, bucket: bucket}
	g.flush()
	t.Cleanup(g.end)
	return g
}

// flush puts the document of the state into the bucket.
func (g *rig) flush() {
	g.t.Helper()
	v := g.node.View()
	checkpoint, err := archive.WriteCheckpoint(context.Background(), g.bucket, "l", fsm.LSN{}, v)
	if err != nil {
		g.t.Fatal(err)
	}
	content := &queuejson.Content{
		Archive: &queuejson.Archive{Checkpoint: checkpoint, Tail: archive.NewTail(checkpoint.LSN).Frame()}, Meta: v.Meta(), Counts: v.Counts(),
	}
	doc := queuejson.Encode(content, queuejson.Header{Lineage: "l", Cluster: "c", Epoch: 1, Node: "n1"}, "10.0.0.1:8080", startMs)
	o, err := g.bucket.Get(context.Background(), cluster.DocumentKey)
	if err != nil {
		err = g.bucket.PutIfAbsent(context.Background(), cluster.DocumentKey, doc).Err
	} else {
		err = g.bucket.PutIfMatch(context.Background(), cluster.DocumentKey, doc, o.Version).Err
	}
	if err != nil {
		g.t.Fatal(err)
	}
}

// end ends the server as the end of the process does.
func (g *rig) end() {
	if err := g.s.Shutdown(context.Background()); err != nil {
		g.t.Error(err)
	}
}

// request returns one of application/json, unless header says something else.
func request(method, path, body string, header ...string) *http.Request {
	var r *http.Request
	if body == "" {
		r = httptest.NewRequest(method, path, nil)
	} else {
		r = httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Del(header[i])
		if header[i+1] != "" {
			r.Header.Set(header[i], header[i+1])
		}
	}
	return r
}

// answer is a response, read.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (g *rig) send(r *http.Request) answer {
	g.t.Helper()
	if overStream && g.fitsStream(r) {
		a := g.sendFramed(r)
		conform(g.t, r, a)
		return a
	}
	w := httptest.NewRecorder()
	g.s.ServeHTTP(w, r)
	res := w.Result()
	body, _ := io.ReadAll(res.Body)
	a := answer{status: res.StatusCode, header: res.Header, body: body}
	conform(g.t, r, a)
	return a
}

func (g *rig) do(method, path, body string, header ...string) answer {
	g.t.Helper()
	return g.send(request(method, path, body, header...))
}

// ok wants 200 and reads the body strictly into a T.
func ok[T any](t testing.TB, a answer) T {
	t.Helper()
	if a.status != http.StatusOK {
		t.Fatalf("answered %d %s", a.status, a.body)
	}
	return strictly[T](t, a.body)
}

func strictly[T any](t testing.TB, body []byte) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(body, &v, core.Lenient, json.RejectUnknownMembers(true)); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return v
}

// refused wants a problem with that status and tag.
func refused(t testing.TB, a answer, status int, tag string) v1.Problem {
	t.Helper()
	if a.status != status {
		t.Fatalf("answered %d %s, want %d", a.status, a.body, status)
	}
	if got := a.header.Get("Content-Type"); got != v1.MediaTypeProblem {
		t.Fatalf("content type %q", got)
	}
	p := strictly[v1.Problem](t, a.body)
	if p.Tag != tag || p.Status != status || p.Message != p.Detail || p.Type != v1.ProblemTypePrefix+tag || p.Title == "" {
		t.Fatalf("problem %s, want tag %s", a.body, tag)
	}
	return p
}

// submit enqueues a job with an id.
func (g *rig) submit(id, jobType string) {
	g.t.Helper()
	ok[v1.Enqueued](g.t, g.do("POST", "/v1/jobs", `{"id":"`+id+`","type":"`+jobType+`","payload":{"n":1}}`))
}

// claim1 claims one job for worker w.
func (g *rig) claim1() v1.ClaimedJob {
	g.t.Helper()
	return ok[v1.ClaimedJob](g.t, g.do("POST", "/v1/jobs/claim", `{"workerId":"w"}`))
}

// eventually waits for a condition that another goroutine brings about.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
		if cond() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("it did not happen in 5 s: %s", what)
}

func sameJSON(t testing.TB, got []byte, want string) {
	t.Helper()
	if !bytes.Equal(got, []byte(want)) {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
}

// allStatuses are the statuses of a job.
var allStatuses = []fsm.Status{
	fsm.Scheduled, fsm.Unclaimed, fsm.InProgress, fsm.Completed, fsm.Dead, fsm.Cancelled, fsm.Blocked,
}

func statusNames() (names []string) {
	for _, st := range allStatuses {
		names = append(names, st.String())
	}
	return names
}

func setQueueOf(op *fsmpb.SetQueue) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_SetQueue{SetQueue: op}}
}
