package client

import (
	"context"
	"testing"
)

// A client that prefers streams works with servers that do not know them.
func TestServersWithoutStreams(t *testing.T) {
	c := newCluster(t)
	cl := c.client(func(cfg *Config) { cfg.Protocol = ProtocolStream })
	for _, id := range []string{"a", "b", "c"} {
		if out, err := cl.Enqueue(bounded(t), NewJob{ID: id, Type: "t"}); err != nil || out.JobID != id {
			t.Fatalf("%+v, %v", out, err)
		}
	}
}

func TestUnknownProtocol(t *testing.T) {
	if _, err := New(Config{Servers: []string{"a"}, Protocol: "pigeon"}); err == nil {
		t.Error("accepted")
	}
}

// A report that another node leads starts a search, unless it comes from a server that this client does not
// take for the leader, or names that server itself.
func TestReportOfANewLeader(t *testing.T) {
	asked := make(chan string, 10)
	tr := newTracker([]string{"http://a:1", "http://b:1"}, func(_ context.Context, server string) view {
		asked <- server
		return view{server: server, leader: server == "http://b:1", term: 2}
	})
	defer tr.close()
	tr.leader = newTarget("http://a:1", true, 1)
	tr.moved("http://b:1", "a:1")
	tr.moved("http://a:1", "a:1")
	if l, _ := tr.known(); l == nil || len(asked) > 0 {
		t.Fatalf("the leader is given up: %+v", l)
	}
	tr.moved("http://a:1", "b:1")
	<-asked
	if l := tr.pick(bounded(t)); l.url != "http://b:1" {
		t.Errorf("picked %s", l.url)
	}
}
