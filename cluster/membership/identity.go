package membership

import (
	"encoding/hex"
	"fmt"

	"osqueue/fsm"
)

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

	State *SumText `json:"state,omitempty"` // the newest checksum of its state; nil: none
}

func (i *Identity) member(serverID string) bool {
	for _, m := range i.Members {
		if m == serverID {
			return true
		}
	}
	return false
}

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
