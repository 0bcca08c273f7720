package leader

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

func TestVerdict(t *testing.T) {
	voter := func(ids ...string) (servers []raft.Server) {
		for _, id := range ids {
			servers = append(servers, raft.Server{ID: raft.ServerID(id), Suffrage: raft.Voter})
		}
		return servers
	}
	a, b := strings.Repeat("aa", 32), strings.Repeat("bb", 32)
	for name, c := range map[string]struct {
		collected
		agreed   string
		diverged int
		finding  bool
	}{
		"all the same":   {collected{voter("1", "2", "3"), map[raft.ServerID]string{"1": a, "2": a, "3": a}}, a, 0, false},
		"one is silent":  {collected{voter("1", "2", "3"), map[raft.ServerID]string{"1": a, "2": a}}, a, 0, false},
		"one differs":    {collected{voter("1", "2", "3"), map[raft.ServerID]string{"1": a, "2": b, "3": a}}, a, 1, true},
		"no majority":    {collected{voter("1", "2", "3"), map[raft.ServerID]string{"1": a, "2": b}}, "", 0, true},
		"a pair differs": {collected{voter("1", "2"), map[raft.ServerID]string{"1": a, "2": b}}, "", 0, true},
		"too few":        {collected{voter("1", "2", "3"), map[raft.ServerID]string{"1": a}}, "", 0, false},
		"one node":       {collected{voter("1"), map[raft.ServerID]string{"1": a}}, a, 0, false},
		"non-voters decide nothing": {collected{
			append(voter("1", "2", "3"), raft.Server{ID: "4", Suffrage: raft.Nonvoter}),
			map[raft.ServerID]string{"1": a, "4": a},
		}, "", 0, false},
		"a non-voter differs": {collected{
			append(voter("1"), raft.Server{ID: "2", Suffrage: raft.Nonvoter}),
			map[raft.ServerID]string{"1": a, "2": b},
		}, a, 1, true},
	} {
		v := c.verdict()
		if sumOf(v.agreed) != c.agreed || len(v.diverged) != c.diverged || (v.finding != "") != c.finding {
			t.Errorf("%s: %x, diverged %q, finding %q", name, v.agreed, v.diverged, v.finding)
		}
	}
}

func sumOf(raw []byte) string {
	return hex.EncodeToString(raw)
}
