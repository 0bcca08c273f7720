package cluster

import (
	"os"
	"time"

	"github.com/hashicorp/raft"

	"osqueue/cluster/membership"
	"osqueue/fsm"
)

// Leader returns the HTTP address of the active leader, as far as this node knows, and
// whether this node is the active leader. The address is "" while no leader is known.
func (n *Node) Leader() (address string, self bool) {
	if n.active() != nil {
		return n.cfg.HTTPAdvertise, true
	}
	_, id := n.raft.LeaderWithID()
	if id == "" || id == n.id {
		return "", false
	}
	return n.members.LeaderHTTP(), false
}

// Now returns the queue's time in ms: the leader's clock on the active leader, and the
// machine's time, which is that of the newest applied entry, on other nodes.
func (n *Node) Now() int64 {
	if r := n.active(); r != nil {
		return r.Now()
	}
	return n.replica.meta().Now
}

// Status returns the state of the node, and of the cluster as the node sees it now.
func (n *Node) Status() Status {
	var s Status
	n.replica.read(func(m *fsm.Machine) {
		meta := m.Meta()
		s.LSN, s.Epoch, s.Counts = meta.LSN, meta.Broker.Epoch, m.Counts()
		s.Lineage, s.Cluster, s.CompletedEver = meta.Lineage, meta.Cluster, meta.CompletedTotal
		s.Workers, s.Level = m.WorkerCount(), meta.Level
	})
	s.Node, s.ServerID = n.cfg.Name, string(n.id)
	if n.port != nil {
		s.NodeAddress = string(n.net.LocalAddr())
	}
	s.Term, s.CommitIndex, s.Applied = n.raft.CurrentTerm(), n.raft.CommitIndex(), n.raft.AppliedIndex()
	s.Now, s.WallClock = n.Now(), n.cfg.Clock().UnixMilli()
	s.Pid, s.Version, s.StartedAt = os.Getpid(), n.cfg.Version, n.started.UnixMilli()
	s.CheckedLSN, s.StateError = n.sums.status()
	s.Fence, s.FenceReason = n.leader.Fence()
	s.Carried = n.leader.Carried()
	s.DocumentCopies = n.leader.DocumentCopies()
	s.describeFlush(n)
	s.describeRaft(n)
	if n.kept != nil {
		s.Snapshots = n.kept.Status()
	}
	if n.cfg.Account != nil {
		s.Bucket = n.cfg.Account()
	}
	return s
}

// describeFlush fills in how far the bucket is. Only the active leader knows all of it;
// the other nodes know what the entries of the log say.
func (s *Status) describeFlush(n *Node) {
	s.FlushedLSN = n.unflushed.FlushedLSN()
	lag := n.unflushed.Lag()
	s.LagEntries, s.LagBytes = lag.Entries, lag.Bytes
	s.MaxFlushLagMs = n.cfg.MaxFlushLag.Milliseconds()
	r := n.active()
	if r == nil {
		return
	}
	t := r.Status()
	s.LagMs, s.FlushIntervalMs = t.Lag.Milliseconds(), t.FlushInterval.Milliseconds()
	s.FlushError, s.ArchiveError, s.Standby, s.Refusing = t.FlushError, t.ArchiveError, t.Standby, t.Refusing
	if finding := n.leader.Finding(); s.FlushError != "" && finding != "" {
		s.FlushError += "; " + finding
	}
	s.DocumentBytes, s.DocumentView = t.DocumentBytes, t.DocumentView
	s.CheckpointLSN, s.ArchiveLSN, s.LogBytes = t.CheckpointLSN, t.ArchiveLSN, t.LogBytes
}

func (s *Status) describeRaft(n *Node) {
	state := n.raft.State()
	s.RaftState = state.String()
	s.State = wireState(state, n.active() != nil)
	_, leader := n.raft.LeaderWithID()
	s.LeaderNode = membership.NodeName(leader)
	s.LeaderAddress, _ = n.Leader()
	for _, srv := range n.raft.GetConfiguration().Configuration().Servers {
		name := membership.NodeName(srv.ID)
		p := Peer{
			Name:        name,
			ServerID:    string(srv.ID),
			RaftAddress: string(srv.Address),
			HTTPAddress: n.members.HTTPAddress(name),
			Voter:       srv.Suffrage == raft.Voter,
			Leader:      srv.ID == leader && leader != "",
		}
		if state == raft.Leader && srv.ID != n.id {
			p.describeProgress(n.out.Progress(srv.ID))
		}
		if offset, ok := n.clocks.offset(srv.ID); ok {
			ms := offset.Milliseconds()
			p.ClockOffset = &ms
		}
		s.Peers = append(s.Peers, p)
	}
}

// describeProgress fills in the leader's measurements of a member.
func (p *Peer) describeProgress(heard time.Time, index uint64) {
	if !heard.IsZero() {
		ms := time.Since(heard).Milliseconds()
		p.LastContact = &ms
	}
	if index > 0 {
		p.LogIndex = &index
	}
}

// wireState returns the state of the node in the words of the API, where workers look for
// "leader". It is "leader" only on the active leader.
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
