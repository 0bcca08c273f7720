package archive

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

const otherLineage = "0b3f4adc-7d72-4e96-8dd7-ef04a4242c62"

// claimAny claims as many jobs as there are to be had, of any type.
func claimAny(m *fsm.Machine, now int64) []*fsm.Job {
	op := &fsmpb.Claim{Worker: "w9", Max: 1000}
	batch := &fsmpb.Batch{NowMs: now, Mutations: []*fsmpb.Mutation{{Op: &fsmpb.Mutation_Claim{Claim: op}}}}
	data, err := fsm.EncodeEntry(batch)
	must(err)
	batch, err = fsm.DecodeEntry(data)
	must(err)
	meta := m.Meta()
	return m.Apply(meta.LSN().Index+1, meta.LSN().Term-meta.TermBase, batch)[0].Jobs
}

// jobsOf returns all jobs of a state, by id.
func jobsOf(v *fsm.View) map[string]fsm.Job {
	all := make(map[string]fsm.Job)
	for s := fsm.Scheduled; s <= fsm.Blocked; s++ {
		v.Jobs(s, 0, func(j *fsm.Job) bool {
			all[j.ID] = *j
			return true
		})
	}
	return all
}

// furnish adds state that a recorder does not make: schedules, and a batch whose callback has a
// type without jobs.
func furnish(r *recorder) {
	put := func(name string, paused bool) *fsmpb.Mutation {
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_PutCron{PutCron: &fsmpb.PutCron{
			Name: name, Spec: "@every 1m", Paused: paused, NextMs: r.now + 60_000, Job: &fsmpb.NewJob{Type: "by-" + name},
		}}}
	}
	batch := &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{
		Jobs:     []*fsmpb.NewJob{{Id: "of-batch", Type: "b", Options: &fsmpb.Options{Batch: "batch"}}},
		NewBatch: &fsmpb.NewBatch{Id: "batch", Callback: &fsmpb.NewJob{Id: "called", Type: "callback"}},
	}}}
	off := &fsmpb.Mutation{Op: &fsmpb.Mutation_SetQueue{SetQueue: &fsmpb.SetQueue{Name: "off", Paused: new(true)}}}
	r.apply(put("night", false), put("asleep", true), batch, off)
}

// A state that begins paused hands out no job, has lost none, and comes after all earlier
// entries.
func TestBeginPaused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRecorder(1_700_000_000_000)
		r.live(t, rapid.IntRange(0, 25).Draw(t, "entries"))
		furnish(r)
		before, was := jobsOf(r.m.View()), r.m.Meta()
		after := fsm.LSN{Term: was.LSN().Term + uint64(rapid.IntRange(0, 3).Draw(t, "terms")), Index: was.LSN().Index + 9}
		epoch := uint64(rapid.IntRange(0, 50).Draw(t, "epoch"))
		p, err := Begin(r.m, Origin{Lineage: otherLineage, After: after, Epoch: epoch, Pause: true})
		if err != nil {
			t.Fatal(err)
		}
		m := r.m.Meta()
		if m.LSN().Compare(after) <= 0 || m.Epoch <= max(epoch, was.Epoch) || m.LastToken < was.LastToken {
			t.Fatalf("%+v does not come after %s, epoch %d, %+v", m, after, epoch, was)
		}
		if m.Lineage != otherLineage || m.Cluster != "" || m.BrokerAddress != "" || m.NowMs != was.NowMs || m.LastSeq != was.LastSeq {
			t.Fatalf("%+v after %+v", m, was)
		}
		sameJobs(t, before, jobsOf(r.m.View()))
		if jobs := claimAny(r.m, was.NowMs); len(jobs) != 0 {
			t.Fatalf("%s was claimed", jobs[0].ID)
		}
		if !slices.Equal(p.Crons, []string{"night"}) || slices.Contains(p.Types, "off") || !slices.Contains(p.Types, "callback") {
			t.Fatalf("paused: %+v", p)
		}
		r.m.DueCrons(was.NowMs+1e9, func(c *fsm.Cron) bool {
			t.Fatalf("%s would fire", c.Name)
			return false
		})
	})
}

func sameJobs(t *rapid.T, before, after map[string]fsm.Job) {
	t.Helper()
	if len(before) != len(after) {
		t.Fatalf("%d jobs instead of %d", len(after), len(before))
	}
	for id, j := range before {
		if k := after[id]; k.Status != j.Status || k.Seq != j.Seq || k.Attempts != j.Attempts || k.Execution().Token != j.Execution().Token {
			t.Fatalf("%s was %+v and is %+v", id, j, k)
		}
	}
}

// Resuming the names that Begin returned lets the jobs continue, and the new tokens are greater
// than all earlier ones.
func TestBeginAndResume(t *testing.T) {
	r := newRecorder(1_700_000_000_000)
	r.apply(r.register(3), enqueue(&fsmpb.NewJob{Id: "one", Type: "a"}, &fsmpb.NewJob{Id: "two", Type: "b"}))
	past := rebuilt(r.m)
	r.apply(r.register(5))
	given := claimAny(r.m, r.now)
	if len(given) != 2 {
		t.Fatalf("%d jobs", len(given))
	}
	p, err := Begin(past, Origin{Lineage: otherLineage, After: r.lsn(), Epoch: r.m.Meta().Epoch, Pause: true})
	if err != nil || !slices.Equal(p.Types, []string{"a", "b"}) || p.Crons != nil {
		t.Fatalf("%+v %v", p, err)
	}
	batch := &fsmpb.Batch{Version: fsm.MaxLevel, NowMs: r.now}
	for _, name := range p.Types {
		op := &fsmpb.SetQueue{Name: name, Paused: new(false)}
		batch.Mutations = append(batch.Mutations, &fsmpb.Mutation{Op: &fsmpb.Mutation_SetQueue{SetQueue: op}})
	}
	meta := past.Meta()
	past.Apply(meta.LSN().Index+1, meta.LSN().Term-meta.TermBase, batch)
	again := claimAny(past, r.now)
	if len(again) != 2 || again[0].Execution().Token <= given[1].Execution().Token {
		t.Fatalf("%+v after %+v", again, given)
	}
}

func TestBeginUnpaused(t *testing.T) {
	r := newRecorder(1_700_000_000_000)
	r.apply(enqueue(&fsmpb.NewJob{Id: "one", Type: "a"}))
	furnish(r)
	p, err := Begin(r.m, Origin{Lineage: otherLineage})
	if err != nil || p.Types != nil || p.Crons != nil {
		t.Fatalf("%+v %v", p, err)
	}
	if jobs := claimAny(r.m, r.now); len(jobs) != 2 {
		t.Errorf("%d jobs", len(jobs))
	}
	if r.m.View().Cron("night").Paused {
		t.Error("the schedule is paused")
	}
}

func TestBeginWithMoreTypesThanCanBePaused(t *testing.T) {
	r := newRecorder(1_700_000_000_000)
	for i := range 10_001 {
		r.m.Apply(uint64(i+1), 1, &fsmpb.Batch{Version: fsm.MaxLevel, NowMs: r.now, Mutations: []*fsmpb.Mutation{
			enqueue(&fsmpb.NewJob{Id: fmt.Sprint(i), Type: fmt.Sprint("type", i)}),
		}})
	}
	_, err := Begin(r.m, Origin{Lineage: otherLineage, Pause: true})
	if !errors.Is(err, &fsm.Error{Code: fsm.TooManyQueues}) {
		t.Errorf("%v", err)
	}
}
