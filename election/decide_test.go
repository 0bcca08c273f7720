package election_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"osqueue/election"
	"osqueue/fsm"
	"osqueue/storage"
	"osqueue/storage/document"
)

// docOf is a document as broker left it, at heartbeat.
func docOf(broker string, heartbeat int64, h *document.Header) *document.File {
	d := &document.File{BrokerHeartbeat: heartbeat, Header: h, Viewed: true}
	if broker != "" {
		d.Broker = &broker
	}
	return d
}

// TestDecide goes through the rows of the fence.
func TestDecide(t *testing.T) {
	const fresh, stale, future = start - timeout, start - timeout - 1, start + 1_000_000
	header := func(cluster, lineage string, term, index uint64) *document.Header {
		return &document.Header{Cluster: cluster, Lineage: lineage, Term: term, Index: index, Node: "n9", Epoch: 4}
	}
	overtaken := func(d *document.File) *document.File {
		d.Overtaken = true
		return d
	}
	registered := func(d *document.File, epoch uint64) *document.File {
		d.Header.Registered = epoch
		return d
	}
	bare := func(d *document.File) *document.File {
		d.Viewed = false
		return d
	}
	empty := election.Candidate{Node: "n1", Address: "n1:1", Cluster: "A", LSN: fsm.LSN{Term: 7, Index: 100}, Applied: fsm.LSN{Term: 7, Index: 100}}
	ours := empty
	ours.Lineage, ours.Populated, ours.Epoch = "L", true, 3
	survivor := ours // of a majority that had gone on from entry 80 in term 6
	survivor.Applied = fsm.LSN{Term: 5, Index: 100}
	jobsOnly := empty
	jobsOnly.Populated = true
	having := func(me election.Candidate, v storage.Version) election.Candidate {
		me.Adopted = v
		return me
	}
	later := ours // its broker was registered after the document was written
	later.Epoch = 5
	adopted := ours // from a document of that epoch; no broker has registered since
	adopted.Epoch = 4
	newer := empty
	newer.Cluster = ""

	cases := []struct {
		name   string
		doc    *document.File
		me     election.Candidate
		want   election.Action
		leader string
	}{
		{"no document, empty", nil, empty, election.Create, ""},
		{"no document, populated", nil, ours, election.Create, ""},

		{"own cluster, older term", docOf("n9:1", fresh, header("A", "L", 6, 90)), ours, election.TakeOver, ""},
		{"own cluster, same term, same index", docOf("n9:1", fresh, header("A", "L", 7, 100)), ours, election.TakeOver, ""},
		{"own cluster, before the first registration", docOf("n9:1", fresh, header("A", "L", 6, 90)), empty, election.TakeOver, ""},
		{"own cluster, later term", docOf("n9:1", fresh, header("A", "L", 8, 90)), ours, election.StepDown, "n9:1"},
		{"own cluster, later term, silent", docOf("n9:1", stale, header("A", "L", 8, 90)), ours, election.Adopt, ""},
		{"own cluster, later term, adopted", docOf("n9:1", stale, header("A", "L", 8, 90)), having(ours, "v"), election.TakeOver, ""},
		{"own cluster, we lost data", docOf("n9:1", stale, header("A", "L", 7, 101)), ours, election.Adopt, ""},
		{"own cluster, we lost data, or it is a copy", docOf("n9:1", fresh, header("A", "L", 7, 101)), ours, election.Wait, "n9:1"},
		{"own cluster, we lost data and have it back", docOf("n9:1", fresh, header("A", "L", 7, 101)), having(ours, "v"), election.TakeOver, ""},
		{"own cluster, another version adopted", docOf("n9:1", stale, header("A", "L", 7, 101)), having(ours, "u"), election.Adopt, ""},
		{"own cluster, recovered with another history", docOf("n9:1", stale, header("A", "L", 6, 90)), survivor, election.Adopt, ""},
		{"own cluster, recovered with an older history", docOf("n9:1", fresh, header("A", "L", 5, 90)), survivor, election.TakeOver, ""},
		{"own cluster, recovered and adopted", docOf("n9:1", fresh, header("A", "L", 6, 90)), having(survivor, "v"), election.TakeOver, ""},
		{"bare, recovered with another history", bare(docOf("n9:1", stale, header("A", "L", 6, 90))), survivor, election.Adopt, ""},
		{"own cluster, registered by a copy", registered(docOf("n9:1", fresh, header("A", "L", 7, 90)), 4), ours, election.Wait, "n9:1"},
		{"own cluster, registered by a copy, silent", registered(docOf("n9:1", stale, header("A", "L", 7, 90)), 4), ours, election.Adopt, ""},
		{"own cluster, the last to register", registered(docOf("n9:1", fresh, header("A", "L", 7, 90)), 3), ours, election.TakeOver, ""},
		{"no cluster ids", docOf("n9:1", fresh, header("", "L", 6, 90)), newer, election.Wait, "n9:1"},

		{"other cluster, fresh", docOf("b:1", fresh, header("B", "L", 99, 999)), ours, election.Wait, "b:1"},
		{"other cluster, future", docOf("b:1", future, header("B", "L", 1, 1)), ours, election.Wait, "b:1"},
		{"other cluster, stale", docOf("b:1", stale, header("B", "L", 1, 1)), ours, election.Adopt, ""},
		{"other cluster, stale, adopted", docOf("b:1", stale, header("B", "L", 99, 999)), having(ours, "v"), election.TakeOver, ""},
		{"other cluster, fresh again, adopted", docOf("b:1", fresh, header("B", "L", 99, 999)), having(ours, "v"), election.Wait, "b:1"},
		{"other cluster, changed since adopted", docOf("b:1", stale, header("B", "L", 99, 999)), having(ours, "u"), election.Adopt, ""},
		{"other cluster, empty candidate", docOf("b:1", stale, header("B", "M", 1, 1)), empty, election.Adopt, ""},
		{"other cluster, no broker", docOf("", future, header("B", "M", 1, 1)), empty, election.Adopt, ""},

		{"repaired without its header", docOf("", stale, header("", "L", 0, 0)), ours, election.TakeOver, ""},
		{"repaired without its header, empty candidate", docOf("", stale, header("", "L", 6, 90)), empty, election.Adopt, ""},
		{"repaired to a state after ours", docOf("", stale, header("", "L", 8, 90)), ours, election.Adopt, ""},
		{"bare, repaired without its header", bare(docOf("", stale, header("", "L", 6, 90))), ours, election.TakeOver, ""},
		{"other cluster, nothing in it", docOf("b:1", stale, header("B", "L", 0, 0)), ours, election.TakeOver, ""},
		{"other cluster, a copy from before our epoch", docOf("b:1", stale, header("B", "L", 1, 1)), later, election.TakeOver, ""},
		{"other cluster, adopted before a crash", docOf("b:1", stale, header("B", "L", 1, 1)), adopted, election.Adopt, ""},
		{"other cluster, a copy from before our epoch, fresh", docOf("b:1", fresh, header("B", "L", 1, 1)), later, election.Wait, "b:1"},

		{"other lineage, stale", docOf("b:1", stale, header("B", "M", 1, 1)), ours, election.Refuse, ""},
		{"other lineage, fresh", docOf("b:1", fresh, header("B", "M", 1, 1)), ours, election.Refuse, ""},
		{"other lineage, own cluster", docOf("n9:1", fresh, header("A", "M", 6, 90)), ours, election.Refuse, ""},
		{"other lineage, jobs without lineage", docOf("b:1", stale, header("B", "M", 1, 1)), jobsOnly, election.Refuse, ""},
		{"other lineage, jobs adopted just now", docOf("b:1", stale, header("B", "M", 1, 1)), having(jobsOnly, "u"), election.Adopt, ""},
		{"other lineage, jobs adopted from it", docOf("b:1", stale, header("B", "M", 1, 1)), having(jobsOnly, "v"), election.TakeOver, ""},

		{"original, fresh", docOf("o:1", fresh, nil), empty, election.Wait, "o:1"},
		{"original, stale", docOf("o:1", stale, nil), empty, election.Adopt, ""},
		{"original, stale, adopted", docOf("o:1", stale, nil), having(jobsOnly, "v"), election.TakeOver, ""},
		{"original, stale, adopted before a crash", docOf("o:1", stale, nil), jobsOnly, election.Adopt, ""},
		{"original, no broker", docOf("", 0, nil), empty, election.Adopt, ""},
		{"original, populated", docOf("o:1", stale, nil), ours, election.Refuse, ""},

		{"ours, overtaken, fresh", overtaken(docOf("o:1", fresh, header("A", "L", 6, 90))), ours, election.Wait, "o:1"},
		{"ours, overtaken, stale", overtaken(docOf("o:1", stale, header("A", "L", 6, 90))), ours, election.TakeOver, ""},
		{"ours, overtaken, later term", overtaken(docOf("o:1", stale, header("A", "L", 8, 90))), ours, election.Adopt, ""},
		{"ours, overtaken, adopted", overtaken(docOf("o:1", stale, header("A", "L", 6, 90))), having(ours, "v"), election.TakeOver, ""},

		{"bare", bare(docOf("n9:1", fresh, header("A", "L", 6, 90))), ours, election.TakeOver, ""},
		{"bare, we lost data", bare(docOf("n9:1", stale, header("A", "L", 7, 101))), ours, election.Adopt, ""},
		{"bare, other cluster, stale", bare(docOf("b:1", stale, header("B", "L", 1, 1))), ours, election.Adopt, ""},
		{"bare, overtaken, fresh", bare(overtaken(docOf("o:1", fresh, header("A", "L", 6, 90)))), ours, election.Wait, "o:1"},
		{"bare, overtaken, stale", bare(overtaken(docOf("o:1", stale, header("A", "L", 6, 90)))), ours, election.TakeOver, ""},
		{"bare, overtaken, broker removed", bare(overtaken(docOf("", fresh, header("A", "L", 6, 90)))), ours, election.TakeOver, ""},
		{"bare, overtaken, we lost data", bare(overtaken(docOf("o:1", stale, header("A", "L", 7, 101)))), ours, election.Adopt, ""},
		{"bare, overtaken, later term", bare(overtaken(docOf("o:1", stale, header("A", "L", 8, 90)))), ours, election.Adopt, ""},
		{"bare, overtaken, other cluster", bare(overtaken(docOf("o:1", stale, header("B", "L", 6, 90)))), ours, election.Adopt, ""},
		{"bare, overtaken, other lineage", bare(overtaken(docOf("o:1", stale, header("B", "M", 6, 90)))), ours, election.Refuse, ""},

		{"other lineage, overtaken", overtaken(docOf("o:1", stale, header("B", "M", 6, 90))), ours, election.Refuse, ""},
	}
	for _, c := range cases {
		d := election.Decide(election.Observed{Doc: c.doc, Version: "v"}, c.me, heard(c.doc, start))
		if d.Action != c.want || d.Leader != c.leader || d.Reason == "" {
			t.Errorf("%s: %s of %q because %q, want %s of %q", c.name, d.Action, d.Leader, d.Reason, c.want, c.leader)
		}
		if d.Action == election.Refuse && (!strings.Contains(d.Reason, "osqueue restore") || !strings.Contains(d.Reason, "empty data directories")) {
			t.Errorf("%s: the reason does not say what to do: %s", c.name, d.Reason)
		}
	}
}

// TestDecideSafety says of any document and candidate what must never happen.
func TestDecideSafety(t *testing.T) {
	name := rapid.SampledFrom([]string{"", "A", "B"})
	number := rapid.Uint64Range(0, 3)
	rapid.Check(t, func(t *rapid.T) {
		d := docOf(name.Draw(t, "broker"), start+rapid.Int64Range(-2, 2).Draw(t, "beat")*timeout, nil)
		if rapid.Bool().Draw(t, "headed") {
			d.Header = &document.Header{
				Cluster: name.Draw(t, "cluster"), Lineage: name.Draw(t, "lineage"),
				Term: number.Draw(t, "term"), Index: number.Draw(t, "index"), Epoch: number.Draw(t, "epoch"),
			}
			d.Overtaken, d.Viewed = rapid.Bool().Draw(t, "overtaken"), rapid.Bool().Draw(t, "viewed")
		}
		me := election.Candidate{
			Cluster: name.Draw(t, "my cluster"), Lineage: name.Draw(t, "my lineage"),
			LSN:     fsm.LSN{Term: number.Draw(t, "my term"), Index: number.Draw(t, "my index")},
			Applied: fsm.LSN{Term: number.Draw(t, "applied term")},
			Adopted: storage.Version(rapid.SampledFrom([]string{"", "u", "v"}).Draw(t, "adopted")),
		}
		me.Applied.Index = me.LSN.Index
		me.Epoch = number.Draw(t, "my epoch")
		if d.Header != nil {
			d.Header.Registered = number.Draw(t, "registered epoch")
		}
		silence := election.Silence{
			For: time.Duration(rapid.Int64Range(0, 4).Draw(t, "silent for")) * timeout / 4 * time.Millisecond, Timeout: timeout * time.Millisecond,
			Now: time.UnixMilli(start),
		}
		me.Populated = me.Lineage != "" || rapid.Bool().Draw(t, "jobs")
		got := election.Decide(election.Observed{Doc: d, Version: "v"}, me, silence).Action

		own := d.Header != nil && me.Cluster != "" && d.Header.Cluster == me.Cluster
		ruled := own && !d.Overtaken // the last word in it is this cluster's
		alive := d.Broker != nil && silence.For < silence.Timeout
		if own && d.Overtaken && !d.Viewed && silence.For >= silence.Timeout/2 && d.BrokerHeartbeat < start-timeout {
			alive = false // it has registered and done no more
		}
		behind := own && (d.Header.LSN().Compare(me.LSN) > 0 || d.Header.LSN().Compare(me.Applied) > 0 || d.Header.Registered > me.Epoch)
		// A state that has the document's lineage and is not older keeps it.
		kept := d.Header != nil && !d.Overtaken && me.Lineage != "" && me.Lineage == d.Header.Lineage && d.Header.LSN().Compare(me.Applied) <= 0
		switch got {
		case election.TakeOver:
			if !kept && me.Adopted != "v" && (!own || behind) {
				t.Fatal("takes over what it does not hold")
			}
		case election.Adopt:
			if me.Lineage != "" && me.Lineage != d.Lineage() {
				t.Fatal("throws another lineage away")
			}
			// A state with the epoch of another cluster's document may come from an earlier
			// version of it: that cluster may have continued.
			continued := kept && d.Header.Cluster != "" && !d.Header.LSN().IsZero() && d.Header.Epoch >= me.Epoch
			if kept && !own && !continued {
				t.Fatal("goes back to a state that is not newer")
			}
			if ruled && silence.For < silence.Timeout {
				t.Fatal("adopts the document of a living leader of its own cluster")
			}
		case election.Create:
			t.Fatal("creates what is there")
		}
		if alive && !ruled && (got == election.TakeOver || got == election.Adopt) {
			t.Fatal("takes the document from a living broker")
		}
	})
}

func TestReadDamaged(t *testing.T) {
	for _, text := range []string{``, `{`, `[]`, `{"jobs":5}`, `{"osqueue":{"format":7},"jobs":[]}`} {
		e := newEnv(t)
		e.seed(text)
		if o, err := election.Read(t.Context(), e, key); !errors.Is(err, election.ErrUnreadable) || o.Doc != nil || o.Version != "" {
			t.Errorf("Read of %q: %+v, %v", text, o, err)
		}
	}
	e := newEnv(t)
	if o, err := election.Read(t.Context(), e, key); err != nil || o.Doc != nil || o.Version != "" {
		t.Errorf("Read of nothing: %+v, %v", o, err)
	}
	e.Close()
	ctx := short(t)
	e.Inject(faultRules["readError"])
	if _, err := election.Read(ctx, e, key); err == nil || errors.Is(err, election.ErrUnreadable) {
		t.Errorf("Read of a store that is away: %v", err)
	}
}
