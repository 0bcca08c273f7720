package flush

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/go-hclog"

	"osqueue/election"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/storagetest"
	"osqueue/internal/storagetest/fault"
	"osqueue/storage"
	"osqueue/storage/archive"
	"osqueue/storage/document"
)

// ensemble simulates a raft cluster: one log, in which one leader at a time commits
// entries, and nodes that all apply them. It uses the bucket as package cluster does.
type ensemble struct {
	*world
	cfg    Config
	name   string
	faults *fault.Bucket
	gate   *gate // between the nodes and the faults
	load   *load
	r      *rand.Rand
	memory int // bytes of an unflushed log

	lock    sync.Mutex
	m       *fsm.Machine
	view    *fsm.View // of m as it is; nil: not created yet
	term    uint64
	entries []archive.Entry // since the machine was created
	members []*member
	kept    fsm.LSN

	waits sync.WaitGroup
}

// member is a node.
type member struct {
	name      string
	gate      *gate // between the node and the gate of the cluster
	unflushed *UnflushedLog
	// cutOff is the state of a node that receives no new entries; nil: it receives them.
	// The node has the first applied entries of the log.
	cutOff  *fsm.View
	applied int
}

func newEnsemble(w *world, cfg Config, name string, r *rand.Rand) *ensemble {
	faults := fault.New(w.below, r.Uint64())
	w.closing = append(w.closing, faults.Close)
	c := &ensemble{
		world: w, cfg: cfg, name: name, faults: faults, gate: newGate(faults), load: newLoad(r, name), r: r, memory: simUnflushedLog,
		m: fsm.New(), term: uint64(r.IntN(3)),
	}
	w.note(c.m.View(), fsm.LSN{})
	for i := range 3 {
		c.members = append(c.members, &member{
			name: fmt.Sprintf("%s.%d", name, i), gate: newGate(c.gate), unflushed: NewUnflushedLog(c.memory),
		})
	}
	return c
}

func now() int64 { return time.Now().UnixMilli() }

// commit applies an entry on all nodes that are not cut off.
func (c *ensemble) commit(muts ...*fsmpb.Mutation) (lsn fsm.LSN, results []fsm.Result) {
	c.lock.Lock()
	defer c.lock.Unlock()
	b := &fsmpb.Batch{NowMs: now(), Mutations: muts, Random: c.r.Uint64(), FlushedTerm: c.kept.Term, FlushedIndex: c.kept.Index}
	data, err := fsm.EncodeEntry(b)
	if err == nil {
		b, err = fsm.DecodeEntry(data)
	}
	if err != nil {
		c.Fatal(err)
	}
	parent := c.m.Meta()
	results = c.m.Apply(parent.LSN.Index+1, c.term, b)
	c.view = c.m.View()
	m := c.m.Meta()
	c.note(c.view, parent.LSN)
	c.entries = append(c.entries, archive.Entry{LSN: m.LSN, At: m.Now, Data: data})
	for _, mb := range c.members {
		if mb.cutOff == nil {
			c.catchUpLocked(mb)
		}
	}
	return m.LSN, results
}

// catchUpLocked applies the entries that a node lacks.
func (c *ensemble) catchUpLocked(mb *member) {
	for ; mb.applied < len(c.entries); mb.applied++ {
		mb.unflushed.Append(c.entries[mb.applied])
	}
	mb.unflushed.Flushed(c.kept)
	mb.unflushed.Trim(c.kept)
}

// cut stops a node from receiving new entries.
func (c *ensemble) cut(mb *member) {
	c.lock.Lock()
	defer c.lock.Unlock()
	mb.cutOff = c.freezeLocked()
}

// rejoin reconnects a node: it catches up from the log, or, as after a restart, with an
// empty memory from a snapshot.
func (c *ensemble) rejoin(mb *member) {
	c.lock.Lock()
	defer c.lock.Unlock()
	mb.cutOff = nil
	died := mb.gate.dead()
	if died {
		mb.gate = newGate(c.gate)
	}
	if n := len(c.entries); n > 0 && (died || c.r.IntN(2) == 0) {
		c.One("restart")
		mb.unflushed = NewUnflushedLog(c.memory)
		mb.applied = n - c.r.IntN(min(n, 40))
		mb.unflushed.Reset(c.entries[mb.applied-1].LSN)
	}
	c.catchUpLocked(mb)
}

// frozen returns the state that a node has.
func (c *ensemble) frozen(mb *member) *fsm.View {
	c.lock.Lock()
	defer c.lock.Unlock()
	if mb.cutOff != nil {
		return mb.cutOff
	}
	return c.freezeLocked()
}

func (c *ensemble) freezeLocked() *fsm.View {
	if c.view == nil {
		c.view = c.m.View()
	}
	return c.view
}

// elect begins a term.
func (c *ensemble) elect() {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.term++
}

// candidate describes a node to the election.
func (c *ensemble) candidate(mb *member) election.Candidate {
	v := c.frozen(mb)
	m := v.Meta()
	cluster := m.Cluster
	if cluster == "" {
		cluster = c.name
	}
	return election.Candidate{
		Node: mb.name, Address: mb.name + ":8080", Cluster: cluster, Lineage: m.Lineage, Epoch: m.Broker.Epoch,
		LSN:       fsm.LSN{Term: c.term + m.TermBase, Index: m.LSN.Index},
		Applied:   m.LSN,
		Populated: m.Lineage != "" || v.Counts() != fsm.Counts{}, Adopted: storage.Version(m.Adopted),
	}
}

// adopt replaces the state by that of the document.
func (c *ensemble) adopt(ctx context.Context, mb *member, seen election.Observed) error {
	m, err := archive.Machine(ctx, mb.gate, seen.Doc)
	if err != nil {
		return err
	}
	parent := m.Meta().LSN
	c.lock.Lock()
	defer c.lock.Unlock()
	Adopt(m, c.name, seen.Version, c.term, c.m.Meta().LSN)
	c.m, c.view, c.entries, c.kept = m, m.View(), nil, fsm.LSN{}
	c.note(c.view, parent)
	for _, mb := range c.members {
		mb.applied = 0
		mb.unflushed.Reset(m.Meta().LSN)
	}
	c.One("adoption")
	return nil
}

// leaderTerm is a node's time as active leader.
type leaderTerm struct {
	*Flusher
	c       *ensemble
	mb      *member
	fence   *election.Fence
	builder *DocumentBuilder
	cancel  context.CancelFunc
	ended   chan struct{} // closed when err is set
	err     error
}

// heard returns the observation of a candidate that has seen the document since its last
// heartbeat.
func heard(seen election.Observed) election.Silence {
	s := election.Silence{Timeout: brokerTimeout, Now: time.Now()}
	if seen.Doc != nil && now()-seen.Doc.BrokerHeartbeat > brokerTimeout.Milliseconds() {
		s.For = s.Timeout
	}
	return s
}

// campaign makes a node the active leader, if that is possible now.
func (c *ensemble) campaign(ctx context.Context, mb *member) (*leaderTerm, error) {
	for {
		seen, err := election.Read(ctx, mb.gate, docKey)
		if err != nil {
			return nil, err
		}
		me := c.candidate(mb)
		switch d := election.Decide(seen, me, heard(seen)); d.Action {
		case election.Create, election.TakeOver:
			return c.takeOver(ctx, mb, seen, me)
		case election.Adopt:
			if err := c.adopt(ctx, mb, seen); err != nil {
				return nil, err
			}
		case election.Refuse, election.StepDown:
			c.Errorf("%s: %s: %s", mb.name, d.Action, d.Reason)
			return nil, errors.New(d.Reason)
		default:
			return nil, errors.New(d.Reason)
		}
	}
}

func (c *ensemble) takeOver(ctx context.Context, mb *member, seen election.Observed, me election.Candidate) (*leaderTerm, error) {
	lineage := me.Lineage
	if lineage == "" && seen.Doc != nil {
		lineage = seen.Doc.Lineage()
	}
	if lineage == "" {
		lineage = uuid.NewString()
	}
	fromDoc := me.Adopted != "" && me.Adopted == seen.Version
	first, err := First(ctx, c.cfg, mb.gate, lineage, seen.Doc, c.frozen(mb), mb.unflushed, fromDoc)
	if err != nil {
		return nil, err
	}
	fence, err := election.Acquire(ctx, mb.gate, docKey, seen, me, first, now())
	if err != nil {
		return nil, err
	}
	if first.Jobs == nil {
		c.One("carried over")
	}
	_, results := c.commit(&fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterBroker{RegisterBroker: &fsmpb.RegisterBroker{
		Node: mb.name, Address: mb.name + ":8080", Epoch: fence.Epoch(), Cluster: me.Cluster, Lineage: fence.Lineage(), Settings: simSettings(),
	}}})
	if err := results[0].Code.Err(); err != nil {
		c.Errorf("register: %v", err)
	}
	return c.beginTerm(mb, fence, first), nil
}

func (c *ensemble) beginTerm(mb *member, fence *election.Fence, first *document.Content) *leaderTerm {
	c.One("leaderTerm")
	r := &leaderTerm{c: c, mb: mb, fence: fence, ended: make(chan struct{})}
	view := func() *fsm.View { return c.frozen(mb) }
	r.builder = NewDocumentBuilder(c.cfg, mb.gate, fence.Lineage(), first, mb.unflushed, view, hclog.NewNullLogger())
	r.Flusher = New(c.cfg, fence, spied{r.builder, c.Counts}, Effects{
		LSN:   func() fsm.LSN { return view().LSN() },
		NowMs: now,
		Edited: func(_ context.Context, edit *election.ExternalEditError) error {
			c.Errorf("%s found an edit: %v", mb.name, edit)
			return edit
		},
		Wrote: r.wrote,
	}, hclog.NewNullLogger())
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(c.Context())
	go func() {
		defer close(r.ended)
		r.err = r.Run(ctx)
	}()
	r.Changed()
	return r
}

// wrote is called after each write of the document.
func (r *leaderTerm) wrote(w Written) {
	c := r.c
	r.mb.unflushed.Flushed(w.Content.LSN())
	r.mb.unflushed.Trim(w.Kept)
	c.lock.Lock()
	defer c.lock.Unlock()
	if r.mb.cutOff == nil {
		c.kept = w.Kept
	}
}

// change commits n entries. It may wait for them to be flushed in the background.
func (r *leaderTerm) change(n int) {
	c := r.c
	for range n {
		lsn, _ := c.commit(c.load.mutations(c.m, now())...)
		r.Changed()
		if c.r.IntN(3) == 0 {
			c.waits.Go(func() {
				if r.WaitFlushed(c.Context(), lsn) == nil {
					c.confirm(lsn)
				}
			})
		}
	}
}

// stop ends the leader term. final makes it flush the unflushed entries first.
func (r *leaderTerm) stop(final bool) {
	r.cancel()
	<-r.ended
	if r.err != nil {
		r.c.One("fenced")
	} else if final {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		if r.Final(ctx) == nil {
			r.c.One("final flush")
		}
		cancel()
	}
	r.Close()
	r.builder.Close()
}

// collect removes the objects beyond the window, from the view of this leader.
func (r *leaderTerm) collect(ctx context.Context) error {
	c := r.c
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	seen, err := election.Read(ctx, r.mb.gate, docKey)
	if err != nil || seen.Doc == nil || seen.Doc.Header == nil || seen.Doc.Header.Epoch != r.fence.Epoch() {
		return err
	}
	n, err := archive.Collect(ctx, r.mb.gate, seen.Doc, time.Now().Add(-c.cfg.Window), 1000, nil)
	c.Add("collected", n)
	return err
}

// spied counts the actions of the builder.
type spied struct {
	*DocumentBuilder
	*storagetest.Counts
}

// Draft implements Draft.
func (s spied) Draft(ctx context.Context, viewed bool) (c *document.Content, behind bool, err error) {
	c, behind, err = s.DocumentBuilder.Draft(ctx, viewed)
	if behind {
		s.One("step of a backlog")
	}
	if err != nil {
		s.One("draft failed")
	}
	return c, behind, err
}
