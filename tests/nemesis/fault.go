package nemesis

import (
	"fmt"
	"slices"
	"time"

	"osqueue/tests/history"
)

// Fault is something that can befall a cluster.
type Fault struct {
	Name string
	// Nodes is how many the cluster must have at least; 0: three.
	Nodes int
	// Single says that the cluster must have one node.
	Single bool
	// Needs are what the world must have for it.
	Needs Need
	// Hold is how long it lasts, at most.
	Hold time.Duration
	// Begin strikes. What it returns heals and says whether it has hit; it is
	// called once. A fault that is over at once returns a function that brings back
	// what is gone.
	Begin func(w *World, s *history.FaultSpan) (heal func())
	// Takes is how many nodes it takes out of the cluster while it lasts. Faults
	// overlap only if they leave a majority.
	Takes int
	// Alone says that no other fault may overlap: both need all nodes, say.
	Alone bool
	// Elects is set if the fault waits for a leader, NoBucket if no node can become one
	// while it lasts. Faults of the two kinds do not overlap.
	Elects, NoBucket bool
	// Loses says that what is not in the bucket may be gone: most checkers have nothing
	// to judge by then.
	Loses bool
}

// Need is a set of the things that a fault needs in the world.
type Need uint8

// The things that a fault can need.
const (
	NeedProxy   Need = 1 << iota // a proxy before the bucket
	NeedLinks                    // links between all
	NeedClock                    // a program whose clock and disk a test breaks
	NeedDisk                     // a small file system for each node
	NeedWorkers                  // worker processes
	NeedFile                     // a bucket that is a directory
	NeedMixed                    // nodes of two releases
	NeedKeys                     // a store whose keys can be replaced
)

func (n Need) String() string {
	names := []string{"a proxy before the bucket", "links", "a program whose clock and disk can be broken", "small disks", "worker processes", "a bucket that is a directory", "nodes of two releases", "a store whose keys can be replaced"}
	text := ""
	for i, name := range names {
		if n&(1<<i) == 0 {
			continue
		}
		if text != "" {
			text += ", "
		}
		text += name
	}
	return text
}

// possible says why a fault cannot be done in a world; "" if it can.
func (f *Fault) possible(w *World) string {
	if f.Single && len(w.Cluster.Nodes) != 1 {
		return "it takes a single node"
	}
	least := max(f.Nodes, 3)
	if slices.Contains(singlePool, f.Name) {
		least = 1
	}
	if len(w.Cluster.Nodes) < least {
		return fmt.Sprintf("it takes %d nodes", least)
	}
	if missing := f.Needs &^ w.has; missing != 0 {
		return "it takes " + missing.String()
	}
	return ""
}

// All are the faults that a round draws from.
func All() []Fault {
	var all []Fault
	for _, group := range [][]Fault{
		processFaults, linkFaults, bucketFaults, clockFaults, diskFaults, lostFaults, hungFaults, frozenFaults,
		mixedFaults, archiveFaults, laggingFaults, rivalFaults, standbyFaults, workerFaults, rootFaults, keyFaults,
	} {
		all = append(all, group...)
	}
	return all
}

// named finds a fault by its name.
func named(name string) Fault {
	for _, f := range All() {
		if f.Name == name {
			return f
		}
	}
	panic("there is no fault " + name)
}
