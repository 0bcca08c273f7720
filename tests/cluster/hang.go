package cluster

import (
	"errors"
	"os"
	"path/filepath"
)

// faultDiskEnv names a file. While it exists, a program built with the tag faultclock hangs in
// each write of its raft log (cmd/osqueue/serve/clock_fault.go).
const faultDiskEnv = "OSQUEUE_FAULT_DISK"

func (p *process) hangPath() string { return filepath.Join(p.Dir, "disk-hangs") }

// HangDisk makes the node hang in its next write of the raft log, until UnhangDisk. The cluster
// must have Options.FaultClock.
func (n *Node) HangDisk() error {
	if !n.cluster.opt.FaultClock {
		return errors.New("the cluster was started without Options.FaultClock")
	}
	return os.WriteFile(n.hangPath(), nil, 0o600)
}

// UnhangDisk ends HangDisk.
func (n *Node) UnhangDisk() error { return os.Remove(n.hangPath()) }
