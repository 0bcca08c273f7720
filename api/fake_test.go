package api

import (
	"context"
	"errors"
	"sync"
	"time"

	"osqueue/api/core"
	"osqueue/cluster"
	"osqueue/cluster/membership"
	"osqueue/cluster/notify"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
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

// fakeMembers changes nothing. It knows no node with the name nope.
type fakeMembers struct{}

func (fakeMembers) known(name string) (string, error) {
	if name == "nope" {
		return "", &membership.Refusal{Missing: true}
	}
	return "done", nil
}

func (f fakeMembers) Add(_ context.Context, name, _ string, _ bool) (string, error) {
	return f.known(name)
}

func (f fakeMembers) Remove(_ context.Context, name string, _ bool) (string, error) {
	return f.known(name)
}

func (f fakeMembers) Promote(_ context.Context, name string) (string, error) { return f.known(name) }

func (f fakeMembers) Demote(_ context.Context, name string) (string, error) { return f.known(name) }

func (f fakeMembers) Transfer(_ context.Context, name string) (string, error) { return f.known(name) }

func (fakeMembers) Waiting() []membership.Admission {
	return []membership.Admission{{Name: "n4", HTTP: "10.0.0.4:8080"}}
}

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

// locked reads the fake under its lock.
func locked[T any](f *fakeNode, read func() T) T {
	f.mu.Lock()
	defer f.mu.Unlock()
	return read()
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
	return res, f.m.LSN(), nil
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

func (f *fakeNode) entriesSoFar() int { return locked(f, func() int { return f.entries }) }

func (f *fakeNode) Refusal() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if errors.Is(f.proposeErr, cluster.ErrFlushLag) {
		return f.proposeErr
	}
	return nil
}

func (f *fakeNode) Now() int64 { return locked(f, func() int64 { return f.now }) }

func (f *fakeNode) Ready(worker string, types []string) bool {
	return locked(f, func() bool { return !f.m.Quiet(worker) && f.m.Ready(types) })
}

func (f *fakeNode) Remembers(worker, requestID string) bool {
	return locked(f, func() bool { return f.m.Remembers(worker, requestID) })
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

// await waits until done, which it calls under the lock after each change. It counts in waiting while it waits.
func (f *fakeNode) await(ctx context.Context, waiting *int, done func() (bool, error)) error {
	f.set(func(*fakeNode) { *waiting++ })
	defer f.set(func(*fakeNode) { *waiting-- })
	for {
		f.mu.Lock()
		over, err := done()
		changed := f.changed
		f.mu.Unlock()
		if over || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (f *fakeNode) WaitApplied(ctx context.Context, lsn fsm.LSN) error {
	return f.await(ctx, new(int), func() (bool, error) { return f.m.LSN().Compare(lsn) >= 0, nil })
}

func (f *fakeNode) WaitFlushed(ctx context.Context, lsn fsm.LSN) error {
	return f.await(ctx, &f.flushing, func() (bool, error) {
		if !f.lead {
			return false, cluster.ErrNotLeader
		}
		return f.flushed.Compare(lsn) >= 0, f.damaged
	})
}

// flush puts all that there is into the bucket.
func (f *fakeNode) flush() { f.rescan(func(f *fakeNode) { f.flushed = f.m.LSN() }) }

// rescan changes the fake, and wakes all goroutines that wait for a change.
func (f *fakeNode) rescan(change func(*fakeNode)) {
	f.set(func(f *fakeNode) {
		change(f)
		close(f.changed)
		f.changed = make(chan struct{})
	})
}

func (f *fakeNode) WaitEnded(ctx context.Context, id string) error {
	return f.await(ctx, &f.awaiting, func() (bool, error) {
		j := f.m.Job(id)
		return j == nil || core.Ended(j), nil
	})
}

func (f *fakeNode) Job(id string) *fsm.Job { return locked(f, func() *fsm.Job { return f.m.Job(id) }) }

func (f *fakeNode) Token(id string) *fsm.Token {
	return locked(f, func() *fsm.Token { return f.m.Token(id) })
}

func (f *fakeNode) TokensEnded() <-chan struct{} {
	return locked(f, func() chan struct{} { return f.changed })
}

func (f *fakeNode) AccountUsage(name string) (jobs, bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.m.AccountUsage(name)
}

func (f *fakeNode) View() *fsm.View { return locked(f, f.m.View) }

func (f *fakeNode) TypeStats(name string) fsm.TypeStats {
	return locked(f, func() fsm.TypeStats { return f.m.TypeStats(name) })
}

func (f *fakeNode) LimitUse(name string) fsm.LimitUse {
	return locked(f, func() fsm.LimitUse { return f.m.LimitUse(name) })
}

func (f *fakeNode) LimitUses(from string, n int) []fsm.LimitUse {
	return locked(f, func() []fsm.LimitUse { return f.m.LimitUses(from, n) })
}

func (f *fakeNode) AllTypeStats() map[string]fsm.TypeStats {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make(map[string]fsm.TypeStats)
	f.m.Types(func(name string, s fsm.TypeStats) bool { out[name] = s; return true })
	return out
}

func (f *fakeNode) Events() *notify.History {
	return locked(f, func() *notify.History { return f.history })
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
		LSN: m.LSN(), FlushedLSN: f.flushed, Epoch: m.Epoch, Fence: cluster.FenceActive, Counts: f.m.Counts(),
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

func (f *fakeNode) written() int { return locked(f, func() int { return f.writes }) }

// tick moves the clock and lets the machine see it.
func (f *fakeNode) tick(d time.Duration) {
	f.set(func(f *fakeNode) { f.now += d.Milliseconds() })
	_, _, _ = f.apply()
}
