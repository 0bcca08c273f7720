package api

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/cluster"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/auth"
)

// secured returns a rig whose server asks for tokens.
func secured(t testing.TB, mode string, audit func(AuditEntry)) *rig {
	g := newExampleRig(t)
	g.node.status = func(st *cluster.Status) { st.Level = fsm.MaxLevel }
	g.s.gate.Mode, g.s.gate.Audit = mode, audit
	return g
}

// give makes a token and returns its header.
func (g *rig) give(t *fsmpb.Token) []string {
	s := auth.New()
	t.Id, t.Hash = s.ID, []byte(s.Hash)
	g.put(&fsmpb.Mutation{Op: &fsmpb.Mutation_CreateToken{CreateToken: &fsmpb.CreateToken{Token: t}}})
	return []string{"Authorization", "Bearer " + s.Text}
}

// mayCall says, without the code of the server, which operations of openapi.yaml each role may
// call. Everything that is not here is for admins.
var mayCall = map[fsm.Role]string{
	fsm.RoleProducer: "enqueue enqueueBatch createBatch getJob getBatch waitForLsn openStream showSelf",
	fsm.RoleWorker: "claim complete completeBatch heartbeat heartbeatBatch fail failBatch release releaseBatch progress registerWorker " +
		"getJob getBatch waitForLsn openStream showSelf",
	fsm.RoleReader: reads,
	fsm.RoleOperator: "enqueue enqueueBatch createBatch forceComplete removeWorker cancelJob retryJob deleteJob cancelJobs retryJobs deleteJobs " +
		"changeQueue resetQueue pauseQueue resumeQueue putCron deleteCron pauseCron resumeCron triggerCron " +
		"listHooks getHook putHook deleteHook testHook hookDeliveries " + reads,
}

const reads = "showSelf openStream getJob listJobs getBatch listBatches waitForLsn stats throttleStats metrics events listQueues getQueue listCrons getCron " +
	"listWorkers getWorker history countJobs past getJobGraph"

// open are the operations that need no token.
const open = "status healthz readyz openapi"

// TestEveryRouteForEveryRole asks for every operation of the document as every role.
func TestEveryRouteForEveryRole(t *testing.T) {
	d := readDocument(t)
	roles := []fsm.Role{0, fsm.RoleProducer, fsm.RoleWorker, fsm.RoleReader, fsm.RoleOperator, fsm.RoleAdmin}
	g := secured(t, SecurityOn, nil)
	heads := make(map[fsm.Role][]string)
	for _, role := range roles[1:] {
		heads[role] = g.give(&fsmpb.Token{Role: uint32(role)})
	}
	known := map[string]bool{}
	for path, ops := range d.Paths {
		for method, op := range ops {
			known[op.OperationID] = true
			target := strings.NewReplacer("{id}", "none", "{type}", "none", "{name}", "none", "{lsn}", "0-0").Replace(path)
			for _, role := range roles {
				isOpen := slices.Contains(strings.Fields(open), op.OperationID)
				declared := isOpen
				for _, right := range op.Right {
					declared = declared || strings.Contains(","+auth.RightsOf(role).String()+",", ","+right+",")
				}
				want := isOpen || role == fsm.RoleAdmin || slices.Contains(strings.Fields(mayCall[role]), op.OperationID)
				if declared != want || len(op.Right) == 0 {
					t.Errorf("%s as %q: the document declares %v, which gives %v; want %v", op.OperationID, role, op.Right, declared, want)
				}
				if target == v1.PathEvents && want {
					continue // it would not end
				}
				a := g.do(strings.ToUpper(method), target, "", heads[role]...)
				refused := a.status == http.StatusUnauthorized || a.status == http.StatusForbidden
				if refused == want || refused && (a.status == http.StatusUnauthorized) != (role == 0) {
					t.Errorf("%s (%s %s) as %q: %d %s", op.OperationID, method, target, role, a.status, a.body)
				}
			}
		}
	}
	for _, list := range mayCall {
		for _, id := range strings.Fields(list + " " + open) {
			if !known[id] {
				t.Errorf("the document has no operation %s", id)
			}
		}
	}
}

func TestTokensOverHTTP(t *testing.T) {
	var audited []AuditEntry
	g := secured(t, SecurityOn, func(e AuditEntry) { audited = append(audited, e) })
	admin := g.give(&fsmpb.Token{Role: uint32(fsm.RoleAdmin)})
	made := ok[v1.TokenCreated](t, g.do("POST", "/v1/tokens", `{"role":"worker","types":["mail"],"name":"w"}`, admin...))
	head := []string{"Authorization", "bearer " + made.Token}
	if a := g.do("POST", "/v1/jobs/claim", `{"workerId":"w","types":["film"]}`, head...); a.status != http.StatusForbidden || !strings.Contains(string(a.body), "film") {
		t.Errorf("a claim out of scope: %d %s", a.status, a.body)
	}
	if a := g.do("POST", "/v1/jobs/claim", `{"workerId":"w"}`, head...); a.status != http.StatusForbidden {
		t.Errorf("a claim of all types: %d %s", a.status, a.body)
	}
	g.do("POST", "/v1/jobs", `{"id":"mine","type":"mail"}`, admin...)
	job := ok[v1.ClaimedJob](t, g.do("POST", "/v1/jobs/claim", `{"workerId":"w","types":["mail"]}`, head...))
	thief := g.give(&fsmpb.Token{Role: uint32(fsm.RoleWorker)})
	report := `{"workerId":"w","token":` + strconv.FormatUint(job.Token, 10) + `}`
	if a := g.do("POST", "/v1/jobs/mine/complete", report, thief...); a.status != http.StatusConflict || !strings.Contains(string(a.body), v1.TagWrongWorker) {
		t.Errorf("a stolen claim: %d %s", a.status, a.body)
	}
	g.do("POST", "/v1/jobs", `{"id":"other","type":"film"}`, admin...)
	withClaim := strings.TrimSuffix(report, "}") + `,"claim":{"requestId":"r","types":["film"]}}`
	if a := g.do("POST", "/v1/jobs/mine/complete", withClaim, head...); a.status != http.StatusForbidden {
		t.Errorf("a report with a claim out of scope: %d %s", a.status, a.body)
	}
	if j := g.node.Job("other"); j.Status != fsm.Unclaimed {
		t.Errorf("the job out of scope is %v", j.Status)
	}
	next := ok[v1.TokenCreated](t, g.do("POST", "/v1/tokens/"+made.ID+"/rotate", `{}`, admin...))
	if a := g.do("POST", "/v1/jobs/mine/complete", report, head...); a.status != http.StatusUnauthorized || a.header.Get("Www-Authenticate") == "" {
		t.Errorf("the old token: %d %s", a.status, a.body)
	}
	if a := g.do("POST", "/v1/jobs/mine/complete", report, "Authorization", "Bearer "+next.Token); a.status != http.StatusOK {
		t.Errorf("the rotated token: %d %s", a.status, a.body)
	}
	if a := g.do("GET", "/v1/tokens", "", admin...); a.status != http.StatusOK || strings.Contains(string(a.body), next.Token) || !strings.Contains(string(a.body), next.ID) {
		t.Errorf("the list: %d %s", a.status, a.body)
	}
	if a := g.do("GET", "/status", ""); a.status != http.StatusOK || strings.Contains(string(a.body), `"version":"test"`) {
		t.Errorf("status: %d %s", a.status, a.body)
	}
	refused := slices.ContainsFunc(audited, func(e AuditEntry) bool {
		return e.Status == 403 && e.Principal == made.ID && e.Outcome == v1.TagForbidden
	})
	rotated := slices.ContainsFunc(audited, func(e AuditEntry) bool { return e.Object == made.ID && e.LSN != "" && e.Outcome == "ok" })
	if !refused || !rotated {
		t.Errorf("the audit log lacks something: %+v", audited)
	}
}

// TestARevokedTokenEndsWaits: a claim that waits is answered with 401 when its token is revoked.
func TestARevokedTokenEndsWaits(t *testing.T) {
	g := secured(t, SecurityOn, nil)
	s := auth.New()
	g.put(&fsmpb.Mutation{Op: &fsmpb.Mutation_CreateToken{CreateToken: &fsmpb.CreateToken{Token: &fsmpb.Token{
		Id: s.ID, Hash: []byte(s.Hash), Role: uint32(fsm.RoleWorker),
	}}}})
	g.s.cfg.Timeouts.Wait = time.Minute
	done := make(chan answer, 1)
	go func() {
		r := request("POST", "/v1/jobs/claim", `{"workerId":"w","types":["idle"],"waitMs":60000}`, "Authorization", "Bearer "+s.Text)
		ctx, stop := g.s.whileValid(context.WithValue(r.Context(), credentialKey{}, g.s.credentialOf(r)), g.s.credentialOf(r))
		defer stop()
		done <- g.send(r.WithContext(ctx))
	}()
	g.put(&fsmpb.Mutation{Op: &fsmpb.Mutation_RevokeToken{RevokeToken: &fsmpb.RevokeToken{Id: s.ID}}})
	select {
	case a := <-done:
		if a.status != http.StatusUnauthorized {
			t.Errorf("answered %d %s", a.status, a.body)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the claim still waits")
	}
}

// TestSecurityLog answers every request and only warns.
func TestSecurityLog(t *testing.T) {
	g := secured(t, SecurityLog, nil)
	if a := g.do("POST", "/v1/jobs", `{"type":"mail"}`); a.status != http.StatusOK {
		t.Errorf("no token: %d %s", a.status, a.body)
	}
	reader := g.give(&fsmpb.Token{Role: uint32(fsm.RoleReader), Types: []string{"film"}})
	if a := g.do("POST", "/v1/jobs", `{"type":"mail"}`, reader...); a.status != http.StatusOK {
		t.Errorf("the wrong token: %d %s", a.status, a.body)
	}
}

func BenchmarkEnqueueSecurity(b *testing.B) {
	for _, mode := range []string{SecurityOff, SecurityOn} {
		b.Run(mode, func(b *testing.B) {
			g := secured(b, mode, nil)
			head := g.give(&fsmpb.Token{Role: uint32(fsm.RoleProducer)})
			b.ReportAllocs()
			for b.Loop() {
				g.do("POST", "/v1/jobs", `{"type":"mail","payload":1}`, head...)
			}
		})
	}
}

// A node that knows no leader may lack the newest tokens: it does not call one invalid, so that
// clients ask again instead of giving up.
func TestUnknownTokenWithoutALeader(t *testing.T) {
	g := secured(t, SecurityOn, nil)
	other := secured(t, SecurityOn, nil).give(&fsmpb.Token{Role: uint32(fsm.RoleAdmin)})
	refused(t, g.do("GET", "/v1/stats", "", other...), http.StatusUnauthorized, v1.TagUnauthorized)
	g.node.set(func(f *fakeNode) { f.leader, f.lead = "", false })
	refused(t, g.do("GET", "/v1/stats", "", other...), http.StatusServiceUnavailable, v1.TagNoLeader)
}

// A token's quota is shared with the token that replaces it, and is free again when its jobs end.
func TestTokenQuota(t *testing.T) {
	g := secured(t, SecurityOn, nil)
	admin := g.give(&fsmpb.Token{Role: uint32(fsm.RoleAdmin)})
	made := ok[v1.TokenCreated](t, g.do("POST", "/v1/tokens", `{"role":"producer","types":["mail"],"maxJobs":2,"maxBytes":20}`, admin...))
	head := []string{"Authorization", "Bearer " + made.Token}
	ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"id":"q1","type":"mail","payload":"12345"}`, head...))
	refuse := func(head []string, tag, path, body string) {
		t.Helper()
		a := g.do("POST", path, body, head...)
		if a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") == "" || !strings.Contains(string(a.body), tag) {
			t.Errorf("%s %s: %d %v %s", path, body, a.status, a.header, a.body)
		}
	}
	refuse(head, v1.TagTooManyTokenBytes, "/v1/jobs", `{"type":"mail","payload":"123456789012"}`)
	refuse(head, v1.TagTooManyTokenJobs, "/v1/jobs/batch", `{"jobs":[{"type":"mail"},{"type":"mail"}]}`)
	refuse(head, v1.TagTooManyTokenJobs, "/v1/batches", `{"jobs":[{"type":"mail"},{"type":"mail"}],"callback":{"type":"mail"}}`)
	next := ok[v1.TokenCreated](t, g.do("POST", "/v1/tokens/"+made.ID+"/rotate", `{}`, admin...))
	renewed := []string{"Authorization", "Bearer " + next.Token}
	ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"id":"q2","type":"mail"}`, renewed...))
	refuse(renewed, v1.TagTooManyTokenJobs, "/v1/jobs", `{"type":"mail"}`)
	if self := ok[v1.Self](t, g.do("GET", "/v1/self", "", renewed...)); self.Jobs != 2 || self.MaxJobs != 2 || self.Bytes != 7 || self.MaxBytes != 20 {
		t.Errorf("self: %+v", self)
	}
	for _, shown := range ok[v1.TokenList](t, g.do("GET", "/v1/tokens", "", admin...)).Tokens {
		if limited := shown.ID == next.ID; limited != (shown.Jobs == 2) || limited != (shown.Bytes == 7) {
			t.Errorf("the list: %+v", shown)
		}
	}
	ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"id":"free"}`, admin...)) // without a quota
	g.do("POST", "/v1/jobs/q1/cancel", "", admin...)
	ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"id":"q3","type":"mail"}`, renewed...))
	if a := g.do("POST", "/v1/tokens", `{"role":"producer","maxJobs":-1}`, admin...); a.status != http.StatusBadRequest {
		t.Errorf("a negative quota: %d %s", a.status, a.body)
	}
}
