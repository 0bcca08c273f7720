package api

import (
	"encoding/json"
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
	"osqueue/fsm/tenants"
)

// A read that waits answers for the job that it was asked for. Another job that gets the id is no
// answer, even if it was made in the same millisecond.
func TestWaitForAJobWhoseIDPassesOn(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/v1/jobs/race?waitMs=60000", "/v1/jobs/race/logs?waitMs=60000"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			g := secured(t, core.SecurityOn, nil)
			g.s.Config.Timeouts.Wait = 2 * time.Second
			admin := g.give(&fsmpb.Token{Role: uint32(fsm.RoleAdmin)})
			reader := g.give(&fsmpb.Token{Role: uint32(fsm.RoleReader), Types: []string{"a.*"}})
			ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"id":"race","type":"a.x"}`, admin...))
			end := fsmpb.Complete{Worker: "w", Lease: &fsmpb.Lease{JobId: "race"}}
			ok[v1.ClaimedJob](t, g.do("POST", "/v1/jobs/claim", `{"workerId":"w"}`, admin...))
			waiting := g.later("GET", path, "", reader...)
			if strings.Contains(path, "logs") {
				eventually(t, "the read waits", func() bool { return len(g.s.Logs.Watched("w", 1)) == 1 })
			} else {
				eventually(t, "the read waits", g.awaiting(1))
			}
			g.apply(
				&fsmpb.Mutation{Op: &fsmpb.Mutation_Complete{Complete: &end}},
				&fsmpb.Mutation{Op: &fsmpb.Mutation_Change{Change: &fsmpb.Change{Kind: uint32(fsm.DeleteJobs), Ids: []string{"race"}}}},
				core.EnqueueOf([]*fsmpb.NewJob{{Id: "race", Type: "b.secret", Payload: []byte(`"B's"`)}}),
			)
			if a := <-waiting; a.status != http.StatusNotFound || strings.Contains(string(a.body), "B's") {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
}

// A change of a job by its id changes the job that was checked. A job out of the scope does not
// exist, before the mutation is applied and when it is.
func TestChangesOfAJobWhoseIDPassesOn(t *testing.T) {
	for _, request := range [][2]string{
		{"/v1/jobs/race/cancel"},
		{"/v1/jobs/race/force-complete", `{"result":1}`},
		{"/v1/jobs/cancel", `{"ids":["race"]}`},
		{"/v1/jobs/delete", `{"ids":["race"]}`},
	} {
		for _, passesOn := range []bool{true, false} {
			g := secured(t, core.SecurityOn, nil)
			admin := g.give(&fsmpb.Token{Role: uint32(fsm.RoleAdmin)})
			operator := g.give(&fsmpb.Token{Role: uint32(fsm.RoleOperator), Types: []string{"a.*"}})
			first := "a.x"
			if !passesOn {
				first = "b.secret"
			}
			ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"id":"race","type":"`+first+`"}`, admin...))
			if passesOn {
				g.node.overtake = func() {
					g.apply(
						&fsmpb.Mutation{Op: &fsmpb.Mutation_Change{Change: &fsmpb.Change{Kind: uint32(fsm.DeleteJobs), Ids: []string{"race"}}}},
						core.EnqueueOf([]*fsmpb.NewJob{{Id: "race", Type: "b.secret"}}),
					)
				}
			}
			a := g.do("POST", request[0], request[1], operator...)
			if !strings.Contains(string(a.body), "not_found") {
				t.Errorf("%v: %d %s", request, a.status, a.body)
			}
			if j := g.node.Job("race"); j == nil || j.Type != "b.secret" || j.Status != fsm.Unclaimed {
				t.Errorf("%v changed the job: %+v", request, j)
			}
		}
	}
}

// tenantRig is a rig with the tokens of two tenants that share the type s.x, each with an own group, and
// have a type of their own.
type tenantRig struct {
	*rig
	admin, a, b, workA, workB []string
}

func twoTenants(t *testing.T) *tenantRig {
	g := secured(t, core.SecurityOn, nil)
	token := func(role fsm.Role, tenant string) []string {
		return g.give(&fsmpb.Token{Role: uint32(role), Types: []string{tenant + ".*", "s.x"}, Tenant: tenant})
	}
	return &tenantRig{
		rig: g, admin: g.give(&fsmpb.Token{Role: uint32(fsm.RoleAdmin)}),
		a: token(fsm.RoleOperator, "a"), b: token(fsm.RoleOperator, "b"),
		workA: token(fsm.RoleWorker, "a"), workB: token(fsm.RoleWorker, "b"),
	}
}

// No job waits for one out of its scope: its dependents are bounded.
func TestDependentsOfTenants(t *testing.T) {
	g := twoTenants(t)
	ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"id":"target","type":"b.x"}`, g.b...))
	for path, body := range map[string]string{
		"/v1/jobs":       `{"type":"a.x","after":["nope","TARGET"]}`,
		"/v1/jobs/batch": `{"jobs":[{"type":"a.x"},{"type":"a.x","after":["TARGET"]}]}`,
		"/v1/batches":    `{"jobs":[{"type":"a.x"},{"type":"a.x","after":["TARGET"]}]}`,
	} {
		there := g.do("POST", path, strings.Replace(body, "TARGET", "target", 1), g.a...)
		refused(t, there, http.StatusConflict, v1.TagNoSuchJob)
		none := g.do("POST", path, strings.Replace(body, "TARGET", "absent", 1), g.a...)
		if strings.ReplaceAll(string(there.body), "target", "absent") != string(none.body) {
			t.Errorf("%s and %s tell a job that is there from none", there.body, none.body)
		}
	}
	ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"type":"b.x","after":["target"]}`, g.b...))
}

// A quota counts whatever a request makes the state keep: callbacks when their batch is made, jobs of
// schedules, and the texts of a job besides its payload.
func TestQuotasCountWhatIsKept(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 600)
	requests := map[string][3]string{
		"callbacks": {"POST", "/v1/batches", `{"callback":{"type":"a.x","payload":"` + large + `"}}`},
		"schedules": {"PUT", "/v1/crons/N", `{"spec":"@hourly","job":{"type":"a.x","payload":"` + large + `"}}`},
		"batches":   {"POST", "/v1/batches", `{"id":"` + large[:100] + `N"}`},
		"workers":   {"POST", "/v1/workers", `{"name":"N","types":["a.x"],"version":"` + large[:200] + `"}`},
		"tags":      {"POST", "/v1/jobs", `{"type":"a.x","tags":["` + large[:98] + `1","` + large[:98] + `2","` + large[:98] + `3","` + large[:98] + `4"]}`},
	}
	for name, r := range requests {
		for _, limit := range []string{"token", "cluster"} {
			g := secured(t, core.SecurityOn, nil)
			token := &fsmpb.Token{Role: uint32(fsm.RoleOperator), Types: []string{"a.*"}}
			if name == "workers" { // together they have a bound of their own
				token.Role, limit = uint32(fsm.RoleWorker), "token"
			}
			tag := v1.TagTooManyTokenBytes
			if limit == "token" {
				token.MaxBytes = 2000
			} else {
				tag = v1.TagTooManyBytes
				g.put(&fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterBroker{RegisterBroker: &fsmpb.RegisterBroker{
					Node: "n1", Epoch: 9, Cluster: "c", Lineage: "l", Settings: &fsmpb.Settings{MaxBytes: 3500},
				}}})
			}
			head := g.give(token)
			taken := 0
			for n := range 15 {
				a := g.do(r[0], strings.Replace(r[1], "N", fmt.Sprint("c", n), 1), strings.Replace(r[2], "N", fmt.Sprint("c", n), 1), head...)
				if a.status == http.StatusOK {
					taken++
				} else if !strings.Contains(string(a.body), tag) {
					t.Errorf("%s of a %s: %d %s", name, limit, a.status, a.body)
				}
			}
			if taken < 1 || taken > 10 {
				t.Errorf("%s: a %s took %d of 15", name, limit, taken)
			}
		}
	}
}

// All registrations of workers together have a bound in bytes.
func TestRegistrationsAreBounded(t *testing.T) {
	g := newRig(t)
	types := make([]string, 1000)
	for i := range types {
		types[i] = fmt.Sprintf("%d%s", i, strings.Repeat("x", 240))
	}
	body, _ := json.Marshal(types)
	for n := range 80 {
		a := g.do("POST", "/v1/workers", fmt.Sprintf(`{"name":"w%d","types":%s}`, n, body))
		if a.status != http.StatusOK {
			if n < 20 || !strings.Contains(string(a.body), v1.TagTooManyBytes) {
				t.Errorf("worker %d: %d %s", n, a.status, a.body)
			}
			return
		}
	}
	t.Error("80 registrations of 250 kB were taken")
}

// For which jobs a job may wait is decided where the wait begins: for the job that has the id then.
func TestDependentsAreCheckedWhereTheyWait(t *testing.T) {
	g := twoTenants(t)
	ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"id":"race","type":"a.x"}`, g.a...))
	g.node.overtake = func() {
		g.node.overtake = nil
		g.apply(
			&fsmpb.Mutation{Op: &fsmpb.Mutation_Change{Change: &fsmpb.Change{Kind: uint32(fsm.DeleteJobs), Ids: []string{"race"}}}},
			core.EnqueueOf([]*fsmpb.NewJob{{Id: "race", Type: "b.secret"}}),
		)
	}
	refused(t, g.do("POST", "/v1/jobs", `{"type":"a.x","after":["race"]}`, g.a...), http.StatusConflict, v1.TagNoSuchJob)
}

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
			Name: "digest", Spec: "@hourly", NextMs: startMs + 3_600_000, Job: &fsmpb.NewJob{Type: "digest", Options: &fsmpb.Options{Tags: []string{foreign}}},
		}}},
		&fsmpb.Mutation{Op: &fsmpb.Mutation_PutHook{PutHook: &fsmpb.PutHook{Hook: &fsmpb.Hook{
			Name: "w-1", Url: "https://" + foreign + ".example.com/", Kinds: 2, Secret: []byte("s"),
		}}}},
		core.EnqueueOf([]*fsmpb.NewJob{{Id: "hidden-" + foreign, Type: "mail", Options: &fsmpb.Options{Tags: []string{foreign}, Batch: "b-1", After: []string{exampleJob}}}}),
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
	add := func(kind string, own bool, v any) bool {
		if !own {
			out = append(out, fmt.Sprintf("%s %+v", kind, v))
		}
		return true
	}
	own := func(name string) bool { return strings.HasPrefix(name, tenants.Owned("a", "x")[:2]) }
	v := g.node.View()
	for _, status := range allStatuses {
		v.Jobs(status, 0, func(j *fsm.Job) bool {
			return add("job", strings.HasPrefix(j.Type, "a."), string(core.AppendJob(nil, j)))
		})
	}
	v.Workers("")(func(w *fsm.Worker) bool { return add("worker", own(w.Name), w) })
	v.Crons("")(func(c *fsm.Cron) bool { return add("schedule", own(c.Name), c) })
	v.Batches("")(func(b *fsm.JobBatch) bool { return add("batch", own(b.Id), b) })
	v.Queues(func(q *fsm.QueueSettings) bool { return add("type", false, q) })
	v.Tokens("")(func(k *fsm.Token) bool { return add("token", false, k.Id) })
	v.Hooks(func(h *outbox.Hook) bool { return add("hook", false, h.Url) })
	return strings.Join(out, "\n")
}

// Each operation of the document, with the objects of its examples, which belong to others, is sent by
// callers that are limited to the types or groups of another tenant. No answer has anything of the others,
// and nothing of theirs changes. A new route or a new kind of object is sent, too.
func TestNoOperationReachesTheObjectsOfOthers(t *testing.T) {
	t.Parallel()
	scopes := map[string]*fsmpb.Token{
		"types":  {Role: uint32(fsm.RoleAdmin), Tenant: "a", Types: []string{"a.*"}},
		"groups": {Role: uint32(fsm.RoleAdmin), Tenant: "a", Groups: []string{"ga*"}},
	}
	for _, s := range samples() {
		for name, scope := range scopes {
			t.Run(s.name+" "+name, func(t *testing.T) {
				t.Parallel()
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
