package api

import (
	"cmp"
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

// What concerns all jobs of a type is refused to a token that is limited to groups: its jobs are only
// some of them.
func TestWholeTypesAndTokensOfGroups(t *testing.T) {
	g := secured(t, core.SecurityOn, nil)
	admin := g.give(&fsmpb.Token{Role: uint32(fsm.RoleAdmin)})
	ok[map[string]any](t, g.do("PATCH", "/v1/queues/s", `{"maxRunning":7}`, admin...))
	for _, role := range []fsm.Role{fsm.RoleReader, fsm.RoleOperator, fsm.RoleAdmin} {
		for _, scope := range []*fsmpb.Token{{Groups: []string{"ga*"}}, {Types: []string{"*"}, Groups: []string{"*"}}} {
			scope.Role = uint32(role)
			head := g.give(scope)
			for _, request := range [][3]string{
				{"GET", "/v1/queues/s"},
				{"GET", "/v1/queues"},
				{"GET", "/v1/stats/history?type=s"},
				{"GET", "/v1/stats/jobs?type=s"},
				{"PATCH", "/v1/queues/s", `{"paused":true}`},
				{"PATCH", "/v1/queues/s", `{"retainMs":1}`},
				{"POST", "/v1/queues/s/pause", `{}`},
				{"POST", "/v1/queues/s/resume", `{}`},
				{"DELETE", "/v1/queues/s"},
			} {
				refused(t, g.do(request[0], request[1], request[2], head...), http.StatusForbidden, v1.TagForbidden)
			}
		}
	}
	if q := ok[map[string]any](t, g.do("GET", "/v1/queues/s", "", admin...)); q["paused"] == true {
		t.Errorf("the type was changed: %v", q)
	}
}

// A read that waits answers for the job that it was asked for. Another job that gets the id is no
// answer, even if it was made in the same millisecond.
func TestWaitForAJobWhoseIDPassesOn(t *testing.T) {
	for _, path := range []string{"/v1/jobs/race?waitMs=60000", "/v1/jobs/race/logs?waitMs=60000"} {
		t.Run(path, func(t *testing.T) {
			g := secured(t, core.SecurityOn, nil)
			g.s.Config.Timeouts.Wait = 2 * time.Second
			admin := g.give(&fsmpb.Token{Role: uint32(fsm.RoleAdmin)})
			reader := g.give(&fsmpb.Token{Role: uint32(fsm.RoleReader), Types: []string{"a.*"}})
			ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"id":"race","type":"a.x"}`, admin...))
			end := fsmpb.Complete{Worker: "w", Lease: &fsmpb.Lease{JobId: "race"}}
			ok[v1.ClaimedJob](t, g.do("POST", "/v1/jobs/claim", `{"workerId":"w"}`, admin...))
			waiting := make(chan answer, 1)
			go func() { waiting <- g.do("GET", path, "", reader...) }()
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

// apply applies mutations in one entry.
func (g *rig) apply(ms ...*fsmpb.Mutation) {
	if _, _, err := g.node.apply(ms...); err != nil {
		panic(err)
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

// A batch belongs to the tenant that made it: others neither add to it, nor see it, nor take its name.
func TestBatchesOfTenants(t *testing.T) {
	g := twoTenants(t)
	made := ok[v1.BatchCreated](t, g.do("POST", "/v1/batches", `{"id":"nightly","jobs":[{"id":"b1","type":"b.x"}],"callback":{"type":"b.x"}}`, g.b...))
	if made.BatchID != "nightly" || made.CallbackID == "" {
		t.Errorf("made %+v", made)
	}
	refused(t, g.do("POST", "/v1/jobs", `{"type":"a.x","batchId":"nightly"}`, g.a...), http.StatusConflict, v1.TagNoSuchBatch)
	refused(t, g.do("GET", "/v1/batches/nightly", "", g.a...), http.StatusNotFound, v1.TagNotFound)
	ok[v1.BatchCreated](t, g.do("POST", "/v1/batches", `{"id":"nightly","jobs":[{"type":"a.x"}]}`, g.a...))
	producer := g.give(&fsmpb.Token{Role: uint32(fsm.RoleProducer), Types: []string{"b.*"}, Tenant: "b"})
	ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"id":"b2","type":"b.x","batchId":"nightly"}`, producer...))
	if b := ok[v1.BatchInfo](t, g.do("GET", "/v1/batches/nightly", "", producer...)); b.ID != "nightly" || b.Total != 2 {
		t.Errorf("b sees %+v", b)
	}
	if b := ok[v1.BatchInfo](t, g.do("GET", "/v1/batches/b%2Fnightly", "", g.admin...)); b.ID != "b/nightly" || b.Total != 2 {
		t.Errorf("the admin sees %+v", b)
	}
	if j := ok[v1.Job](t, g.do("GET", "/v1/jobs/b2", "", g.b...)); j.BatchID != "nightly" {
		t.Errorf("b sees %+v", j)
	}
	if l := ok[v1.JobList](t, g.do("GET", "/v1/jobs?type=b.x&batch=nightly", "", g.b...)); len(l.Jobs) != 2 || l.Jobs[0].BatchID != "nightly" {
		t.Errorf("b lists %+v", l.Jobs)
	}
}

// A unique key that a tenant holds is free for others, also within one type.
func TestUniqueKeysOfTenants(t *testing.T) {
	g := twoTenants(t)
	for _, head := range [][]string{g.a, g.b, g.admin} {
		const body = `{"type":"s.x","uniqueKey":"order-7"}`
		first := ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", body, head...))
		again := ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", body, head...))
		if first.Duplicate || !again.Duplicate || again.JobID != first.JobID {
			t.Errorf("got %+v, then %+v", first, again)
		}
		if j := ok[v1.Job](t, g.do("GET", "/v1/jobs/"+first.JobID, "", head...)); j.UniqueKey != "order-7" {
			t.Errorf("its key is %q", j.UniqueKey)
		}
	}
}

// The idempotency key of a tenant is another one than that of another tenant.
func TestRequestKeysOfTenants(t *testing.T) {
	g := twoTenants(t)
	for _, head := range [][]string{g.a, g.b, g.admin} {
		keyed := append([]string{v1.HeaderIdempotencyKey, "order-123"}, head...)
		first := ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"type":"s.x","payload":1}`, keyed...))
		again := ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"type":"s.x","payload":1}`, keyed...))
		if first.JobID != again.JobID {
			t.Errorf("%s, repeated %s", first.JobID, again.JobID)
		}
		refused(t, g.do("POST", "/v1/jobs", `{"type":"s.x","payload":2}`, keyed...), http.StatusConflict, v1.TagRequestConflict)
	}
}

// A worker's name belongs to its tenant: no other tenant changes its registration or is heard for it.
func TestWorkersOfTenants(t *testing.T) {
	g := twoTenants(t)
	const name = `"wkB"`
	ok[map[string]any](t, g.do("POST", "/v1/workers", `{"name":`+name+`,"types":["b.x"],"version":"1"}`, g.workB...))
	ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"id":"j","type":"b.x"}`, g.b...))
	job := ok[v1.ClaimedJob](t, g.do("POST", "/v1/jobs/claim", `{"workerId":`+name+`,"types":["b.x"]}`, g.workB...))
	refused(t, g.do("POST", "/v1/workers", `{"name":"x","types":["b.x"]}`, g.workA...), http.StatusForbidden, v1.TagForbidden)
	refused(t, g.do("POST", "/v1/workers", `{"name":"x"}`, g.workA...), http.StatusForbidden, v1.TagForbidden)
	seen := g.node.View().Worker(tenants.Owned("b", "wkB")).LastSeen
	g.node.tick(time.Second)
	ok[map[string]any](t, g.do("POST", "/v1/workers", `{"name":`+name+`,"types":["a.x"],"version":"evil"}`, g.workA...))
	ok[map[string]any](t, g.do("POST", "/v1/jobs/claim", `{"workerId":`+name+`,"types":["a.x"]}`, g.workA...))
	w := ok[v1.Worker](t, g.do("GET", "/v1/workers/b%2FwkB", "", g.admin...))
	if w.Version != "1" || w.LastSeen != seen || len(w.JobIDs) != 1 {
		t.Errorf("the worker of b: %+v", w)
	}
	if w := ok[v1.Worker](t, g.do("GET", "/v1/workers/wkB", "", g.a...)); w.Name != "wkB" || w.Version != "evil" || len(w.JobIDs) != 0 {
		t.Errorf("the worker of a: %+v", w)
	}
	if j := ok[v1.Job](t, g.do("GET", "/v1/jobs/j", "", g.b...)); j.WorkerID == nil || *j.WorkerID != "wkB" {
		t.Errorf("b sees %+v", j)
	}
	done := ok[v1.Reported](t, g.do("POST", "/v1/jobs/j/complete", fmt.Sprintf(`{"workerId":"wkB","token":%d}`, job.Token), g.workB...))
	if done.Status != v1.StatusCompleted {
		t.Errorf("completed: %+v", done)
	}
}

// A schedule belongs to its tenant, and its jobs have the tenant's unique keys.
func TestSchedulesOfTenants(t *testing.T) {
	g := twoTenants(t)
	put := func(kind string) string { return `{"spec":"@hourly","job":{"type":"` + kind + `","uniqueKey":"k"}}` }
	ok[map[string]any](t, g.do("PUT", "/v1/crons/nightly", put("b.x"), g.b...))
	for _, request := range [][2]string{
		{"GET", "/v1/crons/nightly"}, {"DELETE", "/v1/crons/nightly"}, {"POST", "/v1/crons/nightly/pause"}, {"POST", "/v1/crons/nightly/resume"}, {"POST", "/v1/crons/nightly/trigger"},
	} {
		refused(t, g.do(request[0], request[1], "", g.a...), http.StatusNotFound, v1.TagNotFound)
	}
	ok[map[string]any](t, g.do("PUT", "/v1/crons/nightly", put("a.x"), g.a...))
	if c := ok[v1.Cron](t, g.do("GET", "/v1/crons/nightly", "", g.b...)); c.Name != "nightly" || c.Job.Type != "b.x" || c.Job.UniqueKey != "k" {
		t.Errorf("b sees %+v", c)
	}
	made := ok[v1.Enqueued](t, g.do("POST", "/v1/crons/nightly/trigger", "", g.b...))
	if j := ok[v1.Job](t, g.do("GET", "/v1/jobs/"+made.JobID, "", g.b...)); j.Cron != "nightly" || j.UniqueKey != "k" {
		t.Errorf("its job is %+v", j)
	}
	if c := ok[v1.Cron](t, g.do("GET", "/v1/crons/b%2Fnightly", "", g.admin...)); c.Name != "b/nightly" || c.Fired != 1 {
		t.Errorf("the admin sees %+v", c)
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

// A token without a tenant is one by itself. The token that replaces it sees what it made.
func TestRotationKeepsTheTenant(t *testing.T) {
	g := secured(t, core.SecurityOn, nil)
	admin := g.give(&fsmpb.Token{Role: uint32(fsm.RoleAdmin)})
	for _, tenant := range []string{"", "team"} {
		made := ok[v1.TokenCreated](t, g.do("POST", v1.PathTokens, `{"role":"producer","types":["t"],"tenant":"`+tenant+`"}`, admin...))
		ok[v1.BatchCreated](t, g.do("POST", "/v1/batches", `{"id":"b"}`, "Authorization", "Bearer "+made.Token))
		next := ok[v1.TokenCreated](t, g.do("POST", v1.PathTokens+"/"+made.ID+"/rotate", `{}`, admin...))
		ok[v1.BatchInfo](t, g.do("GET", "/v1/batches/b", "", "Authorization", "Bearer "+next.Token))
		self := ok[v1.Self](t, g.do("GET", v1.PathSelf, "", "Authorization", "Bearer "+next.Token))
		if want := cmp.Or(tenant, made.ID); self.Tenant != want {
			t.Errorf("the tenant is %q; want %q", self.Tenant, want)
		}
	}
	for _, body := range []string{`{"role":"producer","tenant":"x"}`, `{"role":"producer","types":["t"],"tenant":"a/b"}`} {
		refused(t, g.do("POST", v1.PathTokens, body, admin...), http.StatusBadRequest, v1.TagBadRequest)
	}
}

// A quota counts whatever a request makes the state keep: callbacks when their batch is made, jobs of
// schedules, and the texts of a job besides its payload.
func TestQuotasCountWhatIsKept(t *testing.T) {
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

// A caller without limits has its own objects, also under names that look like those of a tenant. It
// names the objects of a tenant as lists show them, if it has none of that name.
func TestNamesThatLookLikeATenants(t *testing.T) {
	g := twoTenants(t)
	for name, heads := range map[string][2][]string{"n": {g.a, g.workA}, "a/n": {g.admin, g.admin}} {
		head, work := heads[0], heads[1]
		keyed := append([]string{v1.HeaderIdempotencyKey, name}, head...)
		if out := ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"type":"s.x","uniqueKey":"`+name+`"}`, keyed...)); out.Duplicate {
			t.Errorf("%q: the unique key is another's", name)
		}
		ok[v1.BatchCreated](t, g.do("POST", "/v1/batches", `{"id":"`+name+`","jobs":[{"type":"s.x"}]}`, head...))
		ok[map[string]any](t, g.do("POST", "/v1/workers", `{"name":"`+name+`","types":["s.x"],"version":"`+name+`"}`, work...))
		claim := `{"workerId":"` + name + `","types":["s.x"],"requestId":"1"}`
		ok[v1.ClaimedJob](t, g.do("POST", "/v1/jobs/claim", claim, work...))
	}
	admin := ok[v1.Worker](t, g.do("GET", "/v1/workers/a%2Fn", "", g.admin...))
	if tenant := ok[v1.Worker](t, g.do("GET", "/v1/workers/n", "", g.a...)); admin.Version != "a/n" || tenant.Version != "n" || admin.Running != 1 || tenant.Running != 1 {
		t.Errorf("the admin's worker is %+v, the tenant's %+v", admin, tenant)
	}
	if b := ok[v1.BatchInfo](t, g.do("GET", "/v1/batches/n", "", g.a...)); b.Total != 1 {
		t.Errorf("the tenant's batch: %+v", b)
	}
	refused(t, g.do("POST", "/v1/jobs/claim", `{"workerId":"a\u0000n"}`, g.admin...), http.StatusBadRequest, v1.TagBadRequest)
	refused(t, g.do("GET", "/v1/workers/a%00n", "", g.admin...), http.StatusBadRequest, v1.TagBadRequest)
}

// A caller without limits manages the objects of tenants under the names that lists show.
func TestTheAdminManagesTheObjectsOfTenants(t *testing.T) {
	g := twoTenants(t)
	ok[map[string]any](t, g.do("PUT", "/v1/crons/c", `{"spec":"@hourly","job":{"type":"b.x"}}`, g.b...))
	ok[map[string]any](t, g.do("POST", "/v1/workers", `{"name":"w","types":["b.x"]}`, g.workB...))
	ok[v1.BatchCreated](t, g.do("POST", "/v1/batches", `{"id":"n","jobs":[{"type":"b.x"}]}`, g.b...))
	if l := ok[v1.CronList](t, g.do("GET", "/v1/crons", "", g.admin...)); len(l.Crons) == 0 || l.Crons[0].Name != "b/c" {
		t.Errorf("schedules: %+v", l)
	}
	if l := ok[v1.WorkerList](t, g.do("GET", "/v1/workers", "", g.admin...)); len(l.Workers) == 0 || l.Workers[0].Name != "b/w" {
		t.Errorf("workers: %+v", l)
	}
	made := ok[v1.Enqueued](t, g.do("POST", "/v1/crons/b%2Fc/trigger", "", g.admin...))
	if j := ok[v1.Job](t, g.do("GET", "/v1/jobs/"+made.JobID, "", g.admin...)); j.Cron != "b/c" {
		t.Errorf("the admin sees the job %+v", j)
	}
	if l := ok[v1.JobList](t, g.do("GET", "/v1/jobs?batch=b%2Fn", "", g.admin...)); len(l.Jobs) != 1 || l.Jobs[0].BatchID != "b/n" {
		t.Errorf("the admin lists %+v", l.Jobs)
	}
	if out := ok[v1.Changed](t, g.do("POST", "/v1/jobs/cancel", `{"filter":{"batchId":"b/n"}}`, g.admin...)); out.Count != 1 {
		t.Errorf("cancelled %+v", out)
	}
	ok[map[string]any](t, g.do("POST", "/v1/workers/b%2Fw/quiet", "", g.admin...))
	ok[map[string]any](t, g.do("DELETE", "/v1/workers/b%2Fw", "", g.admin...))
	ok[map[string]any](t, g.do("DELETE", "/v1/crons/b%2Fc", "", g.admin...))
	refused(t, g.do("GET", "/v1/crons/c", "", g.b...), http.StatusNotFound, v1.TagNotFound)
}

// A claim that waits is one of the tenant's worker, as one that is answered at once.
func TestAClaimThatWaitsHasItsTenant(t *testing.T) {
	g := twoTenants(t)
	g.node.handOver = true
	claimed := make(chan answer, 1)
	go func() {
		claimed <- g.do("POST", "/v1/jobs/claim", `{"workerId":"w","types":["b.x"],"waitMs":20000}`, g.workB...)
	}()
	eventually(t, "the claim waits", func() bool { return g.node.asleep() == 1 })
	ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"id":"j","type":"b.x"}`, g.b...))
	job := ok[v1.ClaimedJob](t, <-claimed)
	if worker := g.node.Job("j").Execution().Worker; worker != tenants.Owned("b", "w") {
		t.Errorf("the job runs on %q", worker)
	}
	ok[v1.Reported](t, g.do("POST", "/v1/jobs/j/complete", fmt.Sprintf(`{"workerId":"w","token":%d}`, job.Token), g.workB...))
}

// An open batch without jobs counts as a job: a token with a quota of jobs alone cannot make any number.
func TestEmptyBatchesCountAsJobs(t *testing.T) {
	g := secured(t, core.SecurityOn, nil)
	head := g.give(&fsmpb.Token{Role: uint32(fsm.RoleProducer), Types: []string{"a.*"}, MaxJobs: 2})
	ok[v1.BatchCreated](t, g.do("POST", "/v1/batches", `{"jobs":[{"type":"a.x"}]}`, head...))
	ok[v1.BatchCreated](t, g.do("POST", "/v1/batches", `{}`, head...))
	refused(t, g.do("POST", "/v1/batches", `{}`, head...), http.StatusTooManyRequests, v1.TagTooManyTokenJobs)
}

// A tenant that sends many idempotency keys pushes out its own.
func TestRequestKeysAreBoundedByTenant(t *testing.T) {
	g := twoTenants(t)
	settings := fsm.DefaultSettings()
	settings.RequestCount = 10
	g.useSettings(settings)
	send := func(key, payload string, head []string) answer {
		return g.do("POST", "/v1/jobs", `{"type":"s.x","payload":`+payload+`}`, append([]string{v1.HeaderIdempotencyKey, key}, head...)...)
	}
	first := ok[v1.Enqueued](t, send("mine", "1", g.a))
	for n := range 30 {
		ok[v1.Enqueued](t, send(fmt.Sprint("key-", n), "2", g.b))
	}
	if again := ok[v1.Enqueued](t, send("mine", "1", g.a)); again.JobID != first.JobID {
		t.Errorf("the answer to a was forgotten: %s, then %s", first.JobID, again.JobID)
	}
}

// For which jobs a job may wait is decided where the wait begins: for the job that has the id then, and
// by its type and group after retention has removed it.
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

	ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"id":"ended","type":"b.x"}`, g.b...))
	job := ok[v1.ClaimedJob](t, g.do("POST", "/v1/jobs/claim", `{"workerId":"w","types":["b.x"]}`, g.workB...))
	ok[v1.Reported](t, g.do("POST", "/v1/jobs/ended/complete", fmt.Sprintf(`{"workerId":"w","token":%d}`, job.Token), g.workB...))
	ok[map[string]any](t, g.do("PATCH", "/v1/queues/b.x", `{"retainMs":1}`, g.b...))
	g.node.tick(time.Second)
	g.apply(core.EnqueueOf([]*fsmpb.NewJob{{Id: "later", Type: "b.x"}}))
	refused(t, g.do("GET", "/v1/jobs/ended", "", g.b...), http.StatusNotFound, v1.TagNotFound)
	ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"type":"b.x","after":["ended"]}`, g.b...))
	refused(t, g.do("POST", "/v1/jobs", `{"type":"a.x","after":["ended"]}`, g.a...), http.StatusConflict, v1.TagNoSuchJob)
}

// A report without a fencing token on a job of another tenant is no success.
func TestReportsOnJobsOfOthers(t *testing.T) {
	g := twoTenants(t)
	ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"id":"j","type":"b.x"}`, g.b...))
	ok[v1.ClaimedJob](t, g.do("POST", "/v1/jobs/claim", `{"workerId":"w","types":["b.x"]}`, g.workB...))
	refused(t, g.do("POST", "/v1/jobs/j/complete", `{"workerId":"w"}`, g.workA...), http.StatusConflict, v1.TagWrongWorker)
	if a := g.do("POST", "/v1/jobs/j/complete", `{"workerId":"w"}`, g.workB...); a.status != http.StatusNoContent {
		t.Errorf("the worker itself: %d %s", a.status, a.body)
	}
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
	own := func(name string) bool { return strings.HasPrefix(name, tenants.Owned("a", "x")[:2]) }
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
