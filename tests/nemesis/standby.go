package nemesis

import (
	"fmt"
	"slices"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/tests/cluster"
	"osqueue/tests/cluster/link"
	"osqueue/tests/cluster/store"
	"osqueue/tests/history"
)

// standbyFaults have a second cluster stand by, and take the bucket from one of the
// two, or from both.
var standbyFaults = []Fault{
	{Name: "standby-without-bucket", Needs: NeedProxy | NeedLinks, Begin: standbyAway, Alone: true},
	{Name: "standby-outage", Needs: NeedProxy | NeedLinks, Begin: standbyOutage, Alone: true},
	{Name: "standby-takes-over", Loses: true, Needs: NeedProxy | NeedLinks, Begin: standbyTakesOver, Alone: true},
}

// brokerTimeout is that of timing.
const brokerTimeout = 4 * time.Second

// standby starts a second cluster of one node, and waits until it stands by.
func (w *World) standby(s *history.FaultSpan) *cluster.Cluster {
	other := cluster.New(w.T, cluster.Options{
		Nodes: 1, Prefix: "standby", Bucket: w.Store.URL(), Links: true, Flags: slices.Concat(w.timing(), soonTaken, []string{"--standby-retry", "500ms"}),
	})
	n := other.Nodes[0]
	n.Start()
	w.Cluster.Eventually(cluster.LeaderTimeout, "a standby", func() error {
		st, err := n.Status()
		if err == nil && st.Fence.State != "standby" && st.Fence.State != "refused" {
			err = fmt.Errorf("its fence is %s: %s", st.Fence.State, st.Fence.Reason)
		}
		if err == nil {
			s.Hit(fmt.Sprintf("%s is %s", n.Name, st.Fence.State))
		}
		return err
	})
	return other
}

// standsBy demands for a while that the second cluster does not lead.
func (w *World) standsBy(other *cluster.Cluster, d time.Duration, when string) {
	for end := time.Now().Add(d); time.Now().Before(end); w.sleep(50 * time.Millisecond) {
		if st, err := other.Nodes[0].Status(); err == nil && st.State == v1.StateLeader {
			w.T.Errorf("the standby leads, though the first cluster lives: %s", when)
			return
		}
	}
}

// storeLinks are the links of a cluster's nodes to the bucket.
func storeLinks(c *cluster.Cluster) (links []link.Link) {
	for _, n := range c.Nodes {
		links = append(links, link.Both(n.Name, link.Store)...)
	}
	return links
}

// standbyAway takes the bucket from the standby for longer than it waits for a leader.
// It knows nothing then, and must not take over when the bucket is back.
func standbyAway(w *World, s *history.FaultSpan) func() {
	other := w.standby(s)
	f := other.Net().Impose(cut, storeLinks(other)...)
	w.standsBy(other, brokerTimeout+2*time.Second, "the standby has no bucket")
	return func() {
		f.Heal()
		if f.Hit() {
			s.Hit(f.Count().String())
		}
		w.standsBy(other, brokerTimeout+time.Second, "the standby has the bucket again")
		other.Nodes[0].Kill()
	}
}

// standbyOutage takes the bucket from both clusters for longer than a standby waits.
// The leader, which lives, has to get it back.
func standbyOutage(w *World, s *history.FaultSpan) func() {
	other := w.standby(s)
	as, begin := store.Down, func() { w.Proxy.SetDown(true) }
	if w.Rand.IntN(2) == 0 {
		as, begin = store.Hanging, func() { w.Proxy.SetAway(store.Hangs) }
	}
	before := w.Proxy.Hits()[as]
	begin()
	w.standsBy(other, brokerTimeout+2*time.Second, "nobody has the bucket")
	return func() {
		s.Hit(fmt.Sprintf("%d requests: %s", w.Proxy.Hits()[as]-before, as))
		w.Proxy.Behave()
		w.standsBy(other, brokerTimeout+time.Second, "both have the bucket again")
		other.Nodes[0].Kill()
	}
}

// standbyTakesOver takes the bucket from the first cluster only. The standby takes over;
// the first finds out, does not lead, and takes the document back when the standby is
// gone.
func standbyTakesOver(w *World, s *history.FaultSpan) func() {
	s.Loses()
	other := w.standby(s)
	f := w.Cluster.Net().Impose(cut, storeLinks(w.Cluster)...)
	next := other.WaitLeader()
	s.Hit(fmt.Sprintf("%s took over; %s", next.Name, f.Count()))
	w.while(2 * time.Second)
	return func() {
		f.Heal()
		w.Cluster.Eventually(cluster.LeaderTimeout, "the first cluster to be fenced", func() error {
			for _, n := range w.Cluster.Nodes {
				if st, err := n.Status(); err == nil && st.State == v1.StateLeader {
					return fmt.Errorf("%s leads", n.Name)
				}
			}
			return nil
		})
		w.while(2 * time.Second)
		if st, err := next.Status(); err != nil || st.State != v1.StateLeader {
			w.T.Errorf("the standby has taken over, and is %s: %v", st.State, err)
		}
		next.Kill()
		w.Cluster.WaitLeader()
	}
}
