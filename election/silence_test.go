package election_test

import (
	"testing"
	"testing/synctest"
	"time"

	"osqueue/election"
	"osqueue/fsm"
	"osqueue/storage"
	"osqueue/storage/document"
)

// TestWatch: only reads of the same version, close to each other, count.
func TestWatch(t *testing.T) {
	const limit = 10 * time.Second
	synctest.Test(t, func(t *testing.T) {
		var w election.Watch
		look := func(what string, v storage.Version, want time.Duration) {
			t.Helper()
			if got := w.Saw(election.Observed{Version: v}, time.Now(), limit/2); got != want {
				t.Errorf("%s: silent for %v, want %v", what, got, want)
			}
		}
		look("the first read", "1", 0)
		time.Sleep(limit / 2)
		look("unchanged", "1", limit/2)
		time.Sleep(limit / 2)
		look("unchanged for longer", "1", limit)
		time.Sleep(time.Second)
		look("changed", "2", 0)
		time.Sleep(time.Second)
		look("the new version", "2", time.Second)
		w.Missed()
		time.Sleep(time.Second)
		look("after a failed read", "2", 0)
		time.Sleep(limit/2 + 1)
		look("after a pause", "2", 0)
		time.Sleep(time.Second)
		look("again", "2", time.Second)

		asked := time.Now()
		time.Sleep(time.Hour) // the answer is slow
		if got := w.Saw(election.Observed{Version: "2"}, asked, limit/2); got != time.Second {
			t.Errorf("a slow answer counts as a silence of %v", got)
		}
	})
}

// TestClockDoesNotDecide: a heartbeat that looks a year old, or lies a year ahead, says
// nothing about whether its broker is alive.
func TestClockDoesNotDecide(t *testing.T) {
	me := election.Candidate{Node: "n1", Address: "n1:1", Cluster: "A"}
	for _, off := range []time.Duration{-8760 * time.Hour, 8760 * time.Hour} {
		d := docOf("b:1", start+off.Milliseconds(), &document.Header{Cluster: "B", Lineage: "L"})
		for silent, want := range map[time.Duration]election.Action{
			0: election.Wait, timeout*time.Millisecond - 1: election.Wait, timeout * time.Millisecond: election.Adopt,
		} {
			s := election.Silence{For: silent, Timeout: timeout * time.Millisecond, Now: time.UnixMilli(start)}
			if got := election.Decide(election.Observed{Doc: d, Version: "v"}, me, s); got.Action != want {
				t.Errorf("a heartbeat off by %v, silent for %v: %s, want %s", off, silent, got.Action, want)
			}
		}
	}
}

// TestFenceOfTheDocument: how long a candidate waits follows from what the document says, not from
// the candidate's own broker timeout.
func TestFenceOfTheDocument(t *testing.T) {
	const own, theirs, outage = timeout * time.Millisecond, 30 * time.Second, 5 * time.Minute
	member := func(name, address, host string) document.Member {
		return document.Member{Name: name, Address: address, Host: host}
	}
	three := []document.Member{member("n1", "10.0.0.1:1", ""), member("n2", "10.0.0.2:1", ""), member("n3", "10.0.0.3:1", "")}
	one := []document.Member{member("n1", "127.0.0.1:1", "here")}
	for name, c := range map[string]struct {
		theirs    document.Fence
		members   []document.Member // of the candidate
		overtaken bool
		dead      time.Duration // 0: never
	}{
		"no fence":            {document.Fence{}, nil, false, own},
		"unknown":             {document.Fence{Timeout: theirs, Outage: outage, Members: three}, nil, false, outage},
		"known":               {document.Fence{Timeout: theirs, Outage: outage, Standbys: []string{"C", "A"}}, nil, false, theirs},
		"another is known":    {document.Fence{Timeout: theirs, Outage: outage, Standbys: []string{"C"}}, nil, false, outage},
		"no outage is enough": {document.Fence{Timeout: theirs}, nil, false, 0},
		"of a legacy broker":  {document.Fence{Timeout: theirs, Outage: outage}, nil, true, own},
		"all nodes":           {document.Fence{Timeout: theirs, Outage: outage, Members: three}, three, false, theirs},
		"a majority of nodes": {document.Fence{Timeout: theirs, Outage: outage, Members: three}, three[:2], false, theirs},
		"a minority of nodes": {document.Fence{Timeout: theirs, Outage: outage, Members: three}, three[:1], false, outage},
		"another address":     {document.Fence{Timeout: theirs, Outage: outage, Members: one}, []document.Member{member("n1", "127.0.0.1:2", "here")}, false, outage},
		"another name":        {document.Fence{Timeout: theirs, Outage: outage, Members: one}, []document.Member{member("n2", "127.0.0.1:1", "here")}, false, outage},
		"another host":        {document.Fence{Timeout: theirs, Outage: outage, Members: one}, []document.Member{member("n1", "127.0.0.1:1", "there")}, false, outage},
		"the same host":       {document.Fence{Timeout: theirs, Outage: outage, Members: one}, one, false, theirs},
		"addresses are missing": {
			document.Fence{Timeout: theirs, Outage: outage, Members: []document.Member{member("n1", "", "")}},
			[]document.Member{member("n1", "", "")},
			false, outage,
		},
	} {
		d := docOf("b:1", start, &document.Header{Cluster: "B", Lineage: "L", Term: 8, Fence: c.theirs})
		d.Overtaken = c.overtaken
		me := election.Candidate{Node: "n1", Address: "n1:1", Cluster: "A", LSN: fsm.LSN{Term: 7, Index: 100}, Fence: document.Fence{Members: c.members}}
		cases := map[time.Duration]election.Action{0: election.Wait, c.dead - 1: election.Wait, c.dead: election.Adopt}
		if c.dead == 0 {
			cases = map[time.Duration]election.Action{0: election.Wait, 8760 * time.Hour: election.Wait}
		}
		for silent, want := range cases {
			s := election.Silence{For: silent, Timeout: own, Now: time.UnixMilli(start)}
			if got := election.Decide(election.Observed{Doc: d, Version: "v"}, me, s); got.Action != want {
				t.Errorf("%s, silent for %v: %s, want %s", name, silent, got.Action, want)
			}
		}
	}
}

// A candidate with a short timeout gives a legacy broker the time that its own system gives it.
func TestALegacyBrokerHasItsOwnTimeout(t *testing.T) {
	d := docOf("b:1", start, nil)
	for silent, want := range map[time.Duration]election.Action{
		election.LegacyTimeout - 1: election.Wait, election.LegacyTimeout: election.Adopt,
	} {
		s := election.Silence{For: silent, Timeout: 2 * time.Second, Now: time.UnixMilli(start)}
		if got := election.Decide(election.Observed{Doc: d, Version: "v"}, election.Candidate{Node: "n1", Address: "n1:1"}, s); got.Action != want {
			t.Errorf("silent for %v: %s, want %s", silent, got.Action, want)
		}
	}
}

// TestALegacyBrokerThatOnlyRegisters: a legacy broker that cannot read the jobs of the document,
// and is restarted again and again, keeps the document only while its heartbeat is fresh.
func TestALegacyBrokerThatOnlyRegisters(t *testing.T) {
	const own = timeout * time.Millisecond
	me := election.Candidate{Node: "n1", Address: "n1:1", Cluster: "A", Lineage: "L", Epoch: 1, LSN: fsm.LSN{Term: 7, Index: 100}, Applied: fsm.LSN{Term: 7, Index: 100}}
	for _, c := range []struct {
		age, silent time.Duration
		want        election.Action
	}{
		{own + 1e6, own / 2, election.TakeOver},
		{own, own / 2, election.Wait},
		{own + 1e6, own/2 - 1, election.Wait},
	} {
		d := docOf("o:1", start-c.age.Milliseconds(), &document.Header{Cluster: "A", Lineage: "L", Term: 7, Index: 90, Registered: 1})
		d.Overtaken, d.Viewed = true, false
		s := election.Silence{For: c.silent, Timeout: own, Now: time.UnixMilli(start)}
		if got := election.Decide(election.Observed{Doc: d, Version: "v"}, me, s); got.Action != c.want {
			t.Errorf("a heartbeat %v old, silent for %v: %s, want %s", c.age, c.silent, got.Action, c.want)
		}
	}
}
