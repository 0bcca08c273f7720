package membership

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"osqueue/cluster/leader"
	"osqueue/internal/sleep"
)

// Admission is the replicated record of a node that an operator has named.
type Admission struct {
	Name     string
	HTTP     string // host:port
	NonVoter bool   // it stays without a vote
}

// Refusal is the error of a change that the state of the cluster does not allow. Nothing was
// changed.
type Refusal struct {
	text    string
	Missing bool // the name is neither a member nor admitted
}

// Error says why, and what to do.
func (r *Refusal) Error() string { return r.text }

func refuse(format string, args ...any) error { return &Refusal{text: fmt.Sprintf(format, args...)} }

func missing(name string) error {
	return &Refusal{text: fmt.Sprintf("node %s is neither a member nor admitted: osqueue cluster ls shows the members", name), Missing: true}
}

// Add admits a node: the node with that name may join, if it answers at the address of its
// HTTP API. nonVoter keeps it without a vote. For a member that does not answer, Add changes
// the address at which it is to come back. done says what was changed. This node must be the
// active leader, as for the other changes.
func (n *Members) Add(ctx context.Context, name, address string, nonVoter bool) (done string, err error) {
	n.changing.Lock()
	defer n.changing.Unlock()
	switch host, port, err := net.SplitHostPort(address); {
	case !ValidName(name):
		return "", refuse("node name %.64q: use 1 to 63 letters, digits, '.', '_' or '-'", name)
	case err != nil || host == "" || port == "" || port == "0":
		return "", refuse("address %.128q of node %s: write host:port, with the port of its HTTP API", address, name)
	}
	c := n.raft.GetConfiguration().Configuration()
	for _, a := range n.admissions(c) {
		if a.HTTP == address && a.Name != name {
			return "", refuse("%s is the address of node %s: give node %s an address of its own", address, a.Name, name)
		}
	}
	old, admitted := n.do.Admitted(name)
	s, member := named(c, name)
	was := n.HTTPAddress(name)
	switch {
	case !member && admitted && old == Admission{name, address, nonVoter}:
		return fmt.Sprintf("node %s is already admitted at %s", name, address), nil
	case member && Voter(c, s.ID) && nonVoter:
		return "", refuse("node %s is a voter: osqueue cluster demote %s", name, name)
	case member && was == address && nonVoter == old.NonVoter:
		return fmt.Sprintf("node %s is already a member at %s", name, address), nil
	case member && was != address && n.mayRun(s.ID):
		return "", refuse("node %s runs as %s at %s (%s): for one more node choose another name; to move this one, stop it and repeat the command",
			name, s.ID, cmp.Or(was, string(s.Address)), n.lastHeard(s.ID))
	case member:
		nonVoter = nonVoter || old.NonVoter
	}
	if err := n.record(ctx, c, Admission{name, address, nonVoter}); err != nil {
		return "", err
	}
	n.log.Info("admitted a node", "node", name, "address", address, "non_voter", nonVoter)
	return fmt.Sprintf("node %s may join at %s", name, address), nil
}

// record stores a record, and those of all members that have none: then each node knows all
// addresses, whatever its --peers are.
func (n *Members) record(ctx context.Context, c raft.Configuration, a Admission) error {
	records := []Admission{a}
	for _, o := range n.admissions(c) {
		if _, has := n.do.Admitted(o.Name); !has && o.Name != a.Name && o.HTTP != "" {
			records = append(records, o)
		}
	}
	return n.do.Admit(ctx, records...)
}

// admissions returns the records of all nodes, also of members that have none.
func (n *Members) admissions(c raft.Configuration) []Admission {
	all := n.do.Admissions()
	for _, s := range c.Servers {
		name := NodeName(s.ID)
		if !slices.ContainsFunc(all, func(a Admission) bool { return a.Name == name }) {
			all = append(all, Admission{Name: name, HTTP: n.HTTPAddress(name)})
		}
	}
	return all
}

// Waiting returns the nodes that are admitted and have not come.
func (n *Members) Waiting() []Admission {
	c := n.raft.GetConfiguration().Configuration()
	return slices.DeleteFunc(n.do.Admissions(), func(a Admission) bool { _, member := named(c, a.Name); return member })
}

// Remove removes a node from the cluster, and its admission. It refuses if no majority of
// the remaining voters answers the leader, and, without force, if the node does.
func (n *Members) Remove(ctx context.Context, name string, force bool) (done string, err error) {
	n.changing.Lock()
	defer n.changing.Unlock()
	c := n.raft.GetConfiguration().Configuration()
	s, member := named(c, name)
	_, admitted := n.do.Admitted(name)
	switch {
	case !member && !admitted:
		return "", missing(name)
	case !member:
		return fmt.Sprintf("node %s is not admitted any more", name), n.do.Forget(ctx, name)
	}
	if err := n.mayLose(ctx, c, s, "remove"); err != nil {
		return "", err
	}
	if !force && n.mayRun(s.ID) {
		return "", refuse("node %s runs (%s): stop it and repeat the command after %v, or remove it while it runs: osqueue cluster remove %s --force",
			name, n.lastHeard(s.ID), n.silenceMax(), name)
	}
	if admitted {
		if err := n.do.Forget(ctx, name); err != nil {
			return "", err
		}
	}
	removed, err := n.RemoveServers(ctx, name)
	if err != nil {
		return "", err
	}
	n.log.Warn("removed a node", "node", name, "servers", removed)
	return fmt.Sprintf("node %s is not a member any more", name), nil
}

// RemoveServers removes all servers with the name of a node from the configuration, and returns their
// ids. This node must lead.
func (n *Members) RemoveServers(ctx context.Context, name string) ([]string, error) {
	removed := []string{}
	for _, s := range n.raft.GetConfiguration().Configuration().Servers {
		if NodeName(s.ID) != name {
			continue
		}
		if err := n.changed(ctx, n.raft.RemoveServer(s.ID, 0, changeTimeout), "remove "+string(s.ID)); err != nil {
			return removed, err
		}
		removed = append(removed, string(s.ID))
	}
	return removed, nil
}

// Promote gives a non-voter a vote, if it answers and has the log.
func (n *Members) Promote(ctx context.Context, name string) (done string, err error) {
	n.changing.Lock()
	defer n.changing.Unlock()
	c := n.raft.GetConfiguration().Configuration()
	s, member := named(c, name)
	a, admitted := n.do.Admitted(name)
	switch {
	case !member && !admitted:
		return "", missing(name)
	case !member && !a.NonVoter:
		return "", refuse("node %s has not come: start it, and it gets a vote when it has caught up", name)
	case !member: // it gets a vote when it comes
	case Voter(c, s.ID):
		return fmt.Sprintf("node %s is already a voter", name), nil
	case len(n.silent(ctx, []raft.ServerID{s.ID})) > 0:
		return "", refuse("node %s does not answer: start it, or remove it: osqueue cluster remove %s", name, name)
	case n.lag(s.ID) > catchUpSlack:
		return "", refuse("node %s lacks %d log entries: wait until osqueue cluster ls shows that it has caught up, and repeat the command", name, n.lag(s.ID))
	}
	if a.NonVoter {
		a.NonVoter = false
		if err := n.do.Admit(ctx, a); err != nil {
			return "", err
		}
	}
	if !member {
		return fmt.Sprintf("node %s gets a vote when it has come and caught up", name), nil
	}
	if err := n.changed(ctx, n.raft.AddVoter(s.ID, s.Address, 0, changeTimeout), "give "+string(s.ID)+" a vote"); err != nil {
		return "", err
	}
	return fmt.Sprintf("node %s is a voter", name), nil
}

// Demote takes a node's vote. It refuses if no majority of the remaining voters answers.
func (n *Members) Demote(ctx context.Context, name string) (done string, err error) {
	n.changing.Lock()
	defer n.changing.Unlock()
	c := n.raft.GetConfiguration().Configuration()
	s, member := named(c, name)
	a, admitted := n.do.Admitted(name)
	switch {
	case !member && !admitted:
		return "", missing(name)
	case member && Voter(c, s.ID):
		if err := n.mayLose(ctx, c, s, "demote"); err != nil {
			return "", err
		}
	}
	if !a.NonVoter {
		address := cmp.Or(a.HTTP, n.HTTPAddress(name))
		if address == "" {
			return "", refuse("the address of node %s is not known: wait until it has joined", name)
		}
		if err := n.record(ctx, c, Admission{name, address, true}); err != nil {
			return "", err
		}
	}
	if !member || !Voter(c, s.ID) {
		return fmt.Sprintf("node %s stays without a vote", name), nil
	}
	if err := n.changed(ctx, n.raft.DemoteVoter(s.ID, 0, changeTimeout), "take the vote of "+string(s.ID)); err != nil {
		return "", err
	}
	return fmt.Sprintf("node %s has no vote any more", name), nil
}

// Transfer gives raft's leadership to a node, or, if name is "", to the voter whose log is the
// newest. It returns the name of the node.
func (n *Members) Transfer(ctx context.Context, name string) (to string, err error) {
	c := n.raft.GetConfiguration().Configuration()
	s, member := named(c, name)
	if name == "" {
		s, member = n.successor(c)
		if !member {
			return "", refuse("no other voter answers this node: see osqueue cluster ls")
		}
	}
	to = NodeName(s.ID)
	switch {
	case !member:
		return "", missing(name)
	case s.ID == n.cfg.ID:
		return to, nil
	case s.Suffrage != raft.Voter:
		return "", refuse("node %s has no vote: osqueue cluster promote %s", to, to)
	case !n.answers(s.ID):
		return "", refuse("node %s does not answer: see osqueue cluster ls", to)
	case n.lag(s.ID) > transferLag:
		return "", refuse("node %s lacks %d log entries: wait until it has caught up, and repeat the command", to, n.lag(s.ID))
	}
	if err := n.do.HandOver(ctx, s.ID); err != nil {
		return "", fmt.Errorf("%w: transfer leadership to %s: %w", leader.ErrUnknown, to, err)
	}
	return to, nil
}

// transferLag is how many entries a node may lag to get the leadership. Raft sends them before it
// hands over.
const transferLag = 1024

// successor returns the voter other than this node that answers and whose log is the newest.
func (n *Members) successor(c raft.Configuration) (best raft.Server, ok bool) {
	for _, s := range c.Servers {
		if s.Suffrage == raft.Voter && s.ID != n.cfg.ID && n.answers(s.ID) && (!ok || n.lag(s.ID) < n.lag(best.ID)) {
			best, ok = s, true
		}
	}
	return best, ok
}

// mayLose returns an error if the leader may not remove or demote a server.
func (n *Members) mayLose(ctx context.Context, c raft.Configuration, s raft.Server, verb string) error {
	if s.Suffrage != raft.Voter {
		return nil
	}
	name := NodeName(s.ID)
	var voters []raft.ServerID
	for _, o := range c.Servers {
		if o.Suffrage == raft.Voter && o.ID != s.ID {
			voters = append(voters, o.ID)
		}
	}
	silent := n.silent(ctx, voters)
	answering, majority := len(voters)-len(silent), len(voters)/2+1
	switch {
	case len(voters) == 0:
		return refuse("node %s is the only voter: add another one first: osqueue cluster add", name)
	case answering < majority:
		return refuse("without node %s, %d of %d voters answer, and the cluster needs %d: start %s first, or remove it in place of %s: osqueue cluster remove %s",
			name, answering, len(voters), majority, strings.Join(silent, ", "), name, silent[0])
	case s.ID == n.cfg.ID:
		return refuse("node %s leads: give the leadership to another node, and repeat the command: osqueue cluster transfer; osqueue cluster %s %s", name, verb, name)
	}
	return nil
}

// silent returns the names of the servers that do not answer a request that is sent from now on. One that has just
// died must not count: if it did, the leader could begin a change that no majority commits.
func (n *Members) silent(ctx context.Context, ids []raft.ServerID) (names []string) {
	round := n.do.Ask()
	left := slices.Clone(ids)
	for end := time.Now().Add(2 * n.cfg.HeartbeatTimeout); ; {
		left = slices.DeleteFunc(left, func(id raft.ServerID) bool { return id == n.cfg.ID || n.do.Confirmed(id, round) })
		if len(left) == 0 || time.Now().After(end) || !sleep.For(ctx, 5*time.Millisecond) {
			break
		}
	}
	for _, id := range left {
		names = append(names, NodeName(id))
	}
	return names
}

// answers reports whether a server has answered this leader lately.
func (n *Members) answers(id raft.ServerID) bool {
	heard, _ := n.do.Progress(id)
	return id == n.cfg.ID || !heard.IsZero() && time.Since(heard) < 2*n.cfg.HeartbeatTimeout
}

// mayRun reports whether it is not certain that a server does not run: this leader has not waited for its answer
// for long enough.
func (n *Members) mayRun(id raft.ServerID) bool {
	return id == n.cfg.ID || n.do.Quiet(id, n.raft.CurrentTerm()) < n.silenceMax()
}

// silenceMax returns how long a server that is not to run any more must not have answered the leader.
func (n *Members) silenceMax() time.Duration { return max(10*n.cfg.HeartbeatTimeout, 2*time.Second) }

func (n *Members) lastHeard(id raft.ServerID) string {
	heard, _ := n.do.Progress(id)
	if heard.IsZero() {
		return "it has not answered this leader, which has just been elected"
	}
	return fmt.Sprintf("it answered %v ago", time.Since(heard).Round(time.Millisecond))
}

// lag returns how many entries of this leader a server lacks, as far as it is known.
func (n *Members) lag(id raft.ServerID) uint64 {
	_, index := n.do.Progress(id)
	commit := n.raft.CommitIndex()
	return commit - min(index, commit)
}

// changed waits for a change of raft's configuration.
func (n *Members) changed(ctx context.Context, f raft.Future, what string) error {
	switch err := n.do.Await(ctx, f); {
	case err == nil:
		return nil
	case errors.Is(err, raft.ErrNotLeader):
		return leader.ErrNotLeader
	default:
		return fmt.Errorf("%w: %s: %w", leader.ErrUnknown, what, err)
	}
}

// named returns the server of a node by name.
func named(c raft.Configuration, name string) (s raft.Server, ok bool) {
	i := slices.IndexFunc(c.Servers, func(s raft.Server) bool { return NodeName(s.ID) == name })
	if i < 0 {
		return s, false
	}
	return c.Servers[i], true
}
