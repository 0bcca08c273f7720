package nemesis

import (
	"fmt"
	"strings"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/tests/cluster"
	"osqueue/tests/cluster/link"
	"osqueue/tests/history"
)

// linkFaults are faults of the network.
var linkFaults = []Fault{
	{Name: "leader-isolated", Elects: true, Needs: NeedLinks, Takes: 1, Hold: 4 * time.Second, Begin: isolateLeader},
	{Name: "follower-isolated", Needs: NeedLinks, Hold: 4 * time.Second, Begin: isolateFollower, Alone: true},
	{Name: "halves", Needs: NeedLinks, Nodes: 4, Hold: 4 * time.Second, Begin: halves, Alone: true},
	{Name: "bridge", Needs: NeedLinks, Nodes: 5, Hold: 5 * time.Second, Begin: bridge, Alone: true},
	{Name: "ring", Needs: NeedLinks, Nodes: 5, Hold: 5 * time.Second, Begin: ring, Alone: true},
	{Name: "one-way-out", Needs: NeedLinks, Takes: 1, Hold: 4 * time.Second, Begin: oneWay(func(n string) link.Link { return link.Link{From: n} })},
	{Name: "one-way-in", Needs: NeedLinks, Takes: 1, Hold: 4 * time.Second, Begin: oneWay(func(n string) link.Link { return link.Link{To: n} })},
	{Name: "link-cut", Needs: NeedLinks, Nodes: 4, Hold: 5 * time.Second, Begin: cutLink, Alone: true},
	{Name: "links-slow", Needs: NeedLinks, Hold: 4 * time.Second, Begin: slowLinks},
	{Name: "links-narrow", Needs: NeedLinks, Takes: 1, Hold: 4 * time.Second, Begin: narrowLinks},
	{Name: "links-reset", Needs: NeedLinks, Takes: 1, Begin: resetLinks},
	{Name: "requests-replayed", Needs: NeedLinks, Takes: 1, Begin: replayRequests},
	{Name: "leader-without-bucket", Needs: NeedProxy | NeedLinks, Hold: 4 * time.Second, Begin: withoutBucket(cut)},
	{Name: "leader-bucket-reset", Needs: NeedProxy | NeedLinks, Hold: 4 * time.Second, Begin: withoutBucket(link.Condition{Reset: true})},
}

// impose puts a condition on links. Healing it says what it has held up.
func (w *World) impose(s *history.FaultSpan, c link.Condition, links ...link.Link) (heal func()) {
	f := w.Cluster.Net().Impose(c, links...)
	return func() {
		hit := w.met(f.Hit)
		f.Heal()
		if hit {
			s.Hit(f.Count().String())
		} else {
			s.Missed("nothing went over the links: " + f.String())
		}
	}
}

var cut = link.Condition{Cut: true}

// around are the links between one node and all others, and clients.
func (w *World) around(n *cluster.Node) []link.Link {
	links := link.Both(n.Name, link.Client)
	for _, o := range w.Cluster.Nodes {
		if o != n {
			links = append(links, link.Both(n.Name, o.Name)...)
		}
	}
	return links
}

// isolateLeader leaves it the bucket, half of the time: then the fence has to hold.
func isolateLeader(w *World, s *history.FaultSpan) func() {
	leader := w.Cluster.WaitLeader()
	links := w.around(leader)
	if w.Rand.IntN(2) == 0 {
		links = append(links, link.Both(leader.Name, link.Store)...)
	}
	heal := w.impose(s, cut, links...)
	w.Cluster.WaitOtherLeader(leader)
	return heal
}

// isolateFollower also looks whether its return disturbs the others (BlazingMQ's
// first case).
func isolateFollower(w *World, s *history.FaultSpan) func() {
	leader, follower := w.Cluster.WaitLeader(), w.follower()
	before := w.tenure(leader)
	heal := w.impose(s, cut, w.around(follower)...)
	w.sleep(3 * time.Second) // several elections' time: it asks for votes again and again
	return func() {
		// With a term of its own it would depose the leader.
		own, leader := w.term(follower.Name, follower.OwnStatus), w.Cluster.WaitLeader()
		if others := w.term(leader.Name, leader.Status); own > others {
			w.T.Errorf("an isolated follower has come to term %d, and the others are in %d", own, others)
		}
		heal()
		w.serves(follower)
		w.sleep(2 * time.Second)
		w.steady(s, before, "an isolated follower came back")
	}
}

// tenure is how far leadership has come: its raft term, and how often so far a leader
// stepped down because it did not hear from a majority.
type tenure struct {
	term    uint64
	unheard int
}

func (w *World) tenure(leader *cluster.Node) tenure {
	t := tenure{term: w.term(leader.Name, leader.Status)}
	for _, n := range w.Cluster.Nodes {
		t.unheard += strings.Count(n.Log(), "failed to contact quorum of nodes, stepping down")
	}
	return t
}

// steady demands that leadership has moved once at most. Leaders that did not hear the
// others because this machine was too busy are not counted. Without pre-votes leadership
// would move with every timeout of the node that hears nothing.
func (w *World) steady(s *history.FaultSpan, before tenure, since string) {
	after := w.tenure(w.Cluster.WaitLeader())
	unheard := after.unheard - before.unheard
	if after.term > before.term+1+uint64(unheard) {
		w.T.Errorf("%s, and the term went from %d to %d (%d leaders heard nothing)", since, before.term, after.term, unheard)
	}
	s.Hit(fmt.Sprintf("term %d, before %d", after.term, before.term))
}

// term is a node's raft term, by its status.
func (w *World) term(name string, status func() (v1.Status, error)) (term uint64) {
	w.Cluster.Eventually(cluster.LeaderTimeout, name+" to say its term", func() error {
		st, err := status()
		term = st.Term
		return err
	})
	return term
}

// names returns the names of nodes.
func names(nodes []*cluster.Node) []string {
	all := make([]string, len(nodes))
	for i, n := range nodes {
		all[i] = n.Name
	}
	return all
}

// leaderFirst are all nodes, the leader first.
func (w *World) leaderFirst() []*cluster.Node {
	leader := w.Cluster.WaitLeader()
	nodes := []*cluster.Node{leader}
	for _, n := range w.Cluster.Nodes {
		if n != leader {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// halves leaves the leader with the smaller part, or with one of two equal ones.
func halves(w *World, s *history.FaultSpan) func() {
	nodes := names(w.leaderFirst())
	at := len(nodes) / 2
	return w.impose(s, cut, link.Between(nodes[:at], nodes[at:])...)
}

// bridge leaves two halves that only one node hears both of.
func bridge(w *World, s *history.FaultSpan) func() {
	nodes := names(w.leaderFirst())
	at := (len(nodes) - 1) / 2 // the last one is the bridge
	return w.impose(s, cut, link.Between(nodes[:at], nodes[at:len(nodes)-1])...)
}

// ring leaves each node its two neighbours.
func ring(w *World, s *history.FaultSpan) func() {
	nodes := names(w.leaderFirst())
	var links []link.Link
	for i, a := range nodes {
		for j := i + 2; j < len(nodes); j++ {
			if i == 0 && j == len(nodes)-1 {
				continue
			}
			links = append(links, link.Both(a, nodes[j])...)
		}
	}
	return w.impose(s, cut, links...)
}

// oneWay cuts one direction between the leader and the other nodes.
func oneWay(way func(leader string) link.Link) func(*World, *history.FaultSpan) func() {
	return func(w *World, s *history.FaultSpan) func() {
		leader := w.Cluster.WaitLeader()
		var links []link.Link
		for _, n := range w.Cluster.Nodes {
			if n == leader {
				continue
			}
			l := way(leader.Name)
			if l.From == "" {
				l.From = n.Name
			} else {
				l.To = n.Name
			}
			links = append(links, l)
		}
		return w.impose(s, cut, links...)
	}
}

// cutLink keeps the leader and one follower from each other, while both see the rest
// (BlazingMQ's second case): leadership must not go back and forth.
func cutLink(w *World, s *history.FaultSpan) func() {
	nodes := w.leaderFirst()
	before := w.tenure(nodes[0])
	heal := w.impose(s, cut, link.Both(nodes[0].Name, nodes[1].Name)...)
	w.sleep(4 * time.Second)
	return func() {
		w.steady(s, before, "the leader and one follower could not talk for seconds")
		heal()
	}
}

// between are the links between all nodes.
func (w *World) between() []link.Link {
	var groups [][]string
	for _, name := range names(w.Cluster.Nodes) {
		groups = append(groups, []string{name})
	}
	return link.Between(groups...)
}

func slowLinks(w *World, s *history.FaultSpan) func() {
	late := time.Duration(10+w.Rand.IntN(40)) * time.Millisecond
	return w.impose(s, link.Condition{Delay: late, Jitter: late}, w.between()...)
}

func narrowLinks(w *World, s *history.FaultSpan) func() {
	n := w.Cluster.Nodes[w.Rand.IntN(len(w.Cluster.Nodes))]
	return w.impose(s, link.Condition{Rate: 16 << 10}, w.around(n)...)
}

// replayRequests sends all requests of raft that are recorded once more to each node, those of former
// leaders among them.
func replayRequests(w *World, s *history.FaultSpan) func() {
	bytes := 0
	for _, n := range w.Cluster.Nodes {
		bytes += w.Cluster.Net().Replay(link.Link{To: n.Name, Service: link.Raft})
	}
	if bytes == 0 {
		s.Missed("nothing was sent again")
	} else {
		s.Hit(fmt.Sprintf("%d bytes of requests were sent again", bytes))
	}
	return func() {}
}

func resetLinks(w *World, s *history.FaultSpan) func() {
	for range 5 {
		n := w.Cluster.Nodes[w.Rand.IntN(len(w.Cluster.Nodes))]
		heal := w.impose(s, link.Condition{Reset: true}, w.around(n)...)
		w.sleep(200 * time.Millisecond)
		heal()
		w.sleep(300 * time.Millisecond)
	}
	return func() {}
}

func withoutBucket(c link.Condition) func(*World, *history.FaultSpan) func() {
	return func(w *World, s *history.FaultSpan) func() {
		return w.impose(s, c, link.Both(w.Cluster.WaitLeader().Name, link.Store)...)
	}
}
