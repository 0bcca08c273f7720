package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "osqueue/client/api/v1"
	"osqueue/tests/cluster"
)

// changing is a cluster whose members a test changes by command.
type changing struct {
	*cluster.Cluster
	t *testing.T
}

// newMember returns the call that admits a node.
func newMember(n *cluster.Node, address string) v1.NewMember {
	return v1.NewMember{Name: n.Name, Address: address}
}

// members returns the members that the leader has, as n1 n2 (n3): non-voters are in parentheses, and
// what is neither a voter nor stays without a vote has a question mark.
func (c *changing) members() (string, error) {
	list, err := c.Client.Members(c.Context(patience))
	var all []string
	for _, m := range list {
		switch m.State {
		case "voter":
			all = append(all, m.Name)
		case "nonVoter":
			all = append(all, "("+m.Name+")")
		default:
			all = append(all, m.Name+"?")
		}
	}
	return strings.Join(all, " "), err
}

func (c *changing) becomes(want string) {
	c.t.Helper()
	c.Eventually(longPatience, "the members "+want, func() error {
		got, err := c.members()
		if err == nil && got != want {
			err = fmt.Errorf("they are %s", got)
		}
		return err
	})
}

// must fails the test unless a change is made, maybe after leaders have changed.
func (c *changing) must(change func() (v1.MemberChanged, error)) {
	c.t.Helper()
	c.Eventually(longPatience, "a change of the members", func() error { _, err := change(); return err })
}

// refused fails the test unless a change is refused with a text.
func (c *changing) refused(text string, change func() (v1.MemberChanged, error)) {
	c.t.Helper()
	c.Eventually(longPatience, "the refusal "+text, func() error { // another refusal may pass: a killed node is silent for a moment only
		_, err := change()
		if err == nil {
			c.t.Fatalf("the change is made, want %q", text)
		}
		if !strings.Contains(err.Error(), text) {
			return fmt.Errorf("want %q: %w", text, err)
		}
		return nil
	})
}

func (c *changing) remove(n *cluster.Node, force bool) func() (v1.MemberChanged, error) {
	return func() (v1.MemberChanged, error) { return c.Client.RemoveMember(c.Context(longPatience), n.Name, force) }
}

func (c *changing) change(name, action string) func() (v1.MemberChanged, error) {
	return func() (v1.MemberChanged, error) { return c.Client.ChangeMember(c.Context(longPatience), name, action) }
}

func (c *changing) add(m v1.NewMember) func() (v1.MemberChanged, error) {
	return func() (v1.MemberChanged, error) { return c.Client.AddMember(c.Context(longPatience), m) }
}

// A cluster grows from one node to five and shrinks to one, by command and under load, while nodes are killed. Each
// wrong order is refused with the reason. Nothing that was acknowledged is lost.
func TestMembersChangeUnderLoad(t *testing.T) {
	t.Parallel()
	c := &changing{cluster.New(t, cluster.Options{Nodes: 5}), t}
	n := c.Nodes
	n[0].Flags = []string{"--peers", n[0].Name + "=" + n[0].HTTP}
	for _, o := range n[1:] {
		o.Flags = []string{"--peers", n[0].HTTP} // a contact
	}
	n[0].Start()
	c.WaitLeader()
	p := produce(t, c.Client)
	p.more(c.Cluster)
	c.refused("is the only voter", c.remove(n[0], true))

	// An unexpected name.
	n[1].Start()
	logs(c.Cluster, n[1], "osqueue cluster add n2 "+n[1].HTTP)
	c.must(c.add(newMember(n[1], n[1].HTTP)))
	c.becomes("n1 n2")
	c.must(c.add(newMember(n[2], n[2].HTTP)))
	c.becomes("n1 n2 n3?")
	n[2].Start()
	c.becomes("n1 n2 n3")
	p.more(c.Cluster)
	c.WaitLeader().Kill()
	p.more(c.Cluster)
	for _, o := range n[:3] {
		if !o.Running() {
			o.Start()
		}
	}

	// A twin, by command and as a process.
	c.becomes("n1 n2 n3")
	c.refused("node n2 runs as n2~", c.add(newMember(n[1], n[3].HTTP)))
	twin := n[3].Flags
	n[3].Flags = append(slices.Clone(twin), "--name", "n2")
	n[3].Start()
	logs(c.Cluster, n[3], "node n2 is running as n2~")
	n[3].Kill()
	n[3].Wipe()
	n[3].Flags = twin

	// Two more, one of which is killed while it joins, and one without a vote.
	reader := newMember(n[4], n[4].HTTP)
	reader.NonVoter = true
	c.must(c.add(newMember(n[3], n[3].HTTP)))
	c.must(c.add(reader))
	n[3].Start()
	n[4].Start()
	n[3].Kill()
	n[3].Start()
	c.becomes("n1 n2 n3 n4 (n5)")
	ready(c.Cluster, n[4])
	n[4].Pause()
	c.Eventually(longPatience, "n5 to be silent", func() error {
		list, err := c.Client.Members(c.Context(patience))
		if err == nil && !slices.ContainsFunc(list, func(m v1.Member) bool { return m.Name == "n5" && (m.LastContactMs == nil || *m.LastContactMs > 2000) }) {
			err = errors.New("it answers")
		}
		return err
	})
	c.refused("node n5 does not answer", c.change("n5", v1.ActionPromote))
	n[4].Continue()
	c.must(c.change("n5", v1.ActionPromote))
	c.becomes("n1 n2 n3 n4 n5")
	p.more(c.Cluster)

	// The majority, and the leader.
	leader := c.WaitLeader()
	rest := slices.DeleteFunc(slices.Clone(n), func(o *cluster.Node) bool { return o == leader })
	c.refused("node "+leader.Name+" leads", c.remove(leader, true))
	c.refused("node "+rest[0].Name+" runs", c.remove(rest[0], false))
	rest[2].Kill()
	rest[3].Kill()
	c.refused("and the cluster needs 3: start", c.remove(rest[0], true))
	c.refused("and the cluster needs 3: start", c.change(rest[0].Name, v1.ActionDemote))
	c.must(c.remove(rest[2], false)) // when it is certain that it does not run
	c.must(c.remove(rest[3], true))
	p.more(c.Cluster)
	rest[2].Start() // with its disk, it is the old member
	c.Eventually(longPatience, rest[2].Name+" to end", ended(rest[2]))
	logs(c.Cluster, rest[2], "this node was removed from the cluster")

	// The leader goes, and then all but one.
	c.must(c.change(rest[0].Name, v1.ActionLead))
	if now := c.WaitOtherLeader(leader); now != rest[0] {
		t.Errorf("%s leads, not %s", now.Name, rest[0].Name)
	}
	p.more(c.Cluster)
	c.must(c.remove(leader, true))
	c.Eventually(longPatience, leader.Name+" to end", ended(leader))
	rest[0].Kill() // of two: no majority until it is back
	rest[0].Start()
	c.WaitLeader()
	c.Eventually(longPatience, "one member", func() error {
		for _, o := range rest[:2] { // whichever follows
			if _, err := c.remove(o, true)(); err == nil {
				return nil
			}
		}
		return errors.New("none of two is removed")
	})
	p.more(c.Cluster)
	p.stop()
	if got, err := c.members(); err != nil || strings.Contains(got, " ") {
		t.Errorf("the members are %q (%v)", got, err)
	}
	if got, err := stored(c.Cluster); err != nil || got != int(p.acked.Load()) {
		t.Errorf("%d jobs of %d that were acknowledged (%v)", got, p.acked.Load(), err)
	}
	t.Logf("%d jobs, 0 lost", p.acked.Load())
}

// logs waits until a node has logged a text.
func logs(c *cluster.Cluster, n *cluster.Node, text string) {
	c.Eventually(longPatience, n.Name+" to log "+text, func() error {
		if !strings.Contains(n.Log(), text) {
			return errors.New(n.LogTail(3))
		}
		return nil
	})
}

// ready waits until a node is ready.
func ready(c *cluster.Cluster, n *cluster.Node) {
	c.Eventually(longPatience, n.Name+" to be ready", func() error { return c.Client.Ready(c.Context(patience), n.HTTP) })
}
