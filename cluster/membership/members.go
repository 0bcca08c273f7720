package membership

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"osqueue/fsm"
)

// Config is the configuration of Members. All fields are required.
type Config struct {
	ID               raft.ServerID
	Name             string
	RaftAddress      string // that the other nodes dial
	HTTPAddress      string // that the other nodes and clients dial
	FeatureLevel     uint32 // level to which the operator holds the cluster; 0: the highest of this release
	HeartbeatTimeout time.Duration
	Expected         int      // number of nodes in --peers; 0: the node joins a cluster and forms none
	Known            []string // names of nodes for which osqueue init has made certificates; may be empty
	Clock            func() time.Time
	Version          string // of the program
	Peers            *Peers
	Raft             *raft.Raft
	Log              hclog.Logger
}

// Effects are the functions of the node that Members calls. It calls them from any
// goroutine, and holds no lock.
type Effects struct {
	// Meta returns the metadata of the applied state. It takes the replica's read lock.
	Meta func() *fsm.Meta
	// State returns the newest checksum of this node's state; zero: none.
	State func() fsm.StateSum
	// Agrees reports whether the log of this node, up to the committed entry commit,
	// continues after an entry.
	Agrees func(commit, term, index uint64) bool
	// Await waits for a future of raft, until ctx or raft ends.
	Await func(ctx context.Context, f raft.Future) error
	// Progress returns when a server answered the leader last (the zero time: never) and
	// the index up to which it is known to have the log.
	Progress func(id raft.ServerID) (heard time.Time, index uint64)
	// Ask begins a round of requests, and Confirmed reports whether a server has answered one of it, or of a later one.
	Ask       func() (round uint64)
	Confirmed func(id raft.ServerID, round uint64) bool
	// Quiet returns for how long a server has not answered this node as the leader of a
	// term.
	Quiet func(id raft.ServerID, term uint64) time.Duration
	// Move sends raft's requests to a server at from to another address; At returns the address to
	// which they are sent.
	Move func(id raft.ServerID, from, to raft.ServerAddress)
	At   func(id raft.ServerID, from raft.ServerAddress) raft.ServerAddress
	// Admitted returns the record of a name in the applied state, and Admissions returns all. Admit
	// stores records and Forget deletes one, through the log; they return the errors of a proposal.
	Admitted   func(name string) (Admission, bool)
	Admissions func() []Admission
	Admit      func(ctx context.Context, records ...Admission) error
	Forget     func(ctx context.Context, name string) error
	// HandOver gives raft's leadership to another voter.
	HandOver func(ctx context.Context, to raft.ServerID) error
	// Removed ends the node, because it is no longer a member. Run calls it at most once.
	Removed func(error)
}

// Members is a node's view of its cluster's members, and its own membership. Its methods
// are safe for concurrent use.
type Members struct {
	cfg   Config
	do    Effects
	raft  *raft.Raft
	peers *Peers
	log   hclog.Logger
	named atomic.Bool                            // a peer's configuration contains this server
	met   atomic.Pointer[map[raft.ServerID]bool] // members of the cluster, by its nodes in --peers; nil: not asked
	unmet chan struct{}                          // signals Meet that a sender is unknown; capacity 1

	changing sync.Mutex // held while this leader decides and makes one change of the members

	// The next fields belong to the goroutine of Run.
	minded time.Time          // when mind looked last
	told   raft.ServerAddress // the configured address that was logged last
}

// New returns the members of the cluster of a node whose raft runs.
func New(cfg Config, do Effects) *Members {
	return &Members{cfg: cfg, do: do, raft: cfg.Raft, peers: cfg.Peers, log: cfg.Log, unmet: make(chan struct{}, 1)}
}

// Run forms the cluster or joins it, and then ends the node when it is no longer a
// member. It runs until ctx ends.
func (n *Members) Run(ctx context.Context) {
	n.form(ctx)
	n.watch(ctx)
}

// Identity returns the identity of this node.
func (n *Members) Identity() Identity {
	id := Identity{
		Name:        n.cfg.Name,
		ServerID:    string(n.cfg.ID),
		RaftAddress: n.cfg.RaftAddress,
		HTTPAddress: n.cfg.HTTPAddress,
		Empty:       n.raft.LastIndex() == 0, // it has never been part of a cluster
		Applied:     n.raft.AppliedIndex(),
		Cluster:     n.do.Meta().Cluster,
		KnownLevel:  fsm.MaxLevel,
		HoldLevel:   n.cfg.FeatureLevel,
		ClockNs:     n.cfg.Clock().UnixNano(),
		Version:     n.cfg.Version,
		State:       sumText(n.do.State()),
	}
	for _, s := range n.raft.GetConfiguration().Configuration().Servers {
		id.Members = append(id.Members, string(s.ID))
	}
	return id
}

// MayVote reports whether this server, and not only another one of its name, is in a
// configuration: in the latest one of its log or, before the log has any, in that of a
// peer. A server id is created with the data directory, so no vote or entry under this id
// can have been lost.
func (n *Members) MayVote() bool {
	return n.configured(n.raft.GetConfiguration().Configuration()) || n.named.Load()
}

// LeaderHTTP returns the HTTP address of raft's leader: the one that the leader
// registered through the log, or else the one in its record or --peers.
func (n *Members) LeaderHTTP() string {
	_, id := n.raft.LeaderWithID()
	if id == "" {
		return ""
	}
	return n.HTTPAddress(NodeName(id))
}

// HTTPAddress returns the HTTP address of a node by name, or "" if it is not known.
func (n *Members) HTTPAddress(name string) string {
	if name == n.cfg.Name {
		return n.cfg.HTTPAddress
	}
	if m := n.do.Meta(); m.BrokerNode == name {
		return m.BrokerAddress
	}
	return n.peers.HTTP(name)
}

// ClusterID returns the cluster's id in the log. Before the first broker it is computed
// from raft's configuration and is the same on every node.
func (n *Members) ClusterID() string {
	if id := n.do.Meta().Cluster; id != "" {
		return id
	}
	return firstClusterID(n.raft.GetConfiguration().Configuration())
}

// levelTimeout bounds one round of requests for the level.
const levelTimeout = time.Second

// CommonLevel returns the highest level that all servers of raft's configuration allow.
// The error names a server that did not answer.
func (n *Members) CommonLevel(ctx context.Context) (uint32, error) {
	ctx, cancel := context.WithTimeout(ctx, levelTimeout)
	defer cancel()
	servers := n.raft.GetConfiguration().Configuration().Servers
	answers := make(chan error, len(servers))
	levels := make([]uint32, len(servers))
	for i, s := range servers {
		go func() {
			id, err := n.IdentityOf(ctx, string(s.ID))
			levels[i] = id.highestLevel()
			answers <- err
		}()
	}
	var errs []error
	for range servers {
		errs = append(errs, <-answers)
	}
	me := Identity{KnownLevel: fsm.MaxLevel, HoldLevel: n.cfg.FeatureLevel}
	level := me.highestLevel()
	for _, l := range levels {
		level = min(level, l)
	}
	return level, errors.Join(errs...)
}

// IdentityOf asks a server of raft's configuration for its identity. It returns an error
// if another server answers in its place.
func (n *Members) IdentityOf(ctx context.Context, serverID string) (Identity, error) {
	if serverID == string(n.cfg.ID) {
		return n.Identity(), nil
	}
	address := n.HTTPAddress(NodeName(raft.ServerID(serverID)))
	if address == "" {
		return Identity{}, fmt.Errorf("the address of the HTTP API of %s is unknown", serverID)
	}
	id, err := n.peers.Ask(ctx, address)
	if err == nil && id.ServerID != serverID {
		err = fmt.Errorf("%s answers as %s and not as %s", address, id.ServerID, serverID)
	}
	return id, err
}

// Identity is the answer of a node to other nodes that ask for its identity.
type Identity struct {
	Name        string   `json:"name"`
	ServerID    string   `json:"serverId"`
	RaftAddress string   `json:"raftAddress"`
	HTTPAddress string   `json:"httpAddress"`
	Empty       bool     `json:"empty"`   // true if it was never part of a cluster
	Applied     uint64   `json:"applied"` // raft index
	Members     []string `json:"members"` // server ids
	Cluster     string   `json:"cluster"` // id of the cluster in the log; "" before the first broker

	KnownLevel uint32 `json:"knownLevel"`          // highest feature level of the release
	HoldLevel  uint32 `json:"holdLevel,omitempty"` // the level to which the operator holds the cluster; 0: none
	ClockNs    int64  `json:"clockNs"`             // wall clock, ns since 1970; 0 on nodes that do not report it
	Version    string `json:"version"`

	State *SumText `json:"state,omitempty"` // the newest checksum of its state; nil: none
}

func (i *Identity) member(serverID string) bool { return slices.Contains(i.Members, serverID) }

// highestLevel returns the highest level that the node allows its cluster to have.
func (i *Identity) highestLevel() uint32 {
	if i.HoldLevel != 0 {
		return min(i.KnownLevel, i.HoldLevel)
	}
	return i.KnownLevel
}

// knows returns an error if the node's release does not know a level.
func (i *Identity) knows(level uint32) error {
	if known := i.KnownLevel; known < level {
		return fmt.Errorf("the cluster has feature level %d and node %q knows only up to %d: upgrade it first", level, i.Name, known)
	}
	return nil
}

// SumText is the checksum of a state in an Identity.
type SumText struct {
	LSN string `json:"lsn"`
	Sum string `json:"sha256"`
}

func sumText(s fsm.StateSum) *SumText {
	if s.LSN.IsZero() {
		return nil
	}
	return &SumText{s.LSN.String(), hex.EncodeToString(s.Sum[:])}
}
