package transport

import (
	"math"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

func TestCheckRequest(t *testing.T) {
	follower, leads := standing{raft.Follower, 7, "b"}, standing{raft.Leader, 7, "a"}
	entry := func(index, term uint64) *raft.Log { return &raft.Log{Index: index, Term: term} }
	entries := func(term, prev, prevTerm uint64, all ...*raft.Log) *raft.AppendEntriesRequest {
		return &raft.AppendEntriesRequest{Term: term, PrevLogEntry: prev, PrevLogTerm: prevTerm, Entries: all}
	}
	config := raft.EncodeConfiguration(raft.Configuration{Servers: []raft.Server{{ID: "a", Address: "a"}}})
	snapshot := func(size int64, version raft.SnapshotVersion, lastTerm uint64, config []byte) *raft.InstallSnapshotRequest {
		return &raft.InstallSnapshotRequest{Term: 7, LastLogTerm: lastTerm, Size: size, SnapshotVersion: version, Configuration: config}
	}
	from := func(id string) raft.RPCHeader { return raft.RPCHeader{ID: []byte(id)} }
	for name, c := range map[string]struct {
		node    standing
		request any
		says    string // "": the request passes
	}{
		"a heartbeat":               {follower, entries(7, 0, 0), ""},
		"entries":                   {follower, entries(8, 4, 6, entry(5, 6), entry(6, 8)), ""},
		"a missing entry":           {follower, entries(7, 4, 6, nil), "missing"},
		"a gap":                     {follower, entries(7, 4, 6, entry(5, 6), entry(7, 6)), "does not follow"},
		"an entry twice":            {follower, entries(7, 4, 6, entry(5, 6), entry(5, 6)), "does not follow"},
		"entries far ahead":         {follower, entries(7, 4, 6, entry(9, 6)), "does not follow"},
		"an entry of a later term":  {follower, entries(7, 4, 6, entry(5, 8)), "the request names an entry of term 8, which is above its own term 7"},
		"a term that goes back":     {follower, entries(7, 4, 6, entry(5, 5)), "follows an entry of term 6"},
		"an unknown type of entry":  {follower, entries(7, 0, 0, &raft.Log{Index: 1, Term: 7, Type: 77}), "unknown type"},
		"a broken configuration":    {follower, entries(7, 0, 0, &raft.Log{Index: 1, Term: 7, Type: raft.LogConfiguration, Data: []byte{0xc1}}), "cannot be decoded"},
		"no voter":                  {follower, entries(7, 0, 0, &raft.Log{Index: 1, Term: 7, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(raft.Configuration{})}), "has no voter"},
		"a configuration":           {follower, entries(7, 0, 0, &raft.Log{Index: 1, Term: 7, Type: raft.LogConfiguration, Data: config}), ""},
		"the last term":             {follower, entries(math.MaxUint64, 0, 0), "above the term 7"},
		"a term within the bound":   {follower, entries(7+termLeap, 0, 0), ""},
		"a second leader":           {leads, entries(7, 0, 0), "the request is of another leader in term 7, in which this node leads"},
		"a successor":               {leads, entries(8, 0, 0), ""},
		"a vote":                    {follower, &raft.RequestVoteRequest{Term: 8, LastLogTerm: 7}, ""},
		"a vote of the last term":   {follower, &raft.RequestVoteRequest{Term: math.MaxUint64}, "above the term"},
		"a vote with a later log":   {follower, &raft.RequestVoteRequest{Term: 8, LastLogTerm: 9}, "an entry of term 9"},
		"a pre-vote":                {follower, &raft.RequestPreVoteRequest{Term: 8}, ""},
		"a pre-vote of the last":    {follower, &raft.RequestPreVoteRequest{Term: math.MaxUint64}, "above the term"},
		"a snapshot":                {follower, snapshot(1000, 1, 7, config), ""},
		"a huge snapshot":           {follower, snapshot(math.MaxInt64, 1, 7, config), "at most 1000"},
		"a snapshot of size -1":     {follower, snapshot(-1, 1, 7, config), "at most 1000"},
		"a snapshot of version 0":   {follower, snapshot(1, 0, 7, config), "version 0"},
		"a broken configuration in": {follower, snapshot(1, 1, 7, []byte{0xc1}), "cannot be decoded"},
		"a snapshot of the future":  {follower, snapshot(1, 1, 8, config), "an entry of term 8"},
		"a transfer of its leader":  {follower, &raft.TimeoutNowRequest{RPCHeader: from("b")}, ""},
		"a transfer of another":     {follower, &raft.TimeoutNowRequest{RPCHeader: from("c")}, "may not transfer"},
		"a transfer of nobody":      {standing{raft.Follower, 7, ""}, &raft.TimeoutNowRequest{}, "may not transfer"},
		"a transfer to the leader":  {leads, &raft.TimeoutNowRequest{RPCHeader: from("a")}, "may not transfer"},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkRequest(raft.RPC{Command: c.request}, c.node, 1000)
			switch {
			case c.says == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
}

func TestAnswersOfTheLastTerm(t *testing.T) {
	if err := checkAnswer(7, 8); err != nil {
		t.Error(err)
	}
	if checkAnswer(7, math.MaxUint64) == nil {
		t.Error("an answer of the last term counts")
	}
}

// Inbound answers a refused request, and raft does not see it.
func TestRefusedRequestsDoNotReachRaft(t *testing.T) {
	_, mem := raft.NewInmemTransport("a")
	w, stop := &wire{InmemTransport: mem}, make(chan struct{})
	refused := make(chan error, 1)
	in := NewInbound(w, stop, InboundConfig{Refused: func(err error) { refused <- err }})
	in.Serve(standing{raft.Follower, 7, "b"})
	answer := <-w.send("b", math.MaxUint64)
	if answer.Error == nil || <-refused == nil {
		t.Errorf("the heartbeat of the last term: %+v", answer)
	}
}
