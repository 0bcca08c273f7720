package api

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"osqueue/api/core"
	"osqueue/api/livelog"
	v1 "osqueue/client/api/v1"
	"osqueue/client/api/v1/frame"
	"osqueue/cluster/notify"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/limit"
)

// sample is a request as the document describes it.
type sample struct {
	name, method, template string
	target, body           string
	op                     object
	write, read            bool // it has an idempotency key; it can be asked to be fresh
}

// Ids in the document's examples, and their objects in newExampleRig.
const (
	exampleJob  = "01932c07-a2a1-7be3-9c3d-6f0a57c1e101" // runs
	exampleDone = "done-1"
	exampleDead = "dead-1"
	exampleLSN  = "3-1"

	exampleToken = "k-1"
)

// exampleLink ends the path of a link of exampleJob whose secret is zero.
var exampleLink = base64.RawURLEncoding.EncodeToString([]byte(exampleJob)) + "." + base64.RawURLEncoding.EncodeToString(make([]byte, 16))

// targetOf puts names into the path of an operation that newExampleRig knows.
func targetOf(template string, op object) string {
	id := exampleJob
	switch op["operationId"] {
	case "deleteJob":
		id = exampleDone
	case "retryJob", "editJob":
		id = exampleDead
	case "getBatch":
		id = "b-1"
	case "retryFlow":
		id = "flow-1"
	case "uploadArtefact":
		id = "art-0"
	}
	name := "w-1"
	if strings.HasPrefix(template, v1.PathTokens) {
		id = exampleToken
	}
	if strings.HasPrefix(template, v1.PathCrons) {
		name = "digest"
	}
	if strings.HasPrefix(template, v1.PathLinks) {
		name = exampleLink
	}
	return strings.NewReplacer("{id}", id, "{type}", "mail", "{name}", name, "{lsn}", exampleLSN).Replace(template)
}

// samples are the requests of the document: for each operation one for every
// example of a body, or one without.
var samples = sync.OnceValue(func() []sample {
	var out []sample
	for template, methods := range theDocument().at("#/paths") {
		for method, op := range methods.(object) {
			op := op.(object)
			s := sample{
				method: strings.ToUpper(method), template: template, target: targetOf(template, op), op: op,
				write: hasParameter(op, "IdempotencyKey"), read: hasParameter(op, "MinLsn"),
			}
			s.name = s.method + " " + template
			bodies := examplesOf(op["requestBody"], "application/json")
			for _, name := range slices.Sorted(maps.Keys(bodies)) {
				one := s
				one.name, one.body = s.name+" "+name, textOf(bodies[name])
				out = append(out, one)
			}
			if len(bodies) == 0 {
				out = append(out, s)
			}
		}
	}
	slices.SortFunc(out, func(a, b sample) int { return strings.Compare(a.name, b.name) })
	return out
})

func hasParameter(op object, name string) bool {
	parameters, _ := op["parameters"].([]any)
	return slices.ContainsFunc(parameters, func(p any) bool { return p.(object)["$ref"] == "#/components/parameters/"+name })
}

// examplesOf returns the values of the examples of a body.
func examplesOf(body any, media string) map[string]any {
	out := make(map[string]any)
	one, _ := body.(object)
	contents, _ := one["content"].(object)
	content, _ := contents[media].(object)
	examples, _ := content["examples"].(object)
	for name, e := range examples {
		out[name] = e.(object)["value"]
	}
	return out
}

func textOf(v any) string {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(body)
}

// newExampleRig returns a rig with the objects in the examples of the document, including their
// fencing tokens: its broker has epoch 7.
func newExampleRig(t testing.TB, change ...func(*core.Config)) *rig {
	t.Helper()
	g := newRig(t, append(change, func(c *core.Config) { c.Timeouts.Wait = 10 * time.Millisecond })...)
	g.addExamples(t)
	return g
}

// addExamples adds the objects of newExampleRig, for a caller with these headers.
func (g *rig) addExamples(t testing.TB, header ...string) {
	t.Helper()
	g.useSettings(fsm.DefaultSettings())
	send := func(method, path, body string) {
		t.Helper()
		if a := g.do(method, path, body, append([]string{"Prefer", v1.PreferStrict}, header...)...); a.status != http.StatusOK {
			t.Fatalf("%s %s %s: answered %d %s", method, path, body, a.status, a.body)
		}
	}
	for _, id := range []string{exampleJob, "a-1", "a-2"} {
		send("POST", "/v1/jobs", `{"id":"`+id+`","type":"mail","payload":1,"limits":["openai:gpt5"]}`)
	}
	send("POST", "/v1/jobs/claim", `{"workerId":"w-1","max":3}`)
	for _, id := range []string{exampleDone, exampleDead} {
		send("POST", "/v1/jobs", `{"id":"`+id+`","type":"other"}`)
	}
	send("POST", "/v1/jobs/claim", `{"workerId":"w-2","max":2}`)
	send("POST", "/v1/jobs/complete", `{"workerId":"w-2","jobs":[{"jobId":"`+exampleDone+`"}]}`)
	send("POST", "/v1/jobs/"+exampleDead+"/fail", `{"workerId":"w-2","retryable":false}`)
	g.put(&fsmpb.Mutation{Op: &fsmpb.Mutation_CreateToken{CreateToken: &fsmpb.CreateToken{Token: &fsmpb.Token{
		Id: exampleToken, Role: uint32(fsm.RoleReader), Hash: make([]byte, 32),
	}}}})
	g.put(&fsmpb.Mutation{Op: &fsmpb.Mutation_PutHook{PutHook: &fsmpb.PutHook{Hook: &fsmpb.Hook{
		Name: "w-1", Url: "https://example.com/", Kinds: 2, Secret: []byte("s"),
	}}}})
	send("PUT", "/v1/limits/w-1", `{"maxRunning":1}`)
	send("POST", "/v1/batches", `{"id":"order-7.parts"}`)
	send("POST", "/v1/batches", `{"id":"flow-1","jobs":[{"id":"flow-1-charge","type":"flow","step":"charge","priority":-1}]}`)
	hash := sha256.Sum256(make([]byte, 16))
	g.put(&fsmpb.Mutation{Op: &fsmpb.Mutation_MakeLink{MakeLink: &fsmpb.MakeLink{
		JobId: exampleJob, Signal: "approved", Hash: hash[:], UntilMs: math.MaxInt64,
	}}})
	send("POST", "/v1/batches", `{"id":"b-1","callback":{"id":"b-1-done","type":"report"}}`)
	g.addArtefact("01932c07-a2a1-7be3-9c3d-6f0a57c1e1f7", "pdf")
	g.addArtefact("art-0", "")
	g.addArtefact("art-1", "some bytes")
	send("POST", "/v1/jobs/"+exampleJob+"/artefacts", `{"workerId":"w-1","name":"w-1","id":"art-1"}`)
	for _, s := range samples() {
		switch s.name {
		case "PUT /v1/crons/{name} workdays", "POST /v1/workers mailer":
			send(s.method, s.target, s.body)
		}
	}
}

// useSettings has a new broker put settings in force.
func (g *rig) useSettings(s *fsm.Settings) {
	g.t.Helper()
	epoch := max(g.node.View().Meta().Epoch+1, 7)
	_, err := g.node.run(&fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterBroker{RegisterBroker: &fsmpb.RegisterBroker{
		Node: "n1", Address: "10.0.0.1:8080", Epoch: epoch, Cluster: "c", Lineage: "l", Settings: s,
	}}})
	if err != nil {
		g.t.Fatal(err)
	}
}

// try sends a sample. A stream is left after a moment.
func (s *sample) try(g *rig, header ...string) answer {
	g.t.Helper()
	r := request(s.method, s.target, s.body, header...)
	if s.template == v1.PathEvents {
		ctx, cancel := context.WithTimeout(g.t.Context(), 10*time.Millisecond)
		defer cancel()
		r = r.WithContext(ctx)
	}
	return g.send(r)
}

// Every request of the document succeeds unchanged on a queue that has the objects of its
// examples. send compares the answers with the document.
func TestDocumentExamplesAreServed(t *testing.T) {
	t.Parallel()
	for _, s := range samples() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			a := s.try(newExampleRig(t), "Prefer", v1.PreferStrict)
			wanted := a.status == http.StatusOK || a.status == http.StatusNoContent
			if s.template == frame.Path { // an example has no header
				wanted = a.status == http.StatusUpgradeRequired
			}
			if !wanted {
				t.Errorf("answered %d %s", a.status, a.body)
			}
			if _, described := s.op["responses"].(object)[fmt.Sprint(a.status)]; !described {
				t.Errorf("answered %d, which is not described", a.status)
			}
		})
	}
}

// Every status that the document gives a route occurs: send checks the reverse.
func TestDocumentStatusesHappen(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	all := samples()
	shared := make(map[string]*rig)
	for _, s := range all {
		for status := range s.op["responses"].(object) {
			name := s.method + " " + s.template + " " + status
			if status == "101" { // a recorder has no connection; the tests of the stream have it
				seen[name] = true
			}
			if seen[name] || status == "default" {
				continue
			}
			answers := append(s.provokePast(t, status), s.provokeArtefact(t, status)...)
			for _, a := range append(answers, s.provoke(t, shared, status)...) {
				seen[name] = seen[name] || fmt.Sprint(a.status) == status
			}
		}
	}
	for _, s := range all {
		for status := range s.op["responses"].(object) {
			if name := s.method + " " + s.template + " " + status; status != "default" && !seen[name] {
				t.Errorf("%s: could not be had", name)
				seen[name] = true
			}
		}
	}
}

// provoke tries to get an answer of that status. Requests that are refused, and change nothing, share a rig.
func (s *sample) provoke(t *testing.T, shared map[string]*rig, status string) []answer {
	t.Helper()
	const limit = 2000
	g := shared[status]
	if g == nil {
		g = newExampleRig(t, func(c *core.Config) {
			if status == "413" {
				c.MaxBody = limit
			}
			if status > "500" { // else a read on a busy machine could fail
				c.Timeouts.Fresh = 10 * time.Millisecond
			}
		})
	}
	switch status {
	case "400", "404", "409", "413", "415":
		shared[status] = g
	}
	switch status {
	case "200", "204", "426":
		return []answer{s.try(g)}
	case "400":
		bad := *s
		bad.target += "?minLsn=x&kind=x&status=x&level=x&minutes=x&limit=x&offset=x"
		list := *s
		list.body = "[]"
		return []answer{bad.try(g, v1.HeaderIdempotencyKey, "not a key"), list.try(g)}
	case "404":
		lost := *s
		lost.target = strings.NewReplacer("{id}", "nope", "{name}", "nope").Replace(s.template)
		return []answer{lost.try(g)}
	case "409":
		g.do("POST", v1.PathWorkers, `{"name":"w-9"}`, v1.HeaderIdempotencyKey, "k")
		if s.op["operationId"] == "makeLink" { // which takes no key
			ended := *s
			ended.target = strings.Replace(s.target, exampleJob, exampleDone, 1)
			return []answer{ended.try(g)}
		}
		if strings.HasPrefix(s.template, v1.PathMembers) { // a repetition is no conflict
			return []answer{s.try(newExampleRig(t, func(c *core.Config) { c.Members = nil }))}
		}
		return []answer{s.try(g, v1.HeaderIdempotencyKey, "k")}
	case "413":
		large := *s
		large.body += strings.Repeat(" ", limit+1)
		return []answer{large.try(g, v1.HeaderIdempotencyKey, "k")}
	case "415":
		return []answer{s.try(g, "Content-Type", "text/plain")}
	}
	return s.provokeLimits(t, g, status)
}

// provokePast is for the answers of reads of earlier states.
func (s *sample) provokePast(t *testing.T, status string) []answer {
	t.Helper()
	for _, c := range pastErrors {
		if s.method == http.MethodGet && fmt.Sprint(c.status) == status {
			past := *s
			past.target += "?at=3-1"
			return []answer{past.try(newExampleRig(t, func(cfg *core.Config) { cfg.Past = fakePast{c.err} }))}
		}
	}
	return nil
}

// provokeLimits is for answers that a full, slow or lost node gives.
func (s *sample) provokeLimits(t *testing.T, g *rig, status string) []answer {
	g.t.Helper()
	settings := fsm.DefaultSettings()
	switch status {
	case "410":
		g.node.set(func(f *fakeNode) { f.history = notify.NewHistory(1) })
		g.tell(2)
		g.node.rescan(func(f *fakeNode) { f.m.Transplant("other", "", 3, 900) })
		old := *s
		old.target += "?lastEventId=3-2.1"
		lost := *s
		lost.target += "?minLsn=5-9"
		return []answer{s.try(g), old.try(g, "Prefer", v1.PreferStrict), lost.try(g)}
	case "429":
		g.submit("followed", "t")
		logs := livelog.DefaultConfig()
		logs.Jobs = 2
		g.s.Logs = livelog.New(logs)
		g.follow("followed", v1.JobLogs{}, 0)
		settings.MaxJobs = 1
		g.useSettings(settings)
		// The quota of a token.
		role := map[string]fsm.Role{http.MethodPut + v1.PathCrons + "/{name}": fsm.RoleOperator, http.MethodPost + v1.PathWorkers: fsm.RoleWorker}[s.method+s.template]
		if role != 0 {
			secure := newExampleRig(t)
			secure.s.Access.Mode = core.SecurityOn
			other := *s
			other.body = strings.Replace(s.body, `"name":"`, `"name":"other-`, 1)
			return []answer{other.try(secure, secure.give(&fsmpb.Token{Role: uint32(role), MaxBytes: 1})...)}
		}
		if s.method == http.MethodPatch { // of a job of the token
			secure := newExampleRig(t)
			secure.s.Access.Mode = core.SecurityOn
			head := secure.give(&fsmpb.Token{Role: uint32(fsm.RoleOperator), MaxBytes: 8})
			secure.do("POST", v1.PathJobs, `{"id":"own","payload":1}`, head...)
			own := *s
			own.target = v1.PathJobs + "/own"
			return []answer{own.try(secure, head...)}
		}
	case "507":
		if s.template == v1.PathWorkers && s.method == http.MethodPost {
			var types string
			for i := range 999 {
				types += fmt.Sprintf(`"%0240d",`, i)
			}
			types += `"t"`
			for i := range 80 {
				g.do("POST", v1.PathWorkers, fmt.Sprintf(`{"name":"many-%d","types":[%s]}`, i, types))
			}
			many := *s
			many.body = fmt.Sprintf(`{"name":"one-more","types":[%s]}`, types)
			return []answer{many.try(g)}
		}
		settings.MaxBytes = 1
		g.useSettings(settings)
		if strings.HasPrefix(s.template, v1.PathQueues) {
			g.fillQueues()
		}
		g.fillCrons(s.template)
		g.fillLimits(s.template)
		unknown := *s
		unknown.target = strings.NewReplacer("{type}", "unknown", "{name}", "unknown").Replace(s.template)
		return []answer{unknown.try(g), s.try(g)}
	case "503":
		g.node.set(func(f *fakeNode) { f.leader, f.lead = "", false })
		g.s.Shares.Events = limit.NewSlots(0, 0)
		far := *s
		far.target = strings.Replace(far.target, exampleLSN, "99-99", 1) + "?level=object"
		return []answer{s.try(g), far.try(g)}
	case "504":
		g.node.set(func(f *fakeNode) { f.proposeErr = context.DeadlineExceeded })
		late := *s
		late.target = strings.Replace(late.target, exampleLSN, "99-99", 1) + "?minLsn=99-99&waitMs=10"
		return []answer{late.try(g), late.try(g, v1.HeaderIdempotencyKey, "k")}
	}
	return []answer{s.try(g)}
}

// tell makes n events.
func (g *rig) tell(n int) {
	g.t.Helper()
	for i := range n {
		ok[v1.WorkerAnswer](g.t, g.do("POST", v1.PathWorkers, fmt.Sprintf(`{"name":"new-%d"}`, i)))
	}
}

// fillCrons makes as many schedules as there can be, if the route is about them.
func (g *rig) fillCrons(template string) {
	g.t.Helper()
	if template != v1.PathCrons+"/{name}" {
		return
	}
	ms := make([]*fsmpb.Mutation, 100_000)
	for i := range ms {
		ms[i] = &fsmpb.Mutation{Op: &fsmpb.Mutation_PutCron{PutCron: &fsmpb.PutCron{
			Name: fmt.Sprint(i), Spec: "@yearly", Job: &fsmpb.NewJob{},
		}}}
	}
	if _, _, err := g.node.apply(ms...); err != nil {
		g.t.Fatal(err)
	}
}

// fillLimits makes as many rules of limits as there can be, if the route is about them.
func (g *rig) fillLimits(template string) {
	g.t.Helper()
	if template != v1.PathLimits+"/{name}" {
		return
	}
	ms := make([]*fsmpb.Mutation, fsm.LimitRulesMax)
	for i := range ms {
		ms[i] = &fsmpb.Mutation{Op: &fsmpb.Mutation_SetLimit{SetLimit: &fsmpb.SetLimit{Pattern: fmt.Sprint(i), Rule: &fsmpb.LimitRule{}}}}
	}
	if _, _, err := g.node.apply(ms...); err != nil {
		g.t.Fatal(err)
	}
}

func TestDocumentIsServed(t *testing.T) {
	g := newRig(t)
	g.node.set(func(f *fakeNode) { f.leader, f.lead = "", false })
	a := g.do("GET", v1.PathOpenAPI, "")
	if a.status != http.StatusOK || a.header.Get("Content-Type") != "application/yaml" || string(a.body) != string(openAPI) ||
		a.header.Get("Content-Length") != fmt.Sprint(len(openAPI)) {
		t.Fatalf("answered %d %v, %d bytes", a.status, a.header, len(a.body))
	}
	refused(t, g.do("PUT", v1.PathOpenAPI, ""), http.StatusMethodNotAllowed, v1.TagMethod)
}

// Every read of the queue can be asked for a state that is new enough, on every
// node: by the leader's word or by an LSN.
func TestEveryReadKnowsMinLSN(t *testing.T) {
	g := newExampleRig(t, func(c *core.Config) { c.Timeouts.Fresh = 10 * time.Millisecond })
	at := g.node.View().LSN().String()
	g.node.set(func(f *fakeNode) { f.leader, f.lead = "", false }) // a follower without anybody to ask
	reads := 0
	for _, s := range samples() {
		if s.method != http.MethodGet || !strings.HasPrefix(s.template, "/v1/") && s.template != v1.PathState ||
			s.template == v1.PathEvents || s.template == core.PathLSNWait || s.template == frame.Path ||
			s.template == core.ByID(v1.PathJobs)+"/"+v1.ActionLogs || // of the leader's memory
			s.template == v1.PathHistory || // counts of the node itself
			s.template == v1.PathMembers || // as the leader sees them now
			s.template == v1.PathPast || // of the bucket
			s.template == v1.PathAudit || s.template == v1.PathSelf { // the rights of the caller
			continue
		}
		reads++
		if !s.read {
			t.Errorf("%s cannot be asked to be fresh", s.name)
		}
		p := refused(t, g.do("GET", s.target+"?minLsn=9-9&waitMs=1", ""), http.StatusGatewayTimeout, v1.TagTimeout)
		if !strings.Contains(p.Detail, "9-9") {
			t.Errorf("%s: %s", s.name, p.Detail)
		}
		if a := g.do("GET", s.target+"?minLsn="+at, ""); a.status != http.StatusOK {
			t.Errorf("%s: answered %d %s", s.name, a.status, a.body)
		}
	}
	if reads < 12 {
		t.Errorf("only %d reads", reads)
	}
}
