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

// TestPromisedHeartbeat: the broker of a document that promises its next heartbeat is dead
// one broker timeout after that, and no promise is longer than NextMax. A broker that
// overtook the document has promised nothing.
func TestPromisedHeartbeat(t *testing.T) {
	const limit = timeout * time.Millisecond
	me := election.Candidate{Node: "n1", Address: "n1:1", Cluster: "A", LSN: fsm.LSN{Term: 7, Index: 100}}
	at := func(cluster string, next time.Duration, overtaken bool) *document.File {
		h := &document.Header{Cluster: cluster, Lineage: "L", Term: 8, Next: next.Milliseconds()}
		d := docOf("b:1", start, h)
		d.Overtaken = overtaken
		return d
	}
	for name, c := range map[string]struct {
		doc  *document.File
		dead time.Duration
		wait election.Action
	}{
		"none":             {at("B", 0, false), limit, election.Wait},
		"a minute":         {at("B", time.Minute, false), time.Minute + limit, election.Wait},
		"a year":           {at("B", 8760*time.Hour, false), document.NextMax + limit, election.Wait},
		"less than none":   {at("B", -time.Minute, false), limit, election.Wait},
		"of one overtaken": {at("B", time.Minute, true), limit, election.Wait},
		"of a copy":        {at("A", time.Minute, false), time.Minute + limit, election.StepDown},
	} {
		for silent, want := range map[time.Duration]election.Action{0: c.wait, c.dead - 1: c.wait, c.dead: election.Adopt} {
			s := election.Silence{For: silent, Timeout: limit, Now: time.UnixMilli(start)}
			if got := election.Decide(election.Observed{Doc: c.doc, Version: "v"}, me, s); got.Action != want {
				t.Errorf("%s, silent for %v: %s, want %s", name, silent, got.Action, want)
			}
		}
	}
}
