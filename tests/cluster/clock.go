package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// faultClockEnv names the file from which a program built with the tag faultclock reads the
// error of its wall clock (cmd/osqueue/serve/clock_fault.go).
const faultClockEnv = "OSQUEUE_FAULT_CLOCK"

type clockFault struct {
	Serial int64         `json:"serial"`
	Offset time.Duration `json:"offset"`
	Drift  float64       `json:"drift"`
	Since  int64         `json:"since"`
}

// clockPatience bounds the wait for a node to see its new clock.
const clockPatience = 5 * time.Second

// SetClock offsets a node's wall clock by offset, and makes it gain drift seconds per second
// from now on; zeros correct it. The proof is the node's own report of its clock. A stopped
// node returns no proof, and starts with that clock. For a paused node SetClock returns an
// error, and the node has that clock when it continues. The cluster must have
// Options.FaultClock. Only one goroutine may set a node's clock at a time.
func (n *Node) SetClock(offset time.Duration, drift float64) (proof string, err error) {
	n.cluster.tb.Helper()
	if !n.cluster.opt.FaultClock {
		n.cluster.tb.Fatal("the cluster was started without Options.FaultClock")
	}
	n.clockSerial++
	f := clockFault{Serial: n.clockSerial, Offset: offset, Drift: drift, Since: time.Now().UnixNano()}
	n.writeClock(f)
	if !n.Running() {
		return "", nil
	}
	sign := fmt.Sprintf("fault clock: serial=%d ", f.Serial)
	err = Poll(clockPatience, func() error {
		for line := range strings.Lines(n.Log()) {
			if strings.Contains(line, sign) {
				proof = strings.TrimSpace(line)
				return nil
			}
		}
		return fmt.Errorf("%s has not taken its new clock", n.Name)
	})
	return proof, err
}

func (p *process) clockPath() string { return filepath.Join(p.Dir, "clock.json") }

// writeClock replaces the file atomically, because the node may read it at any time.
func (n *Node) writeClock(f clockFault) {
	data, err := json.Marshal(f)
	if err != nil {
		n.cluster.tb.Fatal(err)
	}
	fresh := n.clockPath() + ".new"
	if err := os.MkdirAll(n.Dir, 0o700); err != nil {
		n.cluster.tb.Fatal(err)
	}
	if err := os.WriteFile(fresh, data, 0o600); err != nil {
		n.cluster.tb.Fatal(err)
	}
	if err := os.Rename(fresh, n.clockPath()); err != nil {
		n.cluster.tb.Fatal(err)
	}
}
