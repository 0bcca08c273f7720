package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/auth"
)

// secured returns a rig whose server asks for tokens.
func secured(t testing.TB, mode string, audit func(core.AuditEntry)) *rig {
	g := newExampleRig(t)
	g.s.Access.Mode = mode
	if audit != nil {
		g.s.Access.Audit = func(e core.AuditEntry, _ bool) { audit(e) }
	}
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
	fsm.RoleProducer: "enqueue enqueueBatch createBatch sendSignal makeLink reserveArtefact uploadArtefact listArtefacts readArtefact getJob getBatch waitForLsn openStream showSelf",
	fsm.RoleWorker: "claim complete completeBatch sendLogs heartbeat heartbeatBatch fail failBatch release releaseBatch progress throttle registerWorker storeStep suspend createBatch " +
		"attachArtefact reserveArtefact uploadArtefact listArtefacts readArtefact getJob getBatch waitForLsn openStream showSelf",
	fsm.RoleReader: reads,
	fsm.RoleOperator: "enqueue enqueueBatch createBatch reserveArtefact uploadArtefact sendSignal makeLink retryFlow forceComplete removeWorker quietWorker unquietWorker editJob cancelJob retryJob deleteJob cancelJobs retryJobs deleteJobs " +
		"putLimit deleteLimit holdLimit changeQueue resetQueue pauseQueue resumeQueue putCron deleteCron pauseCron resumeCron triggerCron " +
		"listHooks getHook putHook deleteHook testHook hookDeliveries " + reads,
}

const reads = "showSelf openStream getJob listJobs getBatch listBatches waitForLsn stats throttleStats metrics events listQueues getQueue listLimits getLimit listCrons getCron " +
	"listWorkers getWorker listMembers history scale countJobs past getJobGraph followLogs listArtefacts readArtefact"

// open are the operations that need no token.
const open = "status healthz readyz openapi followLink showLink"

// TestEveryRouteForEveryRole asks for every operation of the document as every role.
func TestEveryRouteForEveryRole(t *testing.T) {
	d := readDocument(t)
	roles := []fsm.Role{0, fsm.RoleProducer, fsm.RoleWorker, fsm.RoleReader, fsm.RoleOperator, fsm.RoleAdmin}
	g := secured(t, core.SecurityOn, nil)
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
				if a.status == http.StatusForbidden && !strings.Contains(string(a.body), refusalText(method, path, op.Right)) {
					t.Errorf("%s as %s: %s; want %q", op.OperationID, role, a.body, refusalText(method, path, op.Right))
				}
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

// refusalText is the text of a refusal for want of a right.
func refusalText(method, path string, rights []string) string {
	or := func(names []string) string {
		if n := len(names) - 1; n > 0 {
			return strings.Join(names[:n], ", ") + " or " + names[n]
		}
		return names[0]
	}
	roles := map[string]string{
		"enqueue": "producer, operator or admin", "work": "worker or admin", "read": "reader, operator or admin", "manage": "operator or admin",
		"hooks": "operator or admin", "admin": "admin", "enqueue,manage": "producer, operator or admin",
		"enqueue,work": "producer, worker, operator or admin",
	}[strings.Join(rights, ",")]
	return strings.ToUpper(method) + " " + path + " needs the right " + or(rights) + " (role " + roles
}

// TestARevokedTokenEndsWaits: a claim that waits is answered with 401 when its token is revoked.
func TestARevokedTokenEndsWaits(t *testing.T) {
	g := secured(t, core.SecurityOn, nil)
	head := g.give(&fsmpb.Token{Role: uint32(fsm.RoleWorker)})
	g.s.Config.Timeouts.Wait = time.Minute
	done := make(chan answer, 1)
	go func() {
		r := request("POST", "/v1/jobs/claim", `{"workerId":"w","types":["idle"],"waitMs":60000}`, head...)
		ctx, stop := g.s.WhileValid(context.WithValue(r.Context(), core.CredentialKey{}, g.s.credentialOf(r)), g.s.credentialOf(r))
		defer stop()
		done <- g.send(r.WithContext(ctx))
	}()
	g.revoke(head)
	select {
	case a := <-done:
		if a.status != http.StatusUnauthorized {
			t.Errorf("answered %d %s", a.status, a.body)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the claim still waits")
	}
}

// A credential that cannot be checked now, as while the issuer of JWTs is away, is not called wrong: clients
// repeat the request.
func TestCredentialsThatCannotBeChecked(t *testing.T) {
	for err, status := range map[error]int{
		auth.ErrUnsure: http.StatusServiceUnavailable, auth.ErrToken: http.StatusUnauthorized, auth.ErrDenied: http.StatusForbidden,
	} {
		g := secured(t, core.SecurityOn, nil)
		g.s.Access.Bearer = func(context.Context, string) (*auth.Principal, error) { return nil, err }
		a := g.do("POST", "/v1/jobs", `{}`, "Authorization", "Bearer eyJ.e.y")
		if again := a.header.Get("Retry-After") != ""; a.status != status || again != (status == http.StatusServiceUnavailable) {
			t.Errorf("%v: %d %s", err, a.status, a.body)
		}
	}
}

// A node that follows a leader asks it about a token that it lacks: only an active leader may call a
// token invalid. Otherwise the client asks again, and does not give up.
func TestTokensThatAFollowerLacks(t *testing.T) {
	for _, c := range []struct {
		name   string
		leader func(p *pair)
		status int
		waits  time.Duration
	}{
		{"no node knows it", func(*pair) {}, http.StatusUnauthorized, 0},
		{"the leader knows it, and this node does not get it", func(p *pair) { p.leader.add(strayToken) }, http.StatusServiceUnavailable, core.TokenPatience},
		{"the leader knows it, and this node gets it", func(p *pair) {
			p.leader.add(strayToken)
			time.AfterFunc(core.TokenPatience/2, func() { p.follower.add(strayToken) })
		}, http.StatusOK, core.TokenPatience / 2},
		{"the cluster of the leader stands by", func(p *pair) {
			p.leader.node.set(func(f *fakeNode) { f.leader, f.lead = "", false })
		}, http.StatusServiceUnavailable, 0},
		{"the leader follows this node", func(p *pair) {
			p.leader.node.set(func(f *fakeNode) { f.leader, f.lead = "follower:1", false })
		}, http.StatusServiceUnavailable, 0},
		{"the leader checks no tokens", func(p *pair) { p.leader.s.Access.Mode = core.SecurityOff }, http.StatusServiceUnavailable, 0},
		{"no leader is known", func(p *pair) { p.follower.node.set(func(f *fakeNode) { f.leader = "" }) }, http.StatusServiceUnavailable, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newNearPair(t)
				p.leader.s.Access.Mode, p.follower.s.Access.Mode = core.SecurityOn, core.SecurityOn
				c.leader(p)
				began := time.Now()
				a := p.follower.do("GET", "/v1/stats?consistency=local", "", "Authorization", "Bearer "+strayToken.Text)
				if a.status != c.status {
					t.Errorf("answered %d %s", a.status, a.body)
				}
				if took := time.Since(began); took < c.waits || took > c.waits+core.TokenLook {
					t.Errorf("answered after %v, want %v", took, c.waits)
				}
			})
		})
	}
}

// A leader that hangs does not hold up a request with an unknown token for longer than a moment,
// and forged tokens ask it a few questions at a time.
func TestUnknownTokensWhileTheLeaderHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		var mu sync.Mutex
		hung := roundTrip(func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			asked++
			mu.Unlock()
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		g := newFollower(t, "leader:1", func(c *core.Config) { c.Transport = hung })
		g.s.Access.Mode = core.SecurityOn
		var wg sync.WaitGroup
		for range 3 * core.AsksAtOnce {
			wg.Go(func() {
				a := g.do("GET", "/v1/stats", "", "Authorization", "Bearer "+strayToken.Text)
				if a.status != http.StatusServiceUnavailable {
					t.Errorf("answered %d %s", a.status, a.body)
				}
			})
		}
		time.Sleep(core.TokenPatience / 2)
		mu.Lock()
		if asked != core.AsksAtOnce {
			t.Errorf("%d questions at a time", asked)
		}
		mu.Unlock()
		began := time.Now()
		wg.Wait()
		if took := time.Since(began); took > core.TokenPatience {
			t.Errorf("it took %v more", took)
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// strayToken is a token that only some nodes have.
var strayToken = auth.New()

func (g *rig) add(s auth.Secret) {
	g.put(&fsmpb.Mutation{Op: &fsmpb.Mutation_CreateToken{CreateToken: &fsmpb.CreateToken{Token: &fsmpb.Token{
		Id: s.ID, Hash: []byte(s.Hash), Role: uint32(fsm.RoleAdmin),
	}}}})
}

// The leader's audit log has no entry for the question of another node, whose log has the request.
func TestQuestionsAboutTokensAreNotAudited(t *testing.T) {
	p := newPair(t)
	var audited []string
	for _, g := range []*rig{p.leader, p.follower} {
		g.s.Access.Mode = core.SecurityOn
		g.s.Access.Audit = func(e core.AuditEntry, _ bool) { audited = append(audited, e.Action) }
	}
	refused(t, p.follower.do("GET", "/v1/stats", "", "Authorization", "Bearer "+strayToken.Text), http.StatusUnauthorized, v1.TagUnauthorized)
	if len(audited) != 1 || audited[0] != "GET /v1/stats" {
		t.Errorf("the logs have %q", audited)
	}
}

// No change is made that the audit log could not record, and reads go on.
func TestChangesThatTheAuditLogCannotTake(t *testing.T) {
	g := secured(t, core.SecurityOn, nil)
	admin := g.give(&fsmpb.Token{Role: uint32(fsm.RoleAdmin)})
	full := true
	admitted := 0
	g.s.Access.AdmitChange = func(context.Context) error {
		if full {
			return errors.New("the disk is full")
		}
		return nil
	}
	g.s.Access.Audit = func(_ core.AuditEntry, ok bool) {
		if ok {
			admitted++
		}
	}
	g.do("GET", "/v1/stats", "", admin...) // the use of the token is recorded
	before := g.node.written()
	for _, path := range []string{v1.PathJobs, v1.PathTokens, v1.PathClaim} {
		p := refused(t, g.do("POST", path, `{"role":"reader","workerId":"w"}`, append(admin, "Prefer", "handling=lenient")...), http.StatusServiceUnavailable, v1.TagOverloaded)
		if !strings.Contains(p.Message, "the disk is full") {
			t.Errorf("%s: %+v", path, p)
		}
	}
	if g.node.written() != before {
		t.Error("a change was made")
	}
	if a := g.do("GET", "/v1/stats", "", admin...); a.status != http.StatusOK {
		t.Errorf("a read: %d %s", a.status, a.body)
	}
	full = false
	ok[v1.Enqueued](t, g.do("POST", v1.PathJobs, `{"type":"t"}`, admin...))
	if admitted != 1 {
		t.Errorf("%d entries are those of admitted changes", admitted)
	}
}

// A token that is revoked while it is rotated is not replaced: the answer says that it does not
// exist, and no token is left whose secret no caller has got.
func TestATokenIsRevokedWhileItIsRotated(t *testing.T) {
	g := secured(t, core.SecurityOn, nil)
	admin := g.give(&fsmpb.Token{Role: uint32(fsm.RoleAdmin)})
	made := ok[v1.TokenCreated](t, g.do("POST", v1.PathTokens, `{"role":"reader"}`, admin...))
	revoke := &fsmpb.Mutation{Op: &fsmpb.Mutation_RevokeToken{RevokeToken: &fsmpb.RevokeToken{Id: made.ID}}}
	g.node.overtake = func() {
		g.node.set(func(f *fakeNode) { f.overtake = nil })
		g.put(revoke)
	}
	refused(t, g.do("POST", v1.PathTokens+"/"+made.ID+"/rotate", `{}`, admin...), http.StatusNotFound, v1.TagNotFound)
	if list := ok[v1.TokenList](t, g.do("GET", v1.PathTokens, "", admin...)); len(list.Tokens) != 2 { // the example and the admin's
		t.Errorf("left are %+v", list.Tokens)
	}
}
