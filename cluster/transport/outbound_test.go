package transport

import (
	"errors"
	"testing"

	"github.com/hashicorp/raft"
)

// peers answers appends as the test decides.
type peers struct {
	Transport
	answer func(*raft.AppendEntriesResponse) error
}

func (p *peers) AppendEntries(
	_ raft.ServerID, _ raft.ServerAddress, _ *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse,
) error {
	return p.answer(resp)
}

func TestOnlyAnswersOfTheRoundConfirm(t *testing.T) {
	const term = 7
	voters := raft.Configuration{Servers: []raft.Server{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "d", Suffrage: raft.Nonvoter}}}
	for name, c := range map[string]struct {
		from     raft.ServerID
		term     uint64
		success  bool
		err      error
		overtake bool // the round begins while the request is under way
		want     bool
	}{
		"a follower":                 {from: "b", term: term, success: true, want: true},
		"asked before":               {from: "b", term: term, success: true, overtake: true},
		"of a later term":            {from: "b", term: term + 1},
		"that lacks entries":         {from: "b", term: term},
		"a broken connection":        {from: "b", err: errors.New("reset")},
		"that may not vote":          {from: "d", term: term, success: true},
		"that is no member any more": {from: "e", term: term, success: true},
	} {
		t.Run(name, func(t *testing.T) {
			var round uint64
			p := &peers{}
			o := NewOutbound(p, nil, durable)
			p.answer = func(resp *raft.AppendEntriesResponse) error {
				if c.overtake {
					round = o.Ask()
				}
				resp.Term, resp.Success = c.term, c.success
				return c.err
			}
			round = o.Ask()
			var resp raft.AppendEntriesResponse
			err := o.AppendEntries(c.from, "", &raft.AppendEntriesRequest{Term: term}, &resp)
			if !errors.Is(err, c.err) {
				t.Fatal(err)
			}
			if got := o.Majority(round, "a", voters); got != c.want {
				t.Fatalf("confirmed: %v, want %v", got, c.want)
			}
		})
	}
}

func TestMajorityOfVoters(t *testing.T) {
	o := NewOutbound(nil, nil, durable)
	one := raft.Configuration{Servers: []raft.Server{{ID: "a"}}}
	if !o.Majority(o.Ask(), "a", one) {
		t.Error("a node that is alone is not its own majority")
	}
	if o.Majority(o.Ask(), "b", one) {
		t.Error("a node that does not vote confirms itself")
	}
	four := raft.Configuration{Servers: []raft.Server{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "d"}}}
	round := o.Ask()
	o.confirmed["b"] = round
	if o.Majority(round, "a", four) {
		t.Error("two of four are a majority")
	}
}

// durable is the Durable of a node that stores nothing in the background.
func durable(uint64, <-chan struct{}) error { return nil }

// An answer that confirms entries reaches raft when this node's own log has them. Other answers
// do not wait: a heartbeat must not, and a refused request confirms nothing.
func TestAnswersWaitForTheOwnDisk(t *testing.T) {
	const term = 7
	entries := []*raft.Log{{Index: 4, Term: term}, {Index: 5, Term: term}}
	failed := errors.New("the disk fails")
	for name, c := range map[string]struct {
		entries []*raft.Log
		term    uint64
		success bool
		waits   bool
	}{
		"entries":          {entries: entries, term: term, success: true, waits: true},
		"refused entries":  {entries: entries, term: term},
		"of a later term":  {entries: entries, term: term + 1},
		"without entries":  {term: term, success: true},
		"refused, nothing": {term: term},
	} {
		t.Run(name, func(t *testing.T) {
			p := &peers{answer: func(resp *raft.AppendEntriesResponse) error {
				resp.Term, resp.Success = c.term, c.success
				return nil
			}}
			cut := make(chan struct{})
			asked := false
			o := NewOutbound(p, cut, func(index uint64, stop <-chan struct{}) error {
				asked = true
				if index != 5 || stop != (<-chan struct{})(cut) {
					t.Errorf("waits for entry %d, want 5, until the node is cut off", index)
				}
				return failed
			})
			var resp raft.AppendEntriesResponse
			err := o.AppendEntries("b", "", &raft.AppendEntriesRequest{Term: term, Entries: c.entries}, &resp)
			if asked != c.waits || c.waits != errors.Is(err, failed) {
				t.Errorf("waits: %v, want %v; error %v", asked, c.waits, err)
			}
		})
	}
}

// The answers in a pipeline would not wait.
func TestNoPipelines(t *testing.T) {
	o := NewOutbound(nil, nil, durable)
	if p, err := o.AppendEntriesPipeline("b", ""); p != nil || !errors.Is(err, raft.ErrPipelineReplicationNotSupported) {
		t.Errorf("%v, %v", p, err)
	}
}
