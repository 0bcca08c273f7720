package cluster

import (
	"os"
	"time"

	"github.com/hashicorp/raft"

	"osqueue/cluster/leader"
	"osqueue/cluster/membership"
	"osqueue/cluster/snapshot"
	"osqueue/fsm"
	"osqueue/storage/cost"
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
	var now int64
	n.replica.read(func(m *fsm.Machine) { now = m.Now() })
	return now
}

// DiskFree returns the free bytes on the disk of the raft log; ok is false if they are unknown.
func (n *Node) DiskFree() (bytes int64, ok bool) { return n.raftLog.Free() }

// Status returns the state of the node, and of the cluster as the node sees it now.
func (n *Node) Status() Status {
	var s Status
	n.replica.read(func(m *fsm.Machine) {
		meta := m.Meta()
		s.LSN, s.Epoch, s.Counts = meta.LSN(), meta.Epoch, m.Counts()
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
	s.Status = r.Status()
	if finding := n.leader.Finding(); s.FlushError != "" && finding != "" {
		s.FlushError += "; " + finding
	}
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
			NonVoter:    srv.Suffrage != raft.Voter && n.stays(name),
			Leader:      srv.ID == leader && leader != "",
		}
		if state == raft.Leader && srv.ID != n.id {
			p.describeProgress(n.out.Progress(srv.ID))
		}
		who := n.clocks.identity(srv.ID)
		p.Version, p.KnownLevel = who.Version, who.KnownLevel
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

// The values of Status.Fence.
const (
	FenceFollower    = leader.FenceFollower
	FenceStandby     = leader.FenceStandby
	FenceUnreachable = leader.FenceUnreachable
	FenceActive      = leader.FenceActive
	FenceFenced      = leader.FenceFenced
	FenceRefused     = leader.FenceRefused
)

// Status describes a node and its cluster at one moment, as the node sees them. Times and
// durations are in milliseconds.
type Status struct {
	Node          string // name given by the operator
	ServerID      string // raft's id: name~instance
	NodeAddress   string // host:port for the other nodes
	State         string // "leader" on the active leader; else "follower" or "candidate"
	RaftState     string // state in raft's own words
	Term          uint64
	LeaderNode    string // "" if unknown
	LeaderAddress string // host:port of the active leader's HTTP API; "" if unknown
	CommitIndex   uint64
	Applied       uint64
	LSN           fsm.LSN        // of the newest applied entry
	FlushedLSN    fsm.LSN        // of the newest entry known to be in queue.json
	LagEntries    uint64         // applied but not flushed
	LagBytes      int64          // of these entries
	MaxFlushLagMs int64          // lag from which writes are refused; 0: none
	Carried       leader.Carried // jobs that an adopted document lacked
	// DocumentCopies are the copies of documents that other programs had changed.
	DocumentCopies leader.DocumentCopies

	leader.Status // set only on the active leader

	Snapshots snapshot.Status // raft's snapshots

	Bucket      cost.Report // requests and their cost since this process started
	Epoch       uint64
	Fence       string // one of the Fence constants
	FenceReason string // reason, if Fence is not active or follower
	Lineage     string
	Cluster     string
	Level       uint32 // the feature level of the state
	// CheckedLSN is the newest entry after which a majority of the nodes were known to
	// have the same state. StateError is the finding of the last comparison; "": the
	// states were the same.
	CheckedLSN    fsm.LSN
	StateError    string
	Peers         []Peer
	Counts        fsm.Counts
	CompletedEver uint64
	Workers       int
	Pid           int
	Version       string
	StartedAt     int64
	Now           int64 // queue's time, as Node.Now returns it
	WallClock     int64 // wall clock of this node
}

// Peer is a member of the cluster.
type Peer struct {
	Name        string
	ServerID    string
	RaftAddress string
	HTTPAddress string // "" if unknown
	Voter       bool
	NonVoter    bool // it stays without a vote; a member that is neither a voter nor this is joining
	Leader      bool // raft's leader
	// Version is the member's release, and KnownLevel the highest feature level of it; zero until
	// it has told this node.
	Version    string
	KnownLevel uint32

	// LastContact is how long ago the member last answered this leader, and LogIndex the
	// newest entry that it is known to have. They are nil on nodes that do not lead, and
	// for the leader itself.
	LastContact *int64
	LogIndex    *uint64
	// ClockOffset is how far the member's wall clock is ahead of this node's; nil if it is
	// not known.
	ClockOffset *int64
}
