package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/outbox"
)

// foreign is in what belongs to others, and in no request of a sample.
const foreign = "FOREIGN"

// newForeignRig is newExampleRig, with tokens asked for, and the text foreign in each object.
func newForeignRig(t *testing.T) *rig {
	g := newRig(t, func(c *core.Config) { c.Timeouts.Wait = 10 * time.Millisecond })
	g.s.Access.Mode = core.SecurityOn
	g.addExamples(t, g.give(&fsmpb.Token{Role: uint32(fsm.RoleAdmin)})...)
	reason, paused := foreign, true
	g.apply(
		&fsmpb.Mutation{Op: &fsmpb.Mutation_SetQueue{SetQueue: &fsmpb.SetQueue{
			Name: "mail", Paused: &paused, Pause: &fsmpb.Pause{Reason: reason},
		}}},
		&fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterWorker{RegisterWorker: &fsmpb.RegisterWorker{Name: "w-1", Types: []string{"mail"}, Version: foreign}}},
		&fsmpb.Mutation{Op: &fsmpb.Mutation_PutCron{PutCron: &fsmpb.PutCron{
			Name: "digest", Spec: "@hourly", NextMs: startMs + 3_600_000, Job: &fsmpb.NewJob{Type: "digest", Tags: []string{foreign}},
		}}},
		&fsmpb.Mutation{Op: &fsmpb.Mutation_PutHook{PutHook: &fsmpb.PutHook{Hook: &fsmpb.Hook{
			Name: "w-1", Url: "https://" + foreign + ".example.com/", Kinds: 2, Secret: []byte("s"),
		}}}},
		core.EnqueueOf([]*fsmpb.NewJob{{Id: "hidden-" + foreign, Type: "mail", Tags: []string{foreign}, Batch: "b-1", After: []string{exampleJob}}}),
	)
	for _, id := range []string{exampleJob, "a-1", "a-2"} {
		g.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_Heartbeat{Heartbeat: &fsmpb.Heartbeat{
			Worker: "w-1", Leases: []*fsmpb.Lease{{JobId: id, Progress: &fsmpb.Progress{Percent: 1, Message: foreign}}},
		}}})
	}
	return g
}

// ofOthers prints the part of a state that does not belong to tenant a or to the types a.*.
func ofOthers(g *rig) string {
	var out []string
	add := func(kind string, v any) { out = append(out, fmt.Sprintf("%s %+v", kind, v)) }
	v := g.node.View()
	for _, status := range allStatuses {
		v.Jobs(status, 0, func(j *fsm.Job) bool {
			if !strings.HasPrefix(j.Type, "a.") {
				add("job", string(core.AppendJob(nil, j)))
			}
			return true
		})
	}
	own := func(name string) bool { return strings.HasPrefix(name, fsm.Owned("a", "x")[:2]) }
	v.Workers("", func(w *fsm.Worker) bool {
		if !own(w.Name) {
			add("worker", *w)
		}
		return true
	})
	v.Crons("", func(c *fsm.Cron) bool {
		if !own(c.Name) {
			add("schedule", *c)
		}
		return true
	})
	v.Batches("", func(b *fsm.JobBatch) bool {
		if !own(b.ID) {
			add("batch", *b)
		}
		return true
	})
	v.Queues(func(q *fsm.QueueSettings) bool {
		add("type", *q)
		return true
	})
	v.Tokens("", func(k *fsm.Token) bool {
		add("token", k.ID)
		return true
	})
	v.Hooks(func(h *outbox.Hook) bool {
		add("hook", h.URL)
		return true
	})
	return strings.Join(out, "\n")
}

// Each operation of the document, with the objects of its examples, which belong to others, is sent by
// callers that are limited to the types or groups of another tenant. No answer has anything of the others,
// and nothing of theirs changes. A new route or a new kind of object is sent, too.
func TestNoOperationReachesTheObjectsOfOthers(t *testing.T) {
	scopes := map[string]*fsmpb.Token{
		"types":  {Role: uint32(fsm.RoleAdmin), Tenant: "a", Types: []string{"a.*"}},
		"groups": {Role: uint32(fsm.RoleAdmin), Tenant: "a", Groups: []string{"ga*"}},
	}
	for _, s := range samples() {
		for name, scope := range scopes {
			t.Run(s.name+" "+name, func(t *testing.T) {
				g := newForeignRig(t)
				head := g.give(scope)
				before := ofOthers(g)
				if !strings.Contains(before, foreign) {
					t.Fatal("nothing of others is there")
				}
				a := s.try(g, head...)
				if after := ofOthers(g); after != before {
					t.Errorf("answered %d, and changed\n%s\nto\n%s", a.status, before, after)
				}
				if a.status >= http.StatusMultipleChoices {
					return
				}
				if strings.Contains(string(a.body), foreign) {
					t.Errorf("answered %d %s", a.status, a.body)
				}
				if namesJob := strings.HasPrefix(s.template, v1.PathJobs+"/{"); namesJob || strings.Contains(s.template, "{type}") {
					t.Errorf("answered %d %s for the object of others", a.status, a.body)
				}
			})
		}
	}
}
