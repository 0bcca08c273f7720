package nemesis

import (
	"fmt"
	"slices"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/tests/cluster"
	"osqueue/tests/history"
)

// rivalFaults start another cluster on the bucket.
var rivalFaults = []Fault{
	{Name: "rival", Hold: 3 * time.Second, Begin: rival, Alone: true},
}

// rival starts a cluster of its own on the same bucket. It has to stand by for as long
// as the first one lives.
func rival(w *World, s *history.FaultSpan) func() {
	other := cluster.New(w.T, cluster.Options{
		Nodes: 1, Prefix: "rival", Bucket: w.Store.URL(), Flags: slices.Concat(w.timing(), soonTaken),
	})
	other.Nodes[0].Start()
	standsBy := func() error {
		st, err := other.Nodes[0].Status()
		switch {
		case err != nil:
			return err
		case st.State == v1.StateLeader:
			w.T.Errorf("the rival leads while %s is alive", w.Cluster.WaitLeader().Name)
		case st.Fence.State != "standby" && st.Fence.State != "refused":
			return fmt.Errorf("its fence is %s: %s", st.Fence.State, st.Fence.Reason)
		}
		s.Hit(fmt.Sprintf("the rival is %s: %s", st.Fence.State, st.Fence.Reason))
		return nil
	}
	w.Cluster.Eventually(cluster.LeaderTimeout, "the rival to find the document", standsBy)
	return func() {
		if err := standsBy(); err != nil {
			w.T.Errorf("the rival: %v", err)
		}
		other.Nodes[0].Kill()
	}
}
