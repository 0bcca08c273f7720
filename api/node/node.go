// Package node shows what one node knows of itself and of the log. Its operations stand on package core, which says what a call is
// and how it fails; none of them knows a front end or another subject.
package node

import (
	"net/http"
	"slices"
	"time"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/cluster"
	"osqueue/cluster/past"
	"osqueue/fsm"
	"osqueue/internal/auth"
	"osqueue/internal/build"
)

// node is about one node.
type node struct{ *core.Core }

// Routes returns the operations of the package.
func Routes(c *core.Core) []core.Route {
	s := &node{c}
	const get = http.MethodGet
	return []core.Route{
		{Method: get, Path: v1.PathStatus, At: core.AnyNode, Right: auth.Public, Handle: s.showStatus}, // without a principal it shows what discovery needs
		{Method: get, Path: v1.PathHealthz, At: core.AnyNode, Right: auth.Public, Handle: s.healthy},
		{Method: get, Path: v1.PathReadyz, At: core.AnyNode, Right: auth.Public, Handle: s.ready},
		{Method: http.MethodPost, Path: v1.PathDrain, At: core.AnyNode, Right: auth.Admin, Handle: s.drain},
		{
			Method: get, Path: core.PathLSNWait, At: core.AnyNode, Right: auth.Follow | auth.Read, Handle: s.waitLSN,
			Params: []string{v1.ParamLevel, v1.ParamWaitMs},
		},
		{Method: get, Path: v1.PathPast, At: core.AnyNode, Right: auth.Read, Handle: s.listPast},
	}
}

// healthy is GET /healthz: the process runs.
func (s *node) healthy(c *core.Call) error {
	return c.SendJSON(v1.Health{Status: "ok"})
}

// readyPatience bounds the wait for a leader elsewhere: a health check then tries the next
// node.
const readyPatience = 2 * time.Second

// noVote is the answer of a node that another one must not be stopped for: it has a new data
// directory, and is not a full member of its cluster yet.
var noVote = core.Kind{Status: http.StatusServiceUnavailable, Tag: v1.TagNoLeader, Title: "The node has no vote yet", Retry: time.Second}

// ready is GET /readyz: this node is a full member, and requests to it find a leader that answers them.
// Only the leader knows the latter: the other nodes know the elected raft leader, but not whether the
// bucket lets it become active.
func (s *node) ready(c *core.Call) error {
	if err := s.Interrupted(c); err != nil {
		return err
	}
	if c.ForwardedBy == nil && s.draining() { // another node asks whether this one leads
		return core.Fail(core.Closing, "this node drains; use another node")
	}
	if leader, self := s.Node.Leader(); leader == "" && !self {
		return s.notReady(c)
	}
	st := s.Node.Status()
	if !slices.ContainsFunc(st.Peers, func(p cluster.Peer) bool { return p.ServerID == st.ServerID && (p.Voter || p.NonVoter) }) {
		return core.Fail(noVote, "node %s has no vote yet: it joins the cluster and copies its log; do not stop another node until it has one", st.Node)
	}
	done, err := s.PassOn(c, min(readyPatience-s.Config.Timeouts.Forward, 0))
	if done || err != nil {
		return err
	}
	return s.healthy(c)
}

// draining reports whether the node stops in order.
func (s *node) draining() bool {
	if s.Config.Drain == nil {
		return false
	}
	select {
	case <-s.Config.Drain.Began():
		return true
	default:
		return false
	}
}

// drain is POST /v1/drain: this node stops in order, as at SIGTERM.
func (s *node) drain(c *core.Call) error {
	if s.Config.Drain == nil {
		return core.Fail(core.Closing, "this server cannot be stopped by a call")
	}
	st := s.Node.Status()
	if err := c.SendJSON(v1.Draining{Node: st.Node, Pid: st.Pid}); err != nil {
		return err
	}
	s.Config.Drain.Begin() // the stop waits for this answer
	return nil
}

// notReady reports why there is no leader, as far as this node knows.
func (s *node) notReady(c *core.Call) error {
	st := s.Node.Status()
	if st.Fence == cluster.FenceFollower || st.FenceReason == "" {
		return core.NoLeaderKnown(c)
	}
	return core.Fail(core.NoLeader, "node %s is raft's leader, but does not serve requests yet (%s: %s)", st.Node, st.Fence, st.FenceReason)
}

// showStatus is GET /status.
func (s *node) showStatus(c *core.Call) error {
	st := s.Node.Status()
	out := statusOf(&st, time.Now().UnixMilli())
	out.Ack, out.Inbox = s.Config.Ack, s.inbox()
	legacy := c.Principal != nil && c.Principal.Kind == auth.KindLegacy
	if legacy || s.Access.Mode == core.SecurityOn && (c.Principal == nil || !c.Principal.Has(auth.Read)) {
		out = discovery(&out)
		if legacy && !c.Principal.Scoped() { // dtq's part
			out.LogLength, out.CommitIndex, out.Tasks, out.Workers = st.CommitIndex, st.CommitIndex, tasksOf(st.Counts, st.CompletedEver), st.Workers
		}
	}
	return c.SendJSON(out)
}

// inbox returns nil until the inbox has been used.
func (s *node) inbox() *v1.Inbox {
	if s.Config.Inbox == nil {
		return nil
	}
	return core.UnlessZero(s.Config.Inbox())
}

func statusOf(st *cluster.Status, now int64) v1.Status {
	program := build.Get()
	s := v1.Status{
		NodeID:          st.Node,
		ServerID:        st.ServerID,
		NodeAddress:     st.NodeAddress,
		State:           st.State,
		RaftState:       st.RaftState,
		Term:            st.Term,
		Leader:          core.UnlessZero(st.LeaderNode),
		LeaderAddress:   core.UnlessZero(st.LeaderAddress),
		LogLength:       st.CommitIndex,
		CommitIndex:     st.CommitIndex,
		Applied:         st.Applied,
		LSN:             st.LSN.String(),
		FlushedLSN:      st.FlushedLSN.String(),
		LagEntries:      st.LagEntries,
		LagBytes:        st.LagBytes,
		LagMs:           st.LagMs,
		MaxFlushLagMs:   st.MaxFlushLagMs,
		Refusing:        st.Refusing,
		FlushError:      st.FlushError,
		ArchiveError:    st.ArchiveError,
		Standby:         st.Standby,
		Carried:         core.UnlessZero(v1.Carried(st.Carried)),
		DocumentCopies:  core.UnlessZero(v1.DocumentCopies(st.DocumentCopies)),
		StateError:      st.StateError,
		FlushIntervalMs: st.FlushIntervalMs,
		Document:        documentOf(st),
		Bucket:          bucketOf(st),
		Snapshots:       snapshotsOf(st),
		Epoch:           st.Epoch,
		Fence:           v1.Fence{State: st.Fence, Reason: st.FenceReason},
		Lineage:         st.Lineage,
		Cluster:         st.Cluster,
		FeatureLevel:    st.Level,
		KnownLevel:      fsm.MaxLevel,
		Peers:           peersOf(st.Peers),
		Tasks:           tasksOf(st.Counts, st.CompletedEver),
		Workers:         st.Workers,
		Pid:             st.Pid,
		Version:         st.Version,
		Build:           &v1.Build{Commit: program.Commit, Date: program.Date, Go: program.Go, FeatureLevel: program.FeatureLevel},
		StartedAt:       st.StartedAt,
		UptimeMs:        max(now-st.StartedAt, 0),
		Now:             st.Now,
		WallClock:       st.WallClock,
	}
	if !st.CheckedLSN.IsZero() {
		s.StateCheckedLSN = st.CheckedLSN.String()
	}
	return s
}

// documentOf returns nil on a node that has not written the document.
func documentOf(st *cluster.Status) *v1.Document {
	if st.DocumentBytes == 0 {
		return nil
	}
	return &v1.Document{
		View:          st.DocumentView,
		Bytes:         st.DocumentBytes,
		CheckpointLSN: st.CheckpointLSN.String(),
		ArchiveLSN:    st.ArchiveLSN.String(),
		LogBytes:      st.LogBytes,
	}
}

// bucketOf returns nil on a node that does not count its requests to the bucket.
func bucketOf(st *cluster.Status) *v1.Bucket {
	b := &st.Bucket
	if b.Since.IsZero() {
		return nil
	}
	return &v1.Bucket{
		Since:        b.Since.UnixMilli(),
		Requests:     b.Counts.ByOp(),
		BytesRead:    b.Counts.BytesRead,
		BytesWritten: b.Counts.BytesWritten,
		CostUSD:      b.Cost.USD(),
		ProjectedUSD: b.Projected.USD(),
		BudgetUSD:    b.Budget.USD(),
	}
}

// snapshotsOf returns nil while there are no figures.
func snapshotsOf(st *cluster.Status) *v1.Snapshots {
	s := &st.Snapshots
	out := v1.Snapshots{Damaged: s.Damaged}
	if p := s.Local; p.Index != 0 {
		out.Local = &v1.SnapshotPoint{Term: p.Term, Index: p.Index, At: p.At.UnixMilli()}
	}
	return core.UnlessZero(out)
}

func peersOf(peers []cluster.Peer) []v1.Peer {
	out := make([]v1.Peer, len(peers))
	for i, p := range peers {
		out[i] = v1.Peer{
			Name:        p.Name,
			ServerID:    p.ServerID,
			RaftAddress: p.RaftAddress,
			HTTPAddress: p.HTTPAddress,
			Voter:       p.Voter,
			NonVoter:    p.NonVoter,
			Version:     p.Version,
			KnownLevel:  p.KnownLevel,
			Leader:      p.Leader,

			LastContactMs: p.LastContact,
			LogIndex:      p.LogIndex,
			ClockOffsetMs: p.ClockOffset,
		}
	}
	return out
}

func tasksOf(n fsm.Counts, completedEver uint64) v1.TaskCounts {
	out := v1.TaskCounts{
		Pending:        n.Of(fsm.Scheduled) + n.Of(fsm.Unclaimed),
		Processing:     n.Of(fsm.InProgress),
		Completed:      n.Of(fsm.Completed),
		CompletedTotal: completedEver,
		Scheduled:      n.Of(fsm.Scheduled),
		Unclaimed:      n.Of(fsm.Unclaimed),
		InProgress:     n.Of(fsm.InProgress),
		Dead:           n.Of(fsm.Dead),
		Cancelled:      n.Of(fsm.Cancelled),
		Blocked:        n.Of(fsm.Blocked),
		Expired:        n.Of(fsm.Expired),
	}
	for _, one := range n {
		out.Total += one
	}
	return out
}

// discovery returns the part of a status that a client without a token needs to find the
// leader.
func discovery(s *v1.Status) v1.Status {
	return v1.Status{
		NodeID: s.NodeID, State: s.State, RaftState: s.RaftState, Term: s.Term, Leader: s.Leader, LeaderAddress: s.LeaderAddress,
		NodeAddress: s.NodeAddress,
		LSN:         s.LSN, FlushedLSN: s.FlushedLSN, Ack: s.Ack, Fence: v1.Fence{State: s.Fence.State}, Peers: s.Peers[:0:0], Tasks: v1.TaskCounts{},
	}
}

// listPast is GET /v1/past.
func (s *node) listPast(c *core.Call) error {
	if s.Config.Past == nil {
		return core.PastError(past.ErrOff)
	}
	ctx, cancel := s.Patience(c, s.Config.Timeouts.Past)
	defer cancel()
	spans, err := s.Config.Past.Spans(ctx)
	if err != nil {
		if why := s.Interrupted(c); why != nil {
			return why
		}
		return core.PastError(err)
	}
	out := v1.Past{Spans: []v1.PastSpan{}, Now: s.Node.View().Now()}
	for _, span := range spans[max(0, len(spans)-core.SpansShown):] {
		out.Spans = append(out.Spans, v1.PastSpan{
			FromLSN: span.From.String(), ToLSN: span.To.String(), From: span.Since.UnixMilli(), To: span.Until.UnixMilli(),
		})
	}
	return c.SendJSON(out)
}
