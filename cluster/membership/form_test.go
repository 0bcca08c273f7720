package membership

import (
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

func TestPlanFormation(t *testing.T) {
	me := Identity{Name: "n1", ServerID: "n1~a", Empty: true}
	filled := Identity{Name: "n1", ServerID: "n1~a", Members: []string{"n1~old", "n2~b"}}
	empty := func(name string) Identity { return Identity{Name: name, ServerID: name + "~b", Empty: true} }
	full := func(members ...string) Identity { return Identity{Name: "n2", ServerID: "n2~b", Members: members} }
	for name, c := range map[string]struct {
		me       Identity
		peers    []Identity
		expected int
		want     formation
		reason   string
	}{
		"alone":                  {me, nil, 1, formBootstrap, ""},
		"only joins, alone":      {me, nil, 0, formWait, "only joins"},
		"only joins, all empty":  {me, []Identity{empty("n2")}, 0, formWait, "only joins"},
		"only joins":             {me, []Identity{full("n2~b")}, 0, formJoin, ""},
		"all empty":              {me, []Identity{empty("n2"), empty("n3")}, 3, formBootstrap, ""},
		"one does not answer":    {me, []Identity{empty("n2")}, 3, formWait, "1 of the nodes"},
		"nobody answers":         {me, nil, 3, formWait, "2 of the nodes"},
		"others have a cluster":  {me, []Identity{full("n1~old", "n2~b"), empty("n3")}, 3, formJoin, ""},
		"one other has, one not": {me, []Identity{empty("n3"), full("n2~b")}, 3, formJoin, ""},
		"already a member":       {me, []Identity{full("n1~a", "n2~b"), empty("n3")}, 3, formWait, "is a member"},
		"log of a predecessor":   {filled, []Identity{full("n1~old", "n2~b"), empty("n3")}, 3, formJoin, ""},
		"non-voter":              {filled, []Identity{full("n1~a", "n2~b"), empty("n3")}, 3, formJoin, ""},
		"log, others empty":      {filled, []Identity{empty("n2"), empty("n3")}, 3, formWait, "no other node"},
	} {
		got, reason := planFormation(c.me, c.peers, c.expected)
		if got != c.want || !strings.Contains(reason, c.reason) {
			t.Errorf("%s: plan %d because %q, want %d because %q", name, got, reason, c.want, c.reason)
		}
	}
}

func TestFirstClusterIDDependsOnTheServersOnly(t *testing.T) {
	a := firstClusterID(servers("n1~a", "n2~b"))
	if b := firstClusterID(servers("n2~b", "n1~a")); a != b {
		t.Errorf("%s and %s for the same servers", a, b)
	}
	if b := firstClusterID(servers("n1~a", "n2~c")); a == b {
		t.Error("two clusters share an id")
	}
}

func servers(ids ...string) (c raft.Configuration) {
	for _, id := range ids {
		c.Servers = append(c.Servers, raft.Server{ID: raft.ServerID(id), Address: raft.ServerAddress(id)})
	}
	return c
}
