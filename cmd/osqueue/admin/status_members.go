package admin

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
)

// memberColumns is the header above memberRows.
var memberColumns = view.Columns("MEMBER", "+INSTANCE", "VOTE", "RAFT ADDRESS", "+HTTP ADDRESS", "CONTACT", "LOG", "CLOCK")

// members returns the members of the cluster as the leader sees them, and whether there is one.
// Without a leader, it uses the first node that answers.
func members(nodes []client.NodeStatus) (list []v1.Peer, leads bool) {
	i := leaderIndex(nodes)
	leads = i >= 0
	if !leads {
		i = slices.IndexFunc(nodes, func(n client.NodeStatus) bool { return n.Err == nil })
	}
	if i < 0 {
		return nil, false
	}
	return nodes[i].Status.Peers, leads
}

// voterNotes returns a remark about an even number of voters.
func voterNotes(nodes []client.NodeStatus) []string {
	list, _ := members(nodes)
	n := 0
	for _, p := range list {
		if p.Voter {
			n++
		}
	}
	if n == 0 || n%2 == 1 {
		return nil
	}
	return []string{fmt.Sprintf("%d nodes vote, which survives no more losses than %d: add a node, or remove one (osqueue cert revoke)", n, n-1)}
}

// memberRows returns the rows of the members.
func memberRows(nodes []client.NodeStatus) [][]string {
	list, leads := members(nodes)
	var rows [][]string
	for _, p := range list {
		_, instance, _ := strings.Cut(p.ServerID, "~")
		vote := "no"
		if p.Voter {
			vote = "yes"
		}
		rows = append(rows, []string{
			p.Name, view.OrDash(instance), vote, view.OrDash(p.RaftAddress), view.OrDash(p.HTTPAddress),
			contactText(p.LastContactMs, leads && !p.Leader), indexText(p.LogIndex), offsetText(p.ClockOffsetMs),
		})
	}
	return rows
}

// leaderIndex is the place of the active leader's answer, -1 if there is none.
func leaderIndex(nodes []client.NodeStatus) int {
	return slices.IndexFunc(nodes, func(n client.NodeStatus) bool { return n.Err == nil && n.Status.State == v1.StateLeader })
}

// contactText is how long ago a member answered; asked says that the leader expects answers.
func contactText(ms *int64, asked bool) string {
	switch {
	case ms == nil && asked:
		return "none"
	case ms == nil:
		return "-"
	}
	return view.Short(time.Duration(*ms) * time.Millisecond)
}

func indexText(index *uint64) string {
	if index == nil {
		return "-"
	}
	return strconv.FormatUint(*index, 10)
}

// offsetText is a difference of clocks with its sign.
func offsetText(ms *int64) string {
	if ms == nil {
		return "-"
	}
	sign, d := "+", time.Duration(*ms)*time.Millisecond
	if d < 0 {
		sign, d = "-", -d
	}
	return fmt.Sprintf("%s%s", sign, d)
}
