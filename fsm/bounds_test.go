package fsm_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// The bounds that random logs never get to, with the numbers of the design.

// TestRecordsAreBounded makes as many records of a kind as there may be. Another one is refused, one that is there
// can be changed, and one in the place of another is taken.
func TestRecordsAreBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limit       int
		put, remove func(name string) *fsmpb.Mutation
		refused     fsm.Code
	}{
		"settings": {10_000, settings, func(name string) *fsmpb.Mutation {
			m := settings(name)
			m.GetSetQueue().Remove = true
			return m
		}, fsm.TooManyQueues},
		"schedules": {100_000, schedule, func(name string) *fsmpb.Mutation {
			return &fsmpb.Mutation{Op: &fsmpb.Mutation_DeleteCron{DeleteCron: &fsmpb.DeleteCron{Name: name}}}
		}, fsm.TooManyCrons},
	} {
		if testing.Short() && c.limit > 10_000 {
			continue
		}
		m := fsm.New()
		for from := 0; from < c.limit; from += 500 {
			var muts []*fsmpb.Mutation
			for i := from; i < from+500; i++ {
				muts = append(muts, c.put(fmt.Sprint("n", i)))
			}
			for _, r := range apply(t, m, 1000, muts...) {
				if r.Code != fsm.OK {
					t.Fatal(name, r.Code)
				}
			}
		}
		r := apply(t, m, 1000, c.put("one more"), c.put("n77"), c.remove("n77"), c.put("one more"))
		if r[0].Code != c.refused || r[1].Code != fsm.OK || r[2].Code != fsm.OK || r[3].Code != fsm.OK {
			t.Errorf("%s: one more %v, one of them %v, removed %v, in the place of another %v", name, r[0].Code, r[1].Code, r[2].Code, r[3].Code)
		}
	}
}

func TestRulesOfLimitsAreBounded(t *testing.T) {
	b := fsm.NewBuilder(&fsm.Meta{Settings: fsm.DefaultSettings()})
	for i := range 10_000 {
		if err := b.AddLimit(&fsm.Limit{Name: fmt.Sprint("n", i), Rule: &fsmpb.LimitRule{Running: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	m, rule := b.Machine(), &fsmpb.LimitRule{}
	r := apply(t, m, 1000, setLimit("one more", rule), setLimit("n77", rule), setLimit("n77", nil), setLimit("one more", rule), setLimit("n77", nil))
	for i, want := range []fsm.Code{fsm.TooManyLimits, fsm.OK, fsm.OK, fsm.OK, fsm.NotFound} {
		if r[i].Code != want {
			t.Errorf("mutation %d: %v, want %v", i, r[i].Code, want)
		}
	}
}

// TestAgingOfManyJobs is refused, because it sorts those that wait again.
func TestAgingOfManyJobs(t *testing.T) {
	m, rapid, slow := fsm.New(), int64(1000), int64(60_000)
	set := func(aging int64) *fsmpb.Mutation {
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_SetQueue{SetQueue: &fsmpb.SetQueue{Name: "t", AgingMs: &aging}}}
	}
	remove := &fsmpb.Mutation{Op: &fsmpb.Mutation_SetQueue{SetQueue: &fsmpb.SetQueue{Name: "t", Remove: true}}}
	op := &fsmpb.Enqueue{}
	for i := range 100_000 {
		op.Jobs = append(op.Jobs, &fsmpb.NewJob{Id: fmt.Sprint(i), Type: "t"})
	}
	apply(t, m, 1000, &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: op}}, set(rapid))
	apply(t, m, 2000, enqueue("one more"))
	for i, r := range apply(t, m, 3000, set(slow), remove, set(rapid), settings("t"), changeOf(fsm.CancelJobs, "0"), set(slow)) {
		if want := []fsm.Code{fsm.TooManyWaiting, fsm.TooManyWaiting, fsm.OK, fsm.OK, fsm.OK, fsm.OK}[i]; r.Code != want {
			t.Errorf("mutation %d: %v, want %v", i, r.Code, want)
		}
	}
}

func settings(name string) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_SetQueue{SetQueue: &fsmpb.SetQueue{Name: name}}}
}

func schedule(name string) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_PutCron{PutCron: &fsmpb.PutCron{
		Name: name, Spec: "@hourly", Job: &fsmpb.NewJob{Type: "t"}, NextMs: 5000,
	}}}
}

// TestRunsAreBounded triggers a schedule more often than it keeps runs. The end of a job whose run it has dropped is noted nowhere.
func TestRunsAreBounded(t *testing.T) {
	m := fsm.New()
	apply(t, m, 1000, schedule("c"))
	for i := range 53 {
		apply(t, m, int64(2000+i), &fsmpb.Mutation{Op: &fsmpb.Mutation_TriggerCron{TriggerCron: &fsmpb.TriggerCron{Name: "c", JobId: fmt.Sprint("j", i)}}})
	}
	before := m.View().Cron("c").Runs
	apply(t, m, 3000, changeOf(fsm.CancelJobs, "j0", "j2", "j3", "j52"))
	runs := m.View().Cron("c").Runs
	for i, r := range runs {
		want := &fsm.CronRun{AtMs: int64(2003 + i), JobId: fmt.Sprint("j", 3+i)}
		if !proto.Equal(before[i], want) {
			t.Errorf("the run %d was %v, want %v", i, before[i], want)
		}
		if i == 0 || i == 49 {
			want.Status = uint32(fsm.Cancelled)
		}
		if !proto.Equal(r, want) {
			t.Errorf("the run %d is %v, want %v", i, r, want)
		}
	}
	if len(runs) != 50 {
		t.Errorf("the schedule has %d runs, want 50", len(runs))
	}
}

// TestScheduledHeaderHasRoom: each job of a schedule gets one header more than the schedule's job has.
func TestScheduledHeaderHasRoom(t *testing.T) {
	m := schedule("c")
	for i := range fsm.HeadersMax {
		m.GetPutCron().Job.Optional().Headers = append(m.GetPutCron().Job.Options.GetHeaders(), &fsmpb.Header{Name: fmt.Sprintf("h%02d", i)})
	}
	for _, c := range []struct {
		headers []*fsmpb.Header
		room    bool
	}{
		{m.GetPutCron().Job.Options.GetHeaders(), false},
		{m.GetPutCron().Job.Options.GetHeaders()[1:], true},
		{[]*fsmpb.Header{{Name: "h", Value: strings.Repeat("x", fsm.HeadersSizeMax-41)}}, true},
		{[]*fsmpb.Header{{Name: "h", Value: strings.Repeat("x", fsm.HeadersSizeMax-40)}}, false},
	} {
		m.GetPutCron().Job.Optional().Headers = c.headers
		data, err := fsm.EncodeEntry(&fsmpb.Batch{NowMs: 1, Mutations: []*fsmpb.Mutation{m}})
		if err == nil {
			_, err = fsm.DecodeEntry(data)
		}
		if (err == nil) != c.room {
			t.Errorf("%d headers: %v", len(c.headers), err)
		}
	}
}

// TestHistoryIsBounded fails a job more often than its history goes back, with
// errors longer than it keeps.
func TestHistoryIsBounded(t *testing.T) {
	m := fsm.New()
	often := enqueue("a")
	attempts := int32(historyMax + 5)
	often.GetEnqueue().Jobs[0].MaxAttempts = &attempts
	apply(t, m, 1000, often)
	reason := strings.Repeat("x", historyErrorMax-1) + "€ and more"
	for range attempts {
		j := apply(t, m, 1000, claim("w", 1))[0].Jobs[0]
		apply(t, m, 1000, fail("w", "a", j.Execution().Token, reason, false))
	}
	j := m.Job("a")
	h := j.Details().History
	if len(h) != historyMax || h[0].Number != 6 || h[historyMax-1].Number != attempts || j.Status != fsm.Dead {
		t.Fatalf("%d attempts from %d to %d, %v", len(h), h[0].Number, h[len(h)-1].Number, j.Status)
	}
	if h[0].Error != reason[:historyErrorMax-1] || j.Execution().LastError != reason {
		t.Errorf("an error of %d bytes is kept with %d, the last with %d", len(reason), len(h[0].Error), len(j.Execution().LastError))
	}
}

// With as many tokens as there may be, a token can be replaced at once, and one that cannot is
// left as it is.
func TestATokenIsReplacedAmongTooMany(t *testing.T) {
	m := fsm.New()
	for i := range fsm.TokensMax {
		apply(t, m, 1, createToken(fmt.Sprint("t", i), fsm.RoleReader))
	}
	got := apply(t, m, 2, replaceToken("a", "t1", 50), replaceToken("b", "t2", 0))
	if got[0].Code != fsm.TooManyTokens || got[1].Code != fsm.OK {
		t.Errorf("%v", got)
	}
	if old := m.Token("t1"); old == nil || old.ExpiresMs != 0 || m.Token("t2") != nil || m.Token("b") == nil {
		t.Errorf("t1 is %+v, t2 %+v, b %+v", old, m.Token("t2"), m.Token("b"))
	}
}

// A request on many jobs counts as several, so that the limit bounds the memory.
func TestRequestsCountByTheirItems(t *testing.T) {
	m := fsm.New()
	apply(t, m, 1, &fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterBroker{RegisterBroker: &fsmpb.RegisterBroker{
		Node: "n", Epoch: 1, Settings: &fsmpb.Settings{RequestMs: 1000, RequestCount: 100},
	}}})
	for batch := range 200 {
		ids := make([]string, 100)
		for i := range ids {
			ids[i] = fmt.Sprint(batch, "-", i)
		}
		mut := enqueue(ids...)
		mut.Request = &fsmpb.Request{Key: fmt.Sprint("key", batch)}
		apply(t, m, 2, mut)
	}
	kept, items := 0, 0
	m.View().Requests(func(r *fsm.RequestRecord) bool { kept++; items += len(r.Items); return true })
	if kept != 9 {
		t.Errorf("%d requests of %d items are kept, want 9", kept, items)
	}
}
