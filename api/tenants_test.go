package api

import (
	"net/http"
	"strings"
	"testing"

	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// What concerns all jobs of a type is refused to a token that is limited to groups: its jobs are only
// some of them.
func TestWholeTypesAndTokensOfGroups(t *testing.T) {
	g := secured(t, SecurityOn, nil)
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
			g := secured(t, SecurityOn, nil)
			admin := g.give(&fsmpb.Token{Role: uint32(fsm.RoleAdmin)})
			reader := g.give(&fsmpb.Token{Role: uint32(fsm.RoleReader), Types: []string{"a.*"}})
			ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"id":"race","type":"a.x"}`, admin...))
			end := fsmpb.Complete{Worker: "w", Lease: &fsmpb.Lease{JobId: "race"}}
			ok[v1.ClaimedJob](t, g.do("POST", "/v1/jobs/claim", `{"workerId":"w"}`, admin...))
			waiting := make(chan answer, 1)
			go func() { waiting <- g.do("GET", path, "", reader...) }()
			if strings.Contains(path, "logs") {
				eventually(t, "the read waits", func() bool { return len(g.s.logs.Watched("w", 1)) == 1 })
			} else {
				eventually(t, "the read waits", g.awaiting(1))
			}
			g.apply(
				&fsmpb.Mutation{Op: &fsmpb.Mutation_Complete{Complete: &end}},
				&fsmpb.Mutation{Op: &fsmpb.Mutation_Change{Change: &fsmpb.Change{Kind: uint32(fsm.DeleteJobs), Ids: []string{"race"}}}},
				enqueueOf([]*fsmpb.NewJob{{Id: "race", Type: "b.secret", Payload: []byte(`"B's"`)}}),
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
			g := secured(t, SecurityOn, nil)
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
						enqueueOf([]*fsmpb.NewJob{{Id: "race", Type: "b.secret"}}),
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
