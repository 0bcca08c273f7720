package fsm_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"testing"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

func TestAllClaimsAreBounded(t *testing.T) {
	t.Parallel()
	m := fsm.New()
	job := &fsmpb.NewJob{Id: "j"}
	for i := range fsm.ClaimsMax + 3 {
		m.Apply(uint64(i), 1, &fsmpb.Batch{NowMs: 1, Mutations: []*fsmpb.Mutation{
			{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{Jobs: []*fsmpb.NewJob{job}}}},
			claimAs(fmt.Sprint("w", i), "r", 1),
			release(fmt.Sprint("w", i), "j", 0),
		}})
	}
	n := 0
	m.View().Claims(func(r *fsm.ClaimRecord) bool {
		if n++; n == 1 && r.Worker != "w3" {
			t.Errorf("the oldest claim is %v, want that of w3", r)
		}
		return true
	})
	if n != fsm.ClaimsMax {
		t.Errorf("%d claims are remembered, want %d", n, fsm.ClaimsMax)
	}
}

// A state from elsewhere may have a record of a claim without a request id,
// which must not answer other claims without one.
func TestNoRequestIsNeverRemembered(t *testing.T) {
	b := fsm.NewBuilder(&fsm.Meta{LastSeq: 1, LastToken: 5, Settings: fsm.DefaultSettings()})
	err := errors.Join(
		b.AddJob(&fsm.Job{Seq: 1, ID: "a", Status: fsm.Unclaimed}),
		b.AddClaim(&fsm.ClaimRecord{Worker: "w", FirstToken: 5, JobIds: []string{"a"}}))
	if err != nil {
		t.Fatal(err)
	}
	m := b.Machine()
	if m.Remembers("w", "") {
		t.Error("a claim without a request id is remembered")
	}
	if r := apply(t, m, 1, claim("w", 1))[0]; r.Code != fsm.OK || len(r.Jobs) != 1 {
		t.Errorf("%+v", r)
	}
}

// A cluster with lower terms that takes a lineage over continues from its LSN.
func TestTermBaseKeepsLSNsGrowing(t *testing.T) {
	old := fsm.LSN{Term: 40, Index: 900}
	b := fsm.NewBuilder(&fsm.Meta{Term: old.Term, Index: old.Index, TermBase: 39, Settings: fsm.DefaultSettings()})
	m := b.Machine()
	for range 2 {
		m.Apply(7, 2, &fsmpb.Batch{NowMs: 1})
		if got, want := m.LSN(), (fsm.LSN{Term: 41, Index: 7}); got != want || got.Compare(old) <= 0 {
			t.Errorf("LSN %v after %v, want %v", got, old, want)
		}
		m = copyOf(t, m)
	}
}

// A state from elsewhere may have heartbeats after its own clock. Deadlines must not move
// back because of them: a restarted machine would see them earlier than one that was not
// restarted.
func TestRestoredStateFromTheFuture(t *testing.T) {
	b := fsm.NewBuilder(&fsm.Meta{NowMs: 1000, LastSeq: 9, LastToken: 9, LeasesFromMs: 200_000, Settings: fsm.DefaultSettings()})
	for i, status := range []fsm.Status{
		fsm.InProgress, fsm.InProgress, fsm.Completed, fsm.Cancelled, fsm.Scheduled, fsm.Unclaimed,
	} {
		err := b.AddJob(&fsm.Job{
			Seq: uint64(i + 1), ID: string(rune('a' + i)), Status: status,
			Exec: &fsm.Execution{
				Worker: "w2", Heartbeat: 40_000, HeldMs: 500, FinishedAt: 50_000, Token: uint64(i),
			},
			Attempts: math.MaxInt32, RunAt: 10,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := b.AddWorker(&fsm.Worker{Name: "w", LastSeenMs: 300_000}); err != nil {
		t.Fatal(err)
	}
	if err := b.AddClaim(&fsm.ClaimRecord{Worker: "w", FirstToken: 1, JobIds: []string{"a"}, ClaimedAtMs: 70_000}); err != nil {
		t.Fatal(err)
	}
	m := b.Machine()
	if err := m.CheckIndexes(); err != nil {
		t.Fatal(err)
	}
	goesOn(t, m)
}

// A state from elsewhere may not know how an attempt ended.
func TestRestoredStateWithoutAnEnd(t *testing.T) {
	b := fsm.NewBuilder(&fsm.Meta{LastSeq: 1, LastToken: 5, Settings: fsm.DefaultSettings()})
	if err := b.AddJob(&fsm.Job{Seq: 1, ID: "a", Status: fsm.Unclaimed, Exec: &fsm.Execution{Token: 5}}); err != nil {
		t.Fatal(err)
	}
	r := apply(t, b.Machine(), 1, heartbeat("w", "a", 5), complete("w", "a", 5))
	if r[0].Codes[0] != fsm.NotRunning || r[1].Code != fsm.NotRunning {
		t.Fatalf("heartbeat: %v, complete: %v", r[0].Codes[0], r[1].Code)
	}
}

// A state that a person has edited may have a log where none was made.
func TestCompletionReplacesAnOlderLog(t *testing.T) {
	b := fsm.NewBuilder(&fsm.Meta{LastSeq: 1, Settings: fsm.DefaultSettings()})
	err := b.AddJob(&fsm.Job{Seq: 1, ID: "a", Status: fsm.Unclaimed, MaxAttempts: 1, Det: &fsm.Details{Log: "of old"}})
	if err != nil {
		t.Fatal(err)
	}
	r := apply(t, b.Machine(), 1, claim("w", 1), complete("w", "a", 0))
	if j := r[1].Jobs[0]; j.Status != fsm.Completed || j.Details().Log != "" {
		t.Fatalf("the job is %v with the log %q", j.Status, j.Details().Log)
	}
}

func TestBuilderRefusesContradictions(t *testing.T) {
	job := func(change func(*fsm.Job)) func(*fsm.Builder) error {
		return func(b *fsm.Builder) error {
			j := &fsm.Job{ID: "new", Seq: 2, Status: fsm.Unclaimed}
			change(j)
			return b.AddJob(j)
		}
	}
	claims := func(tokens ...uint64) func(*fsm.Builder) error {
		return func(b *fsm.Builder) (err error) {
			for _, token := range tokens {
				r := &fsm.ClaimRecord{Worker: "w"}
				if token > 0 {
					r.FirstToken, r.JobIds = token, []string{"a"}
				}
				err = errors.Join(err, b.AddClaim(r))
			}
			return err
		}
	}
	for name, add := range map[string]func(*fsm.Builder) error{
		"no id":                    job(func(j *fsm.Job) { j.ID = "" }),
		"an id twice":              job(func(j *fsm.Job) { j.ID = "old" }),
		"no status":                job(func(j *fsm.Job) { j.Status = 0 }),
		"a status of the future":   job(func(j *fsm.Job) { j.Status = fsm.Expired + 1 }),
		"no place":                 job(func(j *fsm.Job) { j.Seq = 0 }),
		"a place of the future":    job(func(j *fsm.Job) { j.Seq = 100 }),
		"a place twice":            job(func(j *fsm.Job) { j.Seq = 1 }),
		"a place twice, by status": job(func(j *fsm.Job) { j.Seq, j.Status = 1, fsm.Completed }),
		"a token of the future":    job(func(j *fsm.Job) { j.Exec = &fsm.Execution{Token: 100} }),
		"an end of the future":     job(func(j *fsm.Job) { j.AttemptEnd = fsm.EndSuspended + 1 }),
		"negative attempts":        job(func(j *fsm.Job) { j.Attempts = -1 }),
		"a worker twice":           func(b *fsm.Builder) error { return b.AddWorker(&fsm.Worker{Name: "old"}) },
		"a pause without a pause": func(b *fsm.Builder) error {
			return b.AddQueue(&fsm.QueueSettings{Name: "t", Pause: &fsmpb.Pause{SinceMs: 1}})
		},
		"a claim without leases":     claims(0),
		"a claim of the future":      claims(100),
		"claims in the wrong order":  claims(3, 2),
		"two claims with one answer": claims(3, 3),
	} {
		b := fsm.NewBuilder(&fsm.Meta{LastSeq: 99, LastToken: 99})
		err := errors.Join(
			b.AddJob(&fsm.Job{ID: "old", Seq: 1, Status: fsm.Unclaimed}),
			b.AddWorker(&fsm.Worker{Name: "old"}))
		if err != nil {
			t.Fatal(err)
		}
		if err := add(b); !errors.Is(err, fsm.ErrState) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestCountersHaveRoom(t *testing.T) {
	for _, meta := range []*fsm.Meta{
		{LastSeq: fsm.CounterMax + 1},
		{LastToken: fsm.CounterMax + 1},
		{TermBase: math.MaxUint64},
		{Term: math.MaxUint64},
	} {
		if err := fsm.CheckMeta(meta); !errors.Is(err, fsm.ErrState) {
			t.Errorf("%+v: error %v", meta, err)
		}
		v := fsm.NewBuilder(meta).Machine().View()
		var buf bytes.Buffer
		if err := v.Encode(&buf); err != nil {
			t.Fatal(err)
		}
		if _, err := fsm.Decode(&buf); !errors.Is(err, fsm.ErrState) {
			t.Errorf("%+v: error %v", meta, err)
		}
	}
	m := fsm.New()
	apply(t, m, 1, registerBroker("n", math.MaxUint64, fsm.DefaultSettings()), enqueue("a"), claim("w", 1))
	if token := m.Job("a").Execution().Token; token != fsm.EpochMax<<32+1 {
		t.Errorf("token %d", token)
	}
	copyOf(t, m)
}

// Jobs without any other option share the options of their account, also after a restore.
func TestAccountTakesNoMemoryPerJob(t *testing.T) {
	m := fsm.New()
	both := enqueue("a", "b")
	for _, n := range both.GetEnqueue().Jobs {
		n.Quota = &fsmpb.Quota{Account: "k", MaxJobs: 5}
	}
	apply(t, m, 1, both)
	for name, of := range map[string]*fsm.Machine{"applied": m, "restored": copyOf(t, m)} {
		if a, b := of.Job("a"), of.Job("b"); a.Opt == nil || a.Opt != b.Opt || a.Opt.Account != "k" {
			t.Errorf("%s: options %p and %p", name, a.Opt, b.Opt)
		}
	}
}
