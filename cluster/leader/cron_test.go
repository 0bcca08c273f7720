package leader

import (
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/crontab"
)

func putCron(name, spec string, next int64) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_PutCron{PutCron: &fsmpb.PutCron{
		Name: name, Spec: spec, Missed: uint32(fsm.MissedOne), NextMs: next, Job: &fsmpb.NewJob{Type: name},
	}}}
}

// bench is a machine to which the test applies entries, and a term that reads it.
type bench struct {
	t       *testing.T
	machine *fsm.Machine
	term    *Term
	index   uint64
	now     int64
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, now: 1_700_000_000_000, machine: fsm.New()}
	do := Effects{Read: func(fn func(*fsm.Machine)) { fn(b.machine) }}
	b.term = &Term{base: New(Config{}, do).base, log: hclog.NewNullLogger()}
	return b
}

// apply applies one log entry.
func (b *bench) apply(ms ...*fsmpb.Mutation) {
	b.t.Helper()
	b.index++
	for i, r := range b.machine.Apply(b.index, 1, &fsmpb.Batch{NowMs: b.now, Mutations: ms}) {
		if !r.Code.Done() {
			b.t.Fatalf("mutation %d: %s", i, r.Code)
		}
	}
}

func TestFiresOfSchedules(t *testing.T) {
	b := newBench(t)
	f := &fires{term: b.term}
	minute := b.now/60_000*60_000 + 60_000
	b.apply(putCron("minutely", "* * * * *", minute), putCron("odd", "not a spec", minute), putCron("later", "@daily", minute+1))
	if p, err := f.due(minute - 1); err != nil || len(p) != 0 {
		t.Fatalf("%v, %v before anything is due", p, err)
	}
	now := minute + 2*60_000 + 500
	p, err := f.due(now)
	if err != nil || len(p) != 2 {
		t.Fatalf("%v, %v", p, err)
	}
	b.now = now
	b.apply(p...)
	b.index++ // the same entry once more, as if its answer had been lost
	for i, m := range p {
		res := b.machine.Apply(b.index, 1, &fsmpb.Batch{NowMs: now, Mutations: []*fsmpb.Mutation{m}})
		if res[0].Code != fsm.NotDue {
			t.Errorf("fire %d again: %s", i, res[0].Code)
		}
	}
	v := b.machine.View()
	for name, want := range map[string]string{
		"minutely": "fired 1, missed 2, last 2, next 3",
	} {
		c := v.Cron(name)
		next := "never"
		if c.NextAtMs != 0 {
			next = fmt.Sprint((c.NextAtMs - minute) / 60_000)
		}
		got := fmt.Sprintf("fired %d, missed %d, last %d, next %s", c.Fired, c.MissedCount, (c.LastAtMs-minute)/60_000, next)
		if got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		if j := b.machine.Job(c.LastJobId); j == nil || j.Options().Cron != name {
			t.Errorf("%s enqueued %+v", name, j)
		}
		if at, ok := crontab.TimeOfID(c.LastJobId); !ok || at != c.LastAtMs {
			t.Errorf("%s: the id %s has the time %d, %v, want %d", name, c.LastJobId, at, ok, c.LastAtMs)
		}
	}
	if p, err := f.due(now); err != nil || len(p) != 0 {
		t.Fatalf("%d are due still, %v", len(p), err)
	}
	if c := v.Cron("odd"); c.NextAtMs != minute || c.Fired != 0 {
		t.Errorf("the schedule that this version cannot read: next %d, fired %d; it should be left to another leader", c.NextAtMs, c.Fired)
	}
	if at, ok := b.machine.NextDeadline(f.term.unreadable); !ok || at <= now {
		t.Errorf("the leader wakes at %d for it, which is over", at)
	}
}

// A schedule with the policy "all" fires for each time that it missed, the oldest first, as many in an entry as one may have,
// between its start and its end.
func TestAllMissedTimesFire(t *testing.T) {
	b := newBench(t)
	f := &fires{term: b.term}
	b.now = b.now/60_000*60_000 + 60_000
	start, end := b.now+5*60_000, b.now+1205*60_000
	put := putCron("c", "* * * * *", start)
	op := put.GetPutCron()
	op.Missed, op.StartMs, op.EndMs = uint32(fsm.MissedAll), start, end
	other := putCron("late", "@every 24h", start+60_000)
	b.apply(put, other)
	b.now = end + 500_000
	for i, want := range []int{firesMax, 201, 0} {
		p, err := f.due(b.now)
		if err != nil || len(p) != want {
			t.Fatalf("%d fires in entry %d, %v, want %d", len(p), i, err, want)
		}
		b.apply(p...)
		if c := b.machine.View().Cron("c"); want == firesMax && c.LastAtMs != start+(firesMax-1)*60_000 {
			t.Errorf("the first entry ends with %d", c.LastAtMs)
		}
	}
	c, late := b.machine.View().Cron("c"), b.machine.View().Cron("late")
	if c.Fired != 1200 || c.MissedCount != 0 || c.LastAtMs != end-60_000 || c.NextAtMs != 0 || late.Fired != 1 {
		t.Errorf("fired %d, missed %d, last %d, next %d; the other one fired %d", c.Fired, c.MissedCount, c.LastAtMs, c.NextAtMs, late.Fired)
	}
	last := start - 60_000
	b.machine.View().List(fsm.Index{}, []fsm.Status{fsm.Unclaimed}, 0, func(j *fsm.Job) bool {
		if at, _ := crontab.TimeOfID(j.ID); j.Type == "c" {
			if header := j.Options().Headers[0]; at != last+60_000 || header.Name != fsm.ScheduledHeader || header.Value != fmt.Sprint(at) {
				t.Fatalf("a job for %d comes after that for %d, with the header %v", at, last, header)
			}
			last = at
		}
		return true
	})
}

func TestOneEntryHasABoundedNumberOfFires(t *testing.T) {
	b := newBench(t)
	f := &fires{term: b.term}
	var ms []*fsmpb.Mutation
	for i := range firesMax + 3 {
		ms = append(ms, putCron(fmt.Sprintf("c%03d", i), "@every 1h", b.now))
	}
	b.apply(ms...)
	for _, want := range []int{firesMax, 3, 0} {
		p, err := f.due(b.now)
		if err != nil || len(p) != want {
			t.Fatalf("%d fires, %v, want %d", len(p), err, want)
		}
		b.apply(p...)
	}
	if len(f.read) != 1 {
		t.Errorf("%d specs are kept of one", len(f.read))
	}
}

// Fixed times in an hour that the clocks skip fire once, right after it, and the others of
// them count as missed.
func TestASkippedHourFiresOnce(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t)
	f := &fires{term: b.term}
	b.now = time.Date(2027, 3, 28, 1, 0, 0, 0, zone).UnixMilli()
	after := time.Date(2027, 3, 28, 3, 0, 0, 0, zone).UnixMilli()
	s, err := crontab.Parse("15,30 2 * * *", "Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	put := putCron("night", "15,30 2 * * *", s.Next(b.now))
	put.GetPutCron().TimeZone = "Europe/Berlin"
	b.apply(put)
	b.now = after + 10
	p, err := f.due(b.now)
	if err != nil || len(p) != 1 {
		t.Fatalf("%v, %v", p, err)
	}
	b.apply(p...)
	c := b.machine.View().Cron("night")
	if c.Fired != 1 || c.LastAtMs != after || c.MissedCount != 1 || c.NextAtMs != time.Date(2027, 3, 29, 2, 15, 0, 0, zone).UnixMilli() {
		t.Errorf("fired %d, last %d (want %d), missed %d, next %d", c.Fired, c.LastAtMs, after, c.MissedCount, c.NextAtMs)
	}
}
