package cluster

import (
	"os"
	"time"

	"github.com/hashicorp/raft"

	"osqueue/fsm"
)

// Leader returns the HTTP address of the active leader, as far as this node
// knows, and whether it is this node. The address is "" while there is none.
func (n *Node) Leader() (address string, self bool) {
	if n.active() != nil {
		return n.cfg.HTTPAdvertise, true
	}
	_, id := n.raft.LeaderWithID()
	if id == "" || id == n.id {
		return "", false
	}
	return n.leaderHTTP(), false
}

// leaderHTTP is the HTTP address of raft's leader: as it registered through
// the log, or as --peers has it.
func (n *Node) leaderHTTP() string {
	_, id := n.raft.LeaderWithID()
	if id == "" {
		return ""
	}
	return n.httpAddress(nodeName(id))
}

func (n *Node) httpAddress(name string) string {
	if name == n.cfg.Name {
		return n.cfg.HTTPAdvertise
	}
	if b := n.replica.meta().Broker; b.Node == name {
		return b.Address
	}
	return n.cfg.peerHTTP(name)
}

// Now is the clock by which the machine's times are to be read: the leader's
// on the active leader, elsewhere the machine's own.
func (n *Node) Now() int64 {
	if r := n.active(); r != nil {
		return r.clock.now()
	}
	return n.replica.meta().Now
}

// Status describes the node and its cluster as it sees them now.
func (n *Node) Status() Status {
	var s Status
	n.replica.read(func(m *fsm.Machine) {
		meta := m.Meta()
		s.LSN, s.Epoch, s.Counts = meta.LSN, meta.Broker.Epoch, m.Counts()
		s.Lineage, s.Cluster, s.CompletedEver = meta.Lineage, meta.Cluster, meta.CompletedTotal
		s.Workers, s.Level = m.WorkerCount(), meta.Level
	})
	s.Node, s.ServerID = n.cfg.Name, string(n.id)
	s.Term, s.CommitIndex, s.Applied = n.raft.CurrentTerm(), n.raft.CommitIndex(), n.raft.AppliedIndex()
	s.Now, s.WallClock = n.Now(), n.cfg.Clock().UnixMilli()
	s.Pid, s.Version, s.StartedAt = os.Getpid(), n.cfg.Version, n.started.UnixMilli()
	s.CheckedLSN, s.StateError = n.sums.status()
	f := n.fence.Load()
	s.Fence, s.FenceReason = f.state, f.reason
	if c := n.carried.Load(); c != nil {
		s.Carried = *c
	}
	n.describeFlush(&s)
	n.describeRaft(&s)
	if n.stores.kept != nil {
		s.Snapshots = n.stores.kept.Status()
	}
	if n.inbox != nil {
		s.Inbox = n.inbox.Stats()
	}
	if n.cfg.Account != nil {
		s.Bucket = n.cfg.Account()
	}
	return s
}

// describeFlush fills in what the bucket has. The active leader knows; the others
// have heard of it with the newest entry.
func (n *Node) describeFlush(s *Status) {
	s.FlushedLSN = n.journal.FlushedLSN()
	lag := n.journal.Lag()
	s.LagEntries, s.LagBytes = lag.Entries, lag.Bytes
	s.MaxFlushLagMs = n.cfg.MaxFlushLag.Milliseconds()
	r := n.active()
	if r == nil {
		return
	}
	s.LagMs = r.lag().Milliseconds()
	s.FlushError = r.flusher.Failing()
	if e := r.damage.Load(); e != nil {
		s.ArchiveError = e.Error()
	}
	if standby := r.standby.Load(); standby != nil {
		s.Standby = standby.String()
	}
	if refused := r.gate.refusal(); refused != nil {
		s.Refusing = refused.Error()
	}
	s.FlushIntervalMs = n.flushInterval().Milliseconds()
	if d := r.written.Load(); d != nil {
		s.DocumentBytes, s.DocumentForm = d.bytes, d.form
		s.BaseLSN, s.ArchiveLSN, s.LogBytes = d.base, d.archive, d.log
	}
}

func (n *Node) describeRaft(s *Status) {
	state := n.raft.State()
	s.RaftState = state.String()
	s.State = wireState(state, n.active() != nil)
	_, leader := n.raft.LeaderWithID()
	s.LeaderNode = nodeName(leader)
	s.LeaderAddress, _ = n.Leader()
	for _, srv := range n.raft.GetConfiguration().Configuration().Servers {
		name := nodeName(srv.ID)
		p := Peer{
			Name:        name,
			ServerID:    string(srv.ID),
			RaftAddress: string(srv.Address),
			HTTPAddress: n.httpAddress(name),
			Voter:       srv.Suffrage == raft.Voter,
			Leader:      srv.ID == leader && leader != "",
		}
		if state == raft.Leader && srv.ID != n.id {
			n.describeProgress(&p, srv.ID)
		}
		if offset, ok := n.ClockOffset(srv.ID); ok {
			ms := offset.Milliseconds()
			p.ClockOffset = &ms
		}
		s.Peers = append(s.Peers, p)
	}
}

// describeProgress fills in what this leader has measured of a member.
func (n *Node) describeProgress(p *Peer, id raft.ServerID) {
	heard, index := n.out.progress(id)
	if !heard.IsZero() {
		ms := time.Since(heard).Milliseconds()
		p.LastContact = &ms
	}
	if index > 0 {
		p.LogIndex = &index
	}
}

// wireState is the word that workers look for: "leader" only where writes are
// answered.
func wireState(s raft.RaftState, active bool) string {
	switch {
	case active:
		return "leader"
	case s == raft.Leader, s == raft.Candidate:
		return "candidate"
	default:
		return "follower"
	}
}
