package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"osqueue/cluster/flush"
	"osqueue/cluster/leader"
	"osqueue/cluster/membership"
	"osqueue/cluster/plane"
	"osqueue/cluster/raftlog"
	"osqueue/fsm"
	"osqueue/internal/host"
	"osqueue/storage/cost"
)

// DocumentKey is the key of the document in the bucket.
const DocumentKey = leader.DocumentKey

// The values of Config.RivalPolicy.
const (
	RivalRefuse   = leader.RivalRefuse
	RivalContinue = leader.RivalContinue
)

// PeerAddr is the name of a node and the address of its HTTP API.
type PeerAddr = membership.Peer

// Config is the configuration of a node. Start from DefaultConfig.
type Config struct {
	leader.Config

	DataDir string // raft's log, snapshots and the node's identity
	Memory  bool   // nothing is kept on the disk, and DataDir is not used; for tests

	RaftAddr      string // host:port to listen on
	RaftAdvertise string // host:port that the others dial; "" uses RaftAddr

	// Peers are the nodes that bootstrap the cluster, including this one. The list must then be
	// the same on every node. An empty list makes a cluster of this node alone. With a list that lacks this
	// node, or has addresses without names, the node joins a cluster and bootstraps none.
	Peers []PeerAddr
	// Known are the names of the nodes for which osqueue init has made certificates, or empty.
	// A node that bootstraps alone although it knows others logs a warning.
	Known []string

	// Security protects the connections between the nodes. Without certificates the raft
	// address must be on loopback.
	Security plane.Security

	// HeartbeatTimeout, ElectionTimeout and LeaseTimeout are raft's. A follower that hears
	// nothing for HeartbeatTimeout starts an election, or earlier if the leader's heartbeats
	// have come regularly, but not before LeaseTimeout (silence.go). A leader that does not
	// reach a majority for LeaseTimeout steps down.
	HeartbeatTimeout time.Duration
	ElectionTimeout  time.Duration
	LeaseTimeout     time.Duration

	// SnapshotThreshold (in entries) and SnapshotInterval say when raft takes a snapshot
	// and truncates its log. TrailingLogs is the number of entries that stay for followers
	// that lag.
	SnapshotThreshold uint64
	SnapshotInterval  time.Duration
	TrailingLogs      uint64
	// SnapshotBytes and TrailingBytes bound the same in bytes. A snapshot is due when the
	// entries since the last one are larger than SnapshotBytes and than that snapshot.
	// TrailingBytes of the entries behind the snapshot stay.
	SnapshotBytes int
	TrailingBytes int

	// Account, if given, returns the requests and the cost of the bucket so far, for
	// Status.
	Account        func() cost.Report
	UnflushedBytes int // bytes of the unflushed log that are kept in memory

	// WhileLeading, if given, runs while the node is the active leader, until ctx ends. It must
	// end soon after ctx, because the end of the leader term waits for it.
	WhileLeading func(ctx context.Context, n *Node)

	// EventsKept is the number of the newest events that are kept in memory, for streams
	// that resume. One event takes about 300 bytes.
	EventsKept int

	// LogStallLimit ends the process when one write of the raft log takes longer. A leader
	// whose disk hangs continues to send heartbeats, so the others would elect no new
	// leader.
	LogStallLimit time.Duration

	// BeforeLogWrite, if given, is called before each write of the raft log. Tests use it
	// to make a disk hang.
	BeforeLogWrite func()

	// LogWrote, if given, is called with the duration of each write of the raft log, fsync included. It must not wait.
	LogWrote func(time.Duration)

	Version string       // of the program, for Status
	Client  *http.Client // calls the HTTP API of other nodes; nil makes one

	testEnv *testEnv // used by simulations; nil: the real disk and network
}

// DefaultConfig returns a configuration with the default of every setting that has one.
func DefaultConfig() Config {
	return Config{
		Config: leader.Config{
			HTTPAdvertise:   "127.0.0.1:8080",
			Logger:          hclog.NewNullLogger(),
			Settings:        fsm.DefaultSettings(),
			Flush:           flush.DefaultConfig(),
			MaxFlushLag:     5 * time.Minute,
			CollectInterval: time.Hour, // a collection lists: six requests or more, which are charged
			ArchiveCheck:    time.Minute,
			ArchiveRead:     24 * time.Hour,
			StateCheck:      10 * time.Minute,
			BrokerTimeout:   10 * time.Second,
			StandbyRetry:    10 * time.Second,
			StandbyInterval: time.Minute,
			RivalPolicy:     RivalRefuse,
			MaxEntryBytes:   512 << 10,
			MaxPendingItems: 32 << 10,
			MaxPendingBytes: 64 << 20,
			MaxInFlight:     1,
		},
		RaftAddr:          "127.0.0.1:7080",
		HeartbeatTimeout:  500 * time.Millisecond,
		ElectionTimeout:   500 * time.Millisecond,
		LeaseTimeout:      250 * time.Millisecond,
		SnapshotThreshold: 16 << 10,
		SnapshotInterval:  30 * time.Second,
		TrailingLogs:      4 << 10,
		SnapshotBytes:     256 << 20,
		TrailingBytes:     256 << 20,
		UnflushedBytes:    64 << 20,
		EventsKept:        64 << 10,
		LogStallLimit:     5 * time.Second,
	}
}

// eventsKeptMax bounds Config.EventsKept.
const eventsKeptMax = 4 << 20

// Validate returns an error that names each invalid setting and a valid value for it, or
// nil.
func (c *Config) Validate() error {
	return errors.Join(
		c.validateNode(),
		c.validateRaft(),
		c.validateTimes(),
		c.validateBucket(),
	)
}

func (c *Config) validateBucket() error {
	switch f := &c.Flush; {
	case c.RivalPolicy != RivalRefuse && c.RivalPolicy != RivalContinue:
		return fmt.Errorf("rival policy %q: use %s or %s", c.RivalPolicy, RivalRefuse, RivalContinue)
	case c.StandbyInterval <= 0:
		return fmt.Errorf("StandbyInterval %v: must be positive", c.StandbyInterval)
	case c.MaxFlushLag < 0 || c.Flush.Window < 0:
		return fmt.Errorf("MaxFlushLag %v and Flush.Window %v: must not be negative", c.MaxFlushLag, c.Flush.Window)
	case c.ArchiveCheck < 0 || c.ArchiveRead < 0:
		return fmt.Errorf("ArchiveCheck %v and ArchiveRead %v: must not be negative", c.ArchiveCheck, c.ArchiveRead)
	case c.CollectInterval <= 0 || c.UnflushedBytes <= 0:
		return fmt.Errorf("CollectInterval %v and UnflushedBytes %d: must be positive", c.CollectInterval, c.UnflushedBytes)
	case f.Interval <= 0 || min(f.ViewMax, f.TailMax, f.TailMin, f.TailRepeats, f.SegmentRaw, f.StepBytes, f.CompactAt, f.RefsMax) <= 0 || f.CheckpointMin < 0:
		return fmt.Errorf("the settings of flushes: Interval %v, ViewMax %d, TailMax %d, TailMin %d, TailRepeats %d, SegmentRaw %d, StepBytes %d, CompactAt %d and "+
			"RefsMax %d: must be positive; CheckpointMin %d: must not be negative",
			f.Interval, f.ViewMax, f.TailMax, f.TailMin, f.TailRepeats, f.SegmentRaw, f.StepBytes, f.CompactAt, f.RefsMax, f.CheckpointMin)
	case f.TailMin > f.TailMax || f.SegmentRaw > f.StepBytes || f.CompactAt >= f.RefsMax:
		return fmt.Errorf("the settings of flushes: TailMin %d must be at most TailMax %d, SegmentRaw %d at most StepBytes %d, and CompactAt %d less than RefsMax %d",
			f.TailMin, f.TailMax, f.SegmentRaw, f.StepBytes, f.CompactAt, f.RefsMax)
	}
	return nil
}

func (c *Config) validateNode() error {
	var errs []error
	if !membership.ValidName(c.Name) {
		errs = append(errs, fmt.Errorf("node name %q: use 1 to 63 letters, digits, '.', '_' or '-'", c.Name))
	}
	if c.DataDir == "" && !c.Memory {
		errs = append(errs, errors.New("no data directory: give --data"))
	}
	if c.Bucket == nil {
		errs = append(errs, errors.New("no bucket: give --bucket"))
	}
	if l := c.FeatureLevel; l != 0 && (l < fsm.BaseLevel || l > fsm.MaxLevel) {
		errs = append(errs, fmt.Errorf("feature level %d: this release knows %d to %d", l, fsm.BaseLevel, fsm.MaxLevel))
	}
	if c.EventsKept < 1 || c.EventsKept > eventsKeptMax {
		errs = append(errs, fmt.Errorf("%d events to keep: must be from 1 to %d", c.EventsKept, eventsKeptMax))
	}
	seen := make(map[string]bool)
	for _, p := range c.Peers {
		if p.Name != "" && seen[p.Name] {
			errs = append(errs, fmt.Errorf("the peers name %q twice: give each node a name of its own", p.Name))
		}
		seen[p.Name] = true
	}
	return errors.Join(errs...)
}

func (c *Config) validateRaft() error {
	host, _, err := net.SplitHostPort(c.RaftAddr)
	switch {
	case err != nil:
		return fmt.Errorf("raft address %q: write host:port", c.RaftAddr)
	case c.Security.Accept == nil && c.testEnv == nil && !isLoopback(host):
		return fmt.Errorf("raft address %q is reachable from other machines, and this node has no certificate: "+
			"make certificates (osqueue init) and give them with --tls-ca, --tls-cert and --tls-key, or bind to loopback", c.RaftAddr)
	}
	return nil
}

func (c *Config) validateTimes() error {
	switch {
	case c.Flush.Heartbeat > c.BrokerTimeout/3:
		return fmt.Errorf("--broker-heartbeat %v: must be at most a third of --broker-timeout %v, so that a lost write does not cost the queue",
			c.Flush.Heartbeat, c.BrokerTimeout)
	case c.MaxFlushLag > 0 && c.MaxFlushLag <= c.BrokerTimeout:
		return fmt.Errorf("--max-flush-lag %v: must be longer than --broker-timeout %v (0: no limit)", c.MaxFlushLag, c.BrokerTimeout)
	case c.StateCheck < 0:
		return fmt.Errorf("the interval %v at which the nodes compare their states must not be negative (0: never)", c.StateCheck)
	case c.LogStallLimit < time.Second:
		return fmt.Errorf("--disk-stall-limit %v: must be at least 1s, because a busy disk may take that long for one write", c.LogStallLimit)
	case c.LeaseTimeout > c.HeartbeatTimeout:
		return fmt.Errorf("raft's lease timeout %v must not be longer than its heartbeat timeout %v", c.LeaseTimeout, c.HeartbeatTimeout)
	}
	return nil
}

// HasRun reports whether a node has run on this configuration's data directory before.
func (c *Config) HasRun() bool {
	return membership.HasID(c.DataDir) && !c.Memory
}

// HasState reports whether the node of this configuration's data directory has been part of a
// cluster, and so may have state.
func (c *Config) HasState() bool {
	w, err := raftlog.ReadWitness(c.DataDir)
	return c.HasRun() && (err != nil || w.Term > 0 || w.Index > 0)
}

// loadServerID returns the server id of the node.
func loadServerID(cfg *Config) (raft.ServerID, error) {
	if cfg.testEnv != nil {
		return cfg.testEnv.id, nil
	}
	if cfg.Memory {
		return membership.RandomID(cfg.Name), nil
	}
	return membership.LoadID(cfg.DataDir, cfg.Name, func(id raft.ServerID) error { // its log is empty
		return raftlog.WriteWitness(cfg.DataDir, raftlog.Witnessed{Server: id})
	})
}

// host returns the Host of members with loopback addresses. Where the network stack has no
// identity, no other process is known to be in the same one.
func (c *Config) host() string { return cmp.Or(host.NetworkStack(), rand.Text()) }

// expected returns the number of nodes that bootstrap the cluster, or 0 if this one is none of them.
func (c *Config) expected() int {
	own := len(c.Peers) == 0
	for _, p := range c.Peers {
		if p.Name == "" {
			return 0
		}
		own = own || p.Name == c.Name
	}
	if !own {
		return 0
	}
	return max(len(c.Peers), 1)
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// ParsePeers parses a list of names and HTTP addresses such as
// "n1=10.0.0.1:8080,n2=10.0.0.2:8080". An address without a name, or an SRV record such as
// "srv:_osqueue._tcp.example.test", is a contact.
func ParsePeers(s string) ([]PeerAddr, error) {
	if strings.TrimSpace(s) == "" {
		return nil, nil
	}
	var peers []PeerAddr
	for _, part := range strings.Split(s, ",") {
		part = strings.TrimSpace(part)
		name, addr, named := strings.Cut(part, "=")
		if !named {
			name, addr = "", part
		}
		record, isSRV := strings.CutPrefix(part, membership.SRVPrefix)
		_, _, err := net.SplitHostPort(addr)
		if isSRV && record == "" || !isSRV && err != nil || named && !membership.ValidName(name) {
			return nil, fmt.Errorf("peer %q: write name=host:port, with the port of the HTTP API; to join a cluster host:port or srv:RECORD is enough", part)
		}
		peers = append(peers, PeerAddr{Name: name, HTTP: addr})
	}
	return peers, nil
}

// Listings of one round. TestRequestsOfAnIdleHour counts them.
const (
	checkLists   = 2              // of the archive check: checkpoints and log
	collectLists = 4 + checkLists // of the collector: probes, copies, checkpoints, log
	collectGets  = 3              // the document before the listings and before the removal, and a manifest
)

// Repeated returns the requests that an active leader repeats at its slowest pace: those
// of an idle queue that is too large for the document, and the objects of load bytes of
// log entries a second, written at the interval of the heartbeat. The audit's reads
// (every object once in ArchiveRead) and standbys are not included.
func (c *Config) Repeated(load int64) []cost.Repeated {
	return []cost.Repeated{
		{Name: "a heartbeat", Every: c.Flush.Heartbeat, Counts: cost.Counts{Replaces: 1}, Flag: "--broker-heartbeat"},
		{Name: "a check of the archive", Every: c.ArchiveCheck, Counts: cost.Counts{Lists: checkLists}, Flag: "--archive-check"},
		{Name: "a collection", Every: c.CollectInterval, Counts: cost.Counts{Lists: collectLists, Gets: collectGets}},
		{Name: "a look for standby clusters", Every: c.StandbyInterval, Counts: cost.Counts{Lists: 1}},
		{Name: "a segment of the expected load", Every: c.Flush.ObjectEvery(load), Counts: cost.Counts{Creates: 1}},
	}
}
