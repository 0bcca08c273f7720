package nemesis

import (
	"slices"
	"strings"
	"testing"
	"time"

	"osqueue/client"
	"osqueue/tests/history"
	"osqueue/tests/model"
)

// Outcome is the result of a round.
type Outcome struct {
	Round    Round
	Ops      int
	Jobs     int
	Streamed int // writes that were answered over streams
	// Unanswered are kinds of operations, and ways of writes, of which the load had no answer.
	Unanswered []string
	Faults     []history.Fault
	Verdicts   []model.Verdict
	Refused    int    // PUTs of queue.json that the store refused by their condition
	Void       string // why it has shown nothing; "" if it has
}

// Hit is how many of its faults have hit.
func (o *Outcome) Hit() int {
	n := 0
	for _, f := range o.Faults {
		if f.Hit {
			n++
		}
	}
	return n
}

// Run plays one round. It fails the test if a checker finds a violation.
func Run(t *testing.T, r Round) Outcome {
	t.Helper()
	w := newWorld(t, r)
	w.goesOn(150) // so that there is something to lose
	for _, name := range r.Script {
		var faults []Fault
		for part := range strings.SplitSeq(name, "+") {
			faults = append(faults, named(part))
		}
		w.strike(faults)
	}
	pool, end := w.pool(), time.Now().Add(r.Lasts)
	for i := 0; len(r.Script) == 0 && time.Now().Before(end); i++ {
		w.strike(w.draw(pool, i))
	}
	return w.finish()
}

// pool are the faults that the world allows.
func (w *World) pool() (able []Fault) {
	for _, f := range All() {
		if f.possible(w) == "" && (!f.Loses || w.round.Loses) && (len(w.round.Pool) == 0 || slices.Contains(w.round.Pool, f.Name)) {
			able = append(able, f)
		}
	}
	return able
}

// draw is the i-th fault, or two at a time.
func (w *World) draw(pool []Fault, i int) []Fault {
	strike := []Fault{pool[w.Rand.IntN(len(pool))]}
	if second := pool[w.Rand.IntN(len(pool))]; w.round.Overlap && i%2 == 1 && w.together(strike[0], second) {
		strike = append(strike, second)
	}
	return strike
}

// together reports whether two faults may overlap.
func (w *World) together(a, b Fault) bool {
	if a.Elects && b.NoBucket || a.NoBucket && b.Elects {
		return false
	}
	return !a.Alone && !b.Alone && a.Name != b.Name && a.Takes+b.Takes <= (len(w.Cluster.Nodes)-1)/2
}

// strike begins faults one after the other, and heals the newest first: the second may have
// killed the node that the first has paused, and that node serves only after it was started.
func (w *World) strike(faults []Fault) {
	w.T.Helper()
	var heals []func()
	for i := range faults {
		heals = append(heals, w.begin(&faults[i]))
	}
	for _, heal := range slices.Backward(heals) {
		heal()
	}
	w.Cluster.WaitVoters() // the next fault may take a node away
	w.goesOn(60)
}

// notPossible begins the reason of a fault that the world does not allow.
const notPossible = "not possible here: "

// excused says whether a fault that has not hit could not.
func excused(why string) bool { return strings.HasPrefix(why, notPossible) }

// begin strikes, lets the fault last, and returns what ends it.
func (w *World) begin(f *Fault) (end func()) {
	w.T.Helper()
	span := w.Rec.Fault(f.Name, "")
	if why := f.possible(w); why != "" {
		span.Missed(notPossible + why)
		span.End()
		return func() {}
	}
	heal := f.Begin(w, span)
	w.while(f.Hold)
	return func() {
		heal()
		span.End()
	}
}

// drainTimeout bounds the time in which everything has to end after healing.
const drainTimeout = 90 * time.Second

// finish heals, drains, stops and checks.
func (w *World) finish() Outcome {
	w.T.Helper()
	w.heal()
	if err := w.Load.Drain(w.Cluster.Context(drainTimeout)); err != nil {
		w.T.Errorf("after healing not everything has ended: %v", err)
	}
	w.endWorkers()
	if err := w.Load.Finals(w.Cluster.Context(time.Minute)); err != nil {
		w.T.Error(err)
	}
	w.Load.Close()
	w.noteStores()
	if err := w.Rec.Close(); err != nil {
		w.T.Fatal(err)
	}
	if err := w.file.Close(); err != nil {
		w.T.Fatal(err)
	}
	return w.judge(w.Rec.History())
}

// heal ends whatever is still wrong.
func (w *World) heal() {
	w.Cluster.Net().Heal()
	if w.Proxy != nil {
		w.Proxy.Behave()
	}
	for _, n := range w.Cluster.Nodes {
		n.Continue()
	}
	w.start(w.Cluster.Nodes...)
	w.Cluster.WaitLeader()
}

// judge runs the checkers.
func (w *World) judge(h *history.History) Outcome {
	o := Outcome{Round: w.round, Ops: len(h.Ops), Jobs: len(h.Finals), Faults: h.Faults, Verdicts: model.Check(h, model.Options{})}
	if w.Proxy != nil {
		o.Refused = w.Proxy.Refused()
	}
	answered := make(map[string]int)
	for i := range h.Ops {
		if op := &h.Ops[i]; op.Outcome == history.OK {
			answered[string(op.Kind)]++
			answered[op.Protocol]++
			answered[op.Committed]++
		}
	}
	o.Streamed = answered[history.ProtocolStream]
	for _, what := range []string{
		string(history.Enqueue), string(history.Claim), string(history.Heartbeat), string(history.Complete), string(history.Fail),
		string(history.Release), string(history.Cancel), string(history.Edit), string(history.SetLimit), string(history.Throttle),
		string(history.Step), string(history.Signal), string(history.Schedule), string(history.SetType),
		string(history.GetJob), string(history.Stats),
		history.ProtocolHTTP, history.ProtocolStream, string(client.AckObject),
	} {
		if answered[what] == 0 {
			o.Unanswered = append(o.Unanswered, what)
		}
	}
	for _, v := range o.Verdicts {
		switch v.Result {
		case model.Violated:
			for i, x := range v.Violations {
				if i == 5 {
					w.T.Errorf("%s: and %d more", v.Checker, len(v.Violations)-i+v.More)
					break
				}
				w.T.Errorf("%s: %s (operations %v)", v.Checker, x.Text, x.Ops)
			}
		case model.TimedOut:
			w.T.Errorf("%s: %s", v.Checker, v.Note)
		}
	}
	for _, f := range h.Faults {
		w.T.Logf("%-26s hit=%-5v %6.1f s  %s", f.Name, f.Hit, (f.End - f.Begin).Seconds(), f.Proof)
	}
	if len(h.Faults) > 0 && o.Hit() == 0 {
		o.Void = "no fault has hit"
	}
	w.T.Logf("%s seed %d: %d operations (%d writes over streams), %d jobs, %d of %d faults hit", w.round.Name, w.round.Seed, o.Ops, o.Streamed, o.Jobs, o.Hit(), len(o.Faults))
	for _, v := range o.Verdicts {
		w.T.Logf("  %-13s %-10s %6d checked %s", v.Checker, v.Result, v.Checked, v.Note)
	}
	return o
}
