package api

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
)

// What a request holds is not repeated at length, and the number of named fields is bounded.
func TestDetailsAreBounded(t *testing.T) {
	g := newRig(t)
	p := refused(t, g.do("POST", "/v1/jobs", `{"`+strings.Repeat("n", 10_000)+`":1}`, "Prefer", v1.PreferStrict), 400, v1.TagUnknownMember)
	if len(p.Detail) > 500 {
		t.Errorf("a detail of %d bytes", len(p.Detail))
	}
	if p := refused(t, g.do("GET", "/x?"+strings.Repeat("y", 5000), ""), 404, v1.TagNoRoute); len(p.Detail) > 1200 {
		t.Errorf("a detail of %d bytes", len(p.Detail))
	}
	many := `{` + strings.Repeat(`"u":1,`, 500) + `"v":1}`
	p = refused(t, g.do("POST", "/v1/jobs", many, "Prefer", v1.PreferStrict), http.StatusBadRequest, v1.TagUnknownMember)
	if len(p.Members) != core.UnknownMax {
		t.Errorf("%d members", len(p.Members))
	}
}

func TestBodyLimit(t *testing.T) {
	g := newRig(t)
	fill := func(n int) string { return `{"payload":"` + strings.Repeat("a", n-len(`{"payload":""}`)) + `"}` }
	ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", fill(1<<20)))
	p := refused(t, g.do("POST", "/v1/jobs", fill(1<<20+1)), http.StatusRequestEntityTooLarge, v1.TagTooLarge)
	if !strings.Contains(p.Detail, "1048576") {
		t.Fatalf("detail %q", p.Detail)
	}
	// Without a length it is found out on the way.
	r := request("POST", "/v1/jobs", fill(1<<20+1))
	r.ContentLength = -1
	refused(t, g.send(r), http.StatusRequestEntityTooLarge, v1.TagTooLarge)
}

// torn is a body whose reader fails.
type torn struct{ err error }

func (b torn) Read([]byte) (int, error) { return 0, b.err }
func (torn) Close() error               { return nil }

type timeoutError struct{}

func (timeoutError) Error() string   { return "i/o timeout" }
func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }

func TestBrokenBody(t *testing.T) {
	g := newRig(t)
	for want, err := range map[int]error{
		http.StatusBadRequest:            io.ErrUnexpectedEOF,
		http.StatusRequestTimeout:        timeoutError{},
		http.StatusRequestEntityTooLarge: &http.MaxBytesError{Limit: 5},
	} {
		r := request("POST", "/v1/jobs", `{}`)
		r.Body = torn{err}
		if a := g.send(r); a.status != want {
			t.Errorf("%v: answered %d %s, want %d", err, a.status, a.body, want)
		}
	}
}

func TestBadPaths(t *testing.T) {
	g := newRig(t)
	r := request("POST", "/v1/jobs/a/heartbeat", `{}`)
	r.URL.Path, r.URL.RawPath = "/v1/jobs/%zz/heartbeat", "/v1/jobs/%zz/heartbeat"
	if a := g.send(r); a.status != http.StatusBadRequest && a.status != http.StatusNoContent {
		t.Fatalf("answered %d", a.status)
	}
	var f *core.Failure
	if err := core.BrokenBody(errors.New("x"), 1); !errors.As(err, &f) {
		t.Fatal(err)
	}
}

// TestChunkedBodiesCloseTheConnection: bytes after a request with both lengths are never taken
// for a second request.
func TestChunkedBodiesCloseTheConnection(t *testing.T) {
	g := newRig(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = g.s.Serve(ln) }()
	t.Cleanup(func() { _ = g.s.Shutdown(t.Context()) })
	for _, length := range []string{"", "Content-Length: 4\r\n"} {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		body := `{"type":"x"}`
		_, _ = fmt.Fprintf(conn, "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n"+
			"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n", length, len(body), body)
		text, err := io.ReadAll(bufio.NewReader(conn))
		if n := strings.Count(string(text), "HTTP/1.1 "); n != 1 || !strings.HasPrefix(string(text), "HTTP/1.1 200") || err != nil {
			t.Errorf("%q: %d answers, %v: %s", length, n, err, text)
		}
	}
}

// Values that are wrong for a kind of field.
var (
	badNames = []string{
		`"` + strings.Repeat("x", 257) + `"`, `"a\u0000"`, `"a\nb"`, `"\u007f"`, `"\u0085"`, `"\ud800"`, `7`, `1.5`, `true`, `["a"]`, `{}`, `NaN`,
	}
	badLookups   = []string{`"` + strings.Repeat("x", 257) + `"`, `"a\u0000"`, `7`, `false`, `[]`, `{}`}
	badIDs       = []string{`"` + strings.Repeat("x", 129) + `"`, `"a b"`, `"a\u0000"`, `"ü"`, `".."`, `"\ud800"`, `7`, `[]`, `{}`}
	badJobIDs    = []string{`""`, `"` + strings.Repeat("x", 1025) + `"`, `null`, `7`, `[]`, `{}`}
	badIntegers  = []string{`1.5`, `1.0`, `1e3`, `"1"`, `true`, `[1]`, `{}`, `9223372036854775808`, `-9223372036854775809`, `NaN`, `Infinity`}
	badDurations = append([]string{`-1`, `-9223372036854775808`, `9223372036854775807`, `316224000001`}, badIntegers...)
	badTimes     = append([]string{`-1`, `1`, `1700000000`, `9223372036854775807`}, badIntegers...)
	badPoints    = append([]string{`-1`, `1`, `1700000000`}, badIntegers...) // in the past, too
	badTokens    = []string{`-1`, `1.5`, `"1"`, `true`, `[]`, `{}`, `18446744073709551616`, `NaN`}
	badFlags     = []string{`0`, `"true"`, `[]`, `{}`}
	badLists     = []string{`"a"`, `7`, `true`, `{}`}
	badObjects   = []string{`"a"`, `7`, `true`, `[]`}
	badWords     = []string{`"nope"`, `"ACTIVE"`, `"x\u0000"`, `7`, `true`, `[]`, `{}`}
	anyText      = []string{`7`, `true`, `[]`, `{}`}
	badLogs      = append([]string{`"` + strings.Repeat("x", 16<<10+1) + `"`, `"` + strings.Repeat(`\ud800`, 6000) + `"`}, anyText...)
)

func items(values []string) []string {
	out := []string{`"a"`, `7`, `{}`}
	for _, v := range values {
		out = append(out, "["+v+"]")
	}
	return out
}

// badMembers are the wrong values of the fields of all bodies.
var badMembers = map[string][]string{
	"id": badIDs, "type": badNames, "payload": {`NaN`, `{"a":}`, `'x'`}, "priority": append([]string{`2147483648`}, badIntegers...),
	"runAt": badTimes, "startBefore": badPoints, "retainMs": badDurations, "class": anyText, "action": append([]string{`""`, `"DEAD"`}, badWords...),
	"onError": append(badLists, `[`+strings.Repeat(`{"class":"a","action":"dead"},`, 16)+`{"class":"a","action":"dead"}]`,
		`[{"class":"a","action":"dead","delayMs":1}]`),
	"delayMs": badDurations, "maxAttempts": append([]string{`-1`, `4294967296`}, badIntegers...),
	"leaseMs": append([]string{`86400001`}, badDurations...), "backoff": badObjects, "timeoutMs": badDurations, "group": badNames, "sequence": badNames,
	"headers":   {`[]`, `"a"`, `{"A":"x"}`, `{"":"x"}`, `{"a":1}`, `{"a":"` + strings.Repeat("x", 4096) + `"}`},
	"tags":      append(items(badNames), `[""]`, `["`+strings.Repeat("x", 101)+`"]`, `[`+strings.Repeat(`"a",`, 20)+`"b"]`, `[null]`),
	"limits":    append(items(badNames), `[""]`, `[null]`, `["`+strings.Repeat("x", 101)+`"]`, `["a*"]`, `["type:t"]`, `["group:t"]`, `[".."]`, `["a","b","c","d","e","f","g","h","i"]`),
	"uniqueKey": badNames, "uniqueScope": append([]string{`"active"`}, badWords...), "uniqueMs": append([]string{`1`}, badDurations...),
	"uniqueFields": append(items(badNames), `[""]`, `["absent"]`), "onConflict": append([]string{`"replace"`, `"debounce"`}, badWords...), "debounceMs": append([]string{`1`}, badDurations...), "debounceMaxMs": append([]string{`1`}, badDurations...),
	"after":        append(items(badJobIDs), `[`+strings.Repeat(`"a",`, 100)+`"b"]`),
	"afterFailure": badWords, "batchId": badIDs, "afterNames": append(items(badNames), `["a"]`), "step": badNames, "fresh": badFlags,
	"afterBatches": append(items(badIDs), `[""]`, `[`+strings.Repeat(`"a",`, 100)+`"b"]`), "parent": badObjects,
	"value": {`NaN`, `{`}, "signal": append([]string{`"` + strings.Repeat("x", 101) + `"`, `".."`}, badNames[1:]...),
	"from":   append([]string{`""`, `null`}, badLookups[2:]...),
	"reason": append([]string{`"` + strings.Repeat("x", 513) + `"`, `"a\u0000"`, `"a\nb"`}, anyText...),
	"until":  badTimes, "forMs": badDurations,
	"kind": append([]string{`""`, `null`}, badWords...), "baseMs": append([]string{`0`, `null`}, badDurations...), "capMs": badDurations,
	"jitter":   append([]string{`-1`, `101`, `9223372036854775807`}, badIntegers...),
	"workerId": badLookups, "types": append(items(badLookups), `[`+strings.Repeat(`"a",`, 1000)+`"b"]`),
	"max": append([]string{`0`, `-1`, `4294967296`}, badIntegers...), "waitMs": append([]string{`-1`}, badIntegers...),
	"requestId": badNames, "instance": badInstances, "confirms": badFlags, "token": badTokens, "progress": badObjects,
	"percent": {`-1`, `101`, `255`, `256`, `1.5`, `"1"`, `true`, `[]`, `NaN`}, "message": anyText, "at": badIntegers,
	"result": {`NaN`, `{`}, "log": badLogs, "claim": badObjects, "error": anyText, "retryable": badFlags, "retry": badFlags, "revision": append([]string{`-1`}, badIntegers...),
	"jobs": badLists, "jobId": badJobIDs, "callback": badObjects, "callbackOn": append([]string{`"ended"`}, badWords...),
	"ids": append(items(badJobIDs), `[]`), "filter": append([]string{`{}`}, badObjects...),
	"limit": append([]string{`-1`, `1`}, badIntegers...), "cursor": {`"x"`, `"AQI"`, `"\u0000"`, `7`, `[]`},
	"all": append([]string{`true`}, badFlags...), "tag": badLookups, "createdFrom": badPoints, "createdBefore": badPoints,
	"statuses": append(items(badWords), `["all"]`, `["dead","dead","dead","dead","dead","dead","dead","dead","dead"]`),
	"name":     append([]string{`""`, `null`}, badNames...), "version": badNames, "address": badNames,
	"sha256": append([]string{`""`, `null`, `"abc"`, `"` + strings.Repeat("g", 64) + `"`, `"` + zeroSum + `00"`}, anyText...),
	"size":   append([]string{`-1`, `5368709121`}, badIntegers...), "sealed": badFlags,
	"artefacts":  append(badLists, `[null]`, `[{"name":"a","id":"x"},{"name":"a","id":"y"}]`, `[`+strings.Repeat(`{"name":"a","id":"x"},`, 16)+`{"name":"b","id":"x"}]`),
	"maxRunning": append([]string{`-1`}, badIntegers...), "ratePerSecond": {`-1`, `0.0001`, `1000001`, `"1"`, `true`, `[1]`, `{}`, `NaN`},
	"burst":    append([]string{`-1`, `1000001`, `1`}, badIntegers...),
	"capacity": append([]string{`-1`, `4294967296`}, badIntegers...),
}

// zeroSum is a SHA-256.
var zeroSum = strings.Repeat("0", 64)

// badMembersOf are those of single bodies whose values are others.
var badMembersOf = map[reflect.Type]map[string][]string{
	reflect.TypeFor[v1.OnError]():        {"class": append([]string{`""`, `"a\u0000"`, `"` + strings.Repeat("x", 65) + `"`}, anyText...)},
	reflect.TypeFor[v1.NamedArtefact]():  badArtefacts,
	reflect.TypeFor[v1.AttachArtefact](): badArtefacts,
	reflect.TypeFor[v1.Claim]():          {"workerId": badNames},
	reflect.TypeFor[v1.NextClaim]():      {"requestId": append([]string{`""`, `null`}, badNames...)},
	reflect.TypeFor[v1.CompleteLease]():  {"result": {`NaN`}},
	reflect.TypeFor[v1.Batch]():          {"jobs": append([]string{`[]`, `null`}, badLists...)},
	reflect.TypeFor[v1.WorkerInfo]():     {"types": items(badNames)},
	reflect.TypeFor[v1.HoldLimit]():      {"forMs": append([]string{`null`, `86400001`}, badDurations...)},
	reflect.TypeFor[v1.Throttle]():       {"limit": {`""`, `null`, `"a*"`, `"*"`, `"type:t"`, `"` + strings.Repeat("x", 101) + `"`, `"a\u0000"`, `7`, `[]`}, "forMs": append([]string{`0`, `null`, `86400001`}, badDurations...)},
	reflect.TypeFor[v1.Filter](): {
		"type": badLookups, "group": badLookups, "batchId": badLookups, "workerId": append([]string{`""`}, badLookups...),
	},
}

var badArtefacts = map[string][]string{
	"name": append([]string{`""`, `null`, `"a/b"`, `".."`, `"a\u0000"`, `"` + strings.Repeat("x", 101) + `"`}, anyText...),
	"id":   append([]string{`""`, `null`}, badIDs...),
}

// badValues returns the wrong values of a field of a body.
func badValues(body reflect.Type, member string) []string {
	if values, own := badMembersOf[body][member]; own {
		return values
	}
	return badMembers[member]
}

// membersOf returns the names of the fields of a body.
func membersOf(body reflect.Type) (names []string) {
	for i := range body.NumField() {
		name, _, _ := strings.Cut(body.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// badInstances are not 64 bits in hexadecimal.
var badInstances = []string{`"x"`, `"00"`, `"0123456789abcdef0"`, `"-123456789abcdef"`, `7`, `true`, `[]`}

// badBody is the context of a body: %s in it is the field under test.
type badBody struct {
	verb  string // "": POST
	path  string
	of    reflect.Type
	body  string // with %s for the object's members
	under string // the member that the object is, as a pointer
	with  map[string]string
}

// badBodies are all bodies of requests on jobs, batches and workers, and their
// parts.
var badBodies = []badBody{
	{path: "/v1/jobs", of: reflect.TypeFor[v1.NewJob](), body: `{%s}`},
	{path: "/v1/jobs", of: reflect.TypeFor[v1.Backoff](), body: `{"backoff":{%s}}`, under: "/backoff", with: backoffWith},
	{path: "/v1/jobs", of: reflect.TypeFor[v1.OnError](), body: `{"onError":[{%s}]}`, under: "/onError/0", with: onErrorWith},
	{path: "/v1/jobs/batch", of: reflect.TypeFor[v1.Batch](), body: `{%s}`},
	{path: "/v1/jobs/batch", of: reflect.TypeFor[v1.NewJob](), body: `{"jobs":[{},{%s}]}`, under: "/jobs/1"},
	{path: "/v1/jobs/batch", of: reflect.TypeFor[v1.Backoff](), body: `{"jobs":[{"backoff":{%s}}]}`, under: "/jobs/0/backoff", with: backoffWith},
	{path: "/v1/batches", of: reflect.TypeFor[v1.NewBatch](), body: `{%s}`},
	{path: "/v1/batches", of: reflect.TypeFor[v1.NewJob](), body: `{"jobs":[{%s}]}`, under: "/jobs/0"},
	{path: "/v1/batches", of: reflect.TypeFor[v1.NewJob](), body: `{"callback":{%s}}`, under: "/callback"},
	{path: "/v1/jobs/claim", of: reflect.TypeFor[v1.Claim](), body: `{%s}`, with: map[string]string{"requestId": `"workerId":"w",`}},
	{path: "/v1/jobs/a/heartbeat", of: reflect.TypeFor[v1.Heartbeat](), body: `{%s}`},
	{path: "/v1/jobs/a/heartbeat", of: reflect.TypeFor[v1.Progress](), body: `{"progress":{%s}}`, under: "/progress"},
	{path: "/v1/jobs/a/progress", of: reflect.TypeFor[v1.Heartbeat](), body: `{%s}`},
	{path: "/v1/jobs/a/progress", of: reflect.TypeFor[v1.Progress](), body: `{"progress":{%s}}`, under: "/progress"},
	{path: "/v1/jobs/a/complete", of: reflect.TypeFor[v1.Complete](), body: `{%s}`},
	{path: "/v1/jobs/a/complete", of: reflect.TypeFor[v1.NextClaim](), body: `{"workerId":"w","claim":{%s}}`, under: "/claim", with: nextWith},
	{path: "/v1/jobs/a/force-complete", of: reflect.TypeFor[v1.ForceComplete](), body: `{%s}`},
	{path: "/v1/jobs/a/fail", of: reflect.TypeFor[v1.Fail](), body: `{%s}`},
	{path: "/v1/jobs/a/release", of: reflect.TypeFor[v1.Release](), body: `{%s}`},
	{path: "/v1/jobs/heartbeat", of: reflect.TypeFor[v1.HeartbeatBatch](), body: `{%s}`, with: jobsWith},
	{path: "/v1/jobs/heartbeat", of: reflect.TypeFor[v1.Lease](), body: `{"jobs":[{%s}]}`, under: "/jobs/0", with: leaseWith},
	{path: "/v1/jobs/heartbeat", of: reflect.TypeFor[v1.Progress](), body: `{"jobs":[{"jobId":"a"},{"jobId":"a","progress":{%s}}]}`, under: "/jobs/1/progress"},
	{path: "/v1/jobs/complete", of: reflect.TypeFor[v1.CompleteBatch](), body: `{%s}`, with: jobsWith},
	{path: "/v1/jobs/complete", of: reflect.TypeFor[v1.CompleteLease](), body: `{"jobs":[{%s}]}`, under: "/jobs/0", with: leaseWith},
	{path: "/v1/jobs/fail", of: reflect.TypeFor[v1.FailBatch](), body: `{%s}`, with: jobsWith},
	{path: "/v1/jobs/fail", of: reflect.TypeFor[v1.FailLease](), body: `{"jobs":[{%s}]}`, under: "/jobs/0", with: leaseWith},
	{path: "/v1/jobs/release", of: reflect.TypeFor[v1.ReleaseBatch](), body: `{%s}`, with: jobsWith},
	{path: "/v1/jobs/release", of: reflect.TypeFor[v1.ReleaseLease](), body: `{"jobs":[{%s}]}`, under: "/jobs/0", with: leaseWith},
	{verb: http.MethodPatch, path: "/v1/jobs/a", of: reflect.TypeFor[v1.EditJob](), body: `{%s}`},
	{path: "/v1/jobs/cancel", of: reflect.TypeFor[v1.ChangeJobs](), body: `{%s}`, with: changeWith},
	{path: "/v1/jobs/retry", of: reflect.TypeFor[v1.ChangeJobs](), body: `{%s}`, with: changeWith},
	{path: "/v1/jobs/delete", of: reflect.TypeFor[v1.ChangeJobs](), body: `{%s}`, with: changeWith},
	{path: "/v1/jobs/cancel", of: reflect.TypeFor[v1.Filter](), body: `{"filter":{%s}}`, under: "/filter", with: filterWith},
	{path: "/v1/jobs/delete", of: reflect.TypeFor[v1.Filter](), body: `{"filter":{%s}}`, under: "/filter", with: filterWith},
	{path: "/v1/jobs", of: reflect.TypeFor[v1.NamedArtefact](), body: `{"artefacts":[{%s}]}`, under: "/artefacts/0", with: artefactWith},
	{path: "/v1/artefacts", of: reflect.TypeFor[v1.NewArtefact](), body: `{%s}`, with: map[string]string{
		"": `"size":1,"sha256":"` + zeroSum + `",`, "size": `"sha256":"` + zeroSum + `",`, "sha256": `"size":1,`,
	}},
	{path: "/v1/jobs/a/artefacts", of: reflect.TypeFor[v1.AttachArtefact](), body: `{%s}`, with: artefactWith},
	{path: "/v1/jobs/a/throttle", of: reflect.TypeFor[v1.Throttle](), body: `{%s}`, with: map[string]string{"": `"limit":"k","forMs":1,`, "limit": `"forMs":1,`, "forMs": `"limit":"k",`}},
	{path: "/v1/jobs/a/steps", of: reflect.TypeFor[v1.NewStep](), body: `{%s}`, with: map[string]string{"": `"name":"s","value":1,`, "name": `"value":1,`, "value": `"name":"s",`}},
	{path: "/v1/jobs/a/suspend", of: reflect.TypeFor[v1.Suspend](), body: `{%s}`, with: map[string]string{"": `"forMs":1,`, "until": ``, "forMs": ``, "batchId": ``}},
	{path: "/v1/jobs/a/signals/s", of: reflect.TypeFor[v1.NewSignal](), body: `{%s}`},
	{path: "/v1/jobs/a/links", of: reflect.TypeFor[v1.NewLink](), body: `{%s}`, with: map[string]string{"": `"signal":"s",`, "signal": ``}},
	{verb: http.MethodPut, path: "/v1/limits/k", of: reflect.TypeFor[v1.LimitRule](), body: `{%s}`},
	{path: "/v1/limits/k/hold", of: reflect.TypeFor[v1.HoldLimit](), body: `{%s}`},
	{path: "/v1/queues/t/pause", of: reflect.TypeFor[v1.NewPause](), body: `{%s}`},
	{path: "/v1/workers", of: reflect.TypeFor[v1.WorkerInfo](), body: `{%s}`, with: map[string]string{"": `"name":"w",`, "name": ``}},
}

// The fields that must come before the field under test, so that it is checked: by field, or ""
// for all other fields.
var (
	artefactWith = map[string]string{"": `"id":"x","name":"n",`, "id": `"name":"n",`, "name": `"id":"x",`}
	backoffWith  = map[string]string{"": `"kind":"fixed",`, "kind": `"baseMs":1,`, "capMs": `"kind":"fixed","baseMs":1,`, "jitter": `"kind":"fixed","baseMs":1,`}
	jobsWith     = map[string]string{"workerId": `"jobs":[{"jobId":"a"}],`, "claim": `"jobs":[{"jobId":"a"}],`}
	nextWith     = map[string]string{"": `"requestId":"r",`, "requestId": ``}
	onErrorWith  = map[string]string{"": `"class":"a","action":"retry",`, "class": `"action":"dead",`, "action": `"class":"a",`}
	leaseWith    = map[string]string{"": `"jobId":"a",`, "jobId": ``}
	changeWith   = map[string]string{"limit": `"ids":["a"],`, "cursor": `"filter":{"all":true},`, "fresh": `"ids":["a"],`}
	filterWith   = map[string]string{"": `"statuses":["dead"],`, "statuses": ``}
)

func (b *badBody) prefix(member string) string {
	if text, there := b.with[member]; there {
		return text
	}
	return b.with[""]
}

// Each wrong value of each field of each body is refused, and the answer names the field.
func TestEveryBadValueNamesItsMember(t *testing.T) {
	for _, b := range badBodies {
		g := newRig(t)
		for _, member := range membersOf(b.of) {
			for _, value := range badValues(b.of, member) {
				body := fmt.Sprintf(b.body, b.prefix(member)+`"`+member+`":`+value)
				a := g.do(cmp.Or(b.verb, http.MethodPost), b.path, body)
				what := fmt.Sprintf("%s %.200s", b.path, body)
				if a.status != 400 {
					t.Errorf("%s: answered %d %s", what, a.status, a.body)
					continue
				}
				checkBlame(t, what, refused(t, a, 400, v1.TagBadRequest), b.under+"/"+member, value)
			}
		}
		if n := g.node.written(); n != 0 {
			t.Errorf("%s, %s: %d bodies were written all the same", b.path, b.of, n)
		}
	}
}

// checkBlame checks that a problem names the field, or, if the body is not JSON, the position.
func checkBlame(t *testing.T, what string, p v1.Problem, pointer, value string) {
	t.Helper()
	if !json.Valid([]byte(value)) || strings.Contains(value, "NaN") {
		if !strings.Contains(p.Detail, "not valid JSON") || !strings.Contains(p.Detail, "column") {
			t.Errorf("%s: %q does not say where", what, p.Detail)
		}
		return
	}
	name := pointer[strings.LastIndexByte(pointer, '/')+1:]
	if !strings.Contains(p.Detail, name) {
		t.Errorf("%s: %q does not name %s", what, p.Detail, name)
	}
	if len(p.Members) != 1 || !strings.HasPrefix(p.Members[0]+"/", pointer+"/") {
		t.Errorf("%s: members %q, want %s (%s)", what, p.Members, pointer, p.Detail)
	}
	if len(p.Detail) > 700 {
		t.Errorf("%s: a detail of %d bytes", what, len(p.Detail))
	}
	checkWords(t, p.Detail)
}

// wordsOfTheCode do not match within the random name of a token.
var wordsOfTheCode = regexp.MustCompile(`json:|\bjsontext\b|\bGo |\bu?int(8|16|32|64)\b|\buint\b|\bv1\.|\bfsm(pb)?\.`)

// checkWords checks that the detail of a problem has no words of the code.
func checkWords(t *testing.T, detail string) {
	t.Helper()
	if inside := wordsOfTheCode.FindString(detail); inside != "" {
		t.Errorf("%q speaks of %q", detail, inside)
	}
}

// The table has every body and every field.
func TestTheTableOfBadValuesIsWhole(t *testing.T) {
	tested := map[reflect.Type]bool{}
	for _, b := range badBodies {
		tested[b.of] = true
	}
	for typ := range tested {
		for i, name := range membersOf(typ) {
			if part := partOf(typ.Field(i).Type); part != nil && !tested[part] || len(badValues(typ, name)) == 0 {
				t.Errorf("%s.%s is not tested", typ, name)
			}
		}
	}
	for typ, members := range badMembersOf {
		for name := range members {
			if !tested[typ] || !slices.Contains(membersOf(typ), name) {
				t.Errorf("%s.%s is in no body", typ, name)
			}
		}
	}
}

// partOf returns the struct in a field; nil if there is none.
func partOf(t reflect.Type) reflect.Type {
	if t == reflect.TypeFor[json.RawMessage]() {
		return nil
	}
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	return t
}

// tracedTransport reports the steps of a request as net/http does, and fails.
type tracedTransport struct{ steps []string }

func (tt *tracedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	trace := httptrace.ContextClientTrace(r.Context())
	for _, step := range tt.steps {
		switch step {
		case "connection":
			trace.GetConn("leader:1")
		case "headers":
			trace.WroteHeaders()
		}
	}
	_ = r.Body.Close()
	return nil, errors.New("broken")
}

// net/http uses another connection only if nothing was written to the first one, so the state
// of the last one counts.
func TestWhatWasSentIsThatOfTheLastConnection(t *testing.T) {
	for want, steps := range map[string][]string{
		v1.CommittedNo:      {"connection", "headers", "connection"},
		v1.CommittedUnknown: {"connection", "connection", "headers"},
	} {
		g := newFollower(t, "leader:1", func(c *core.Config) { c.Transport = &tracedTransport{steps: steps} })
		p := refused(t, g.do("POST", "/v1/jobs", `{}`), http.StatusServiceUnavailable, v1.TagLeaderGone)
		if p.Committed != want {
			t.Errorf("%v: committed %q, want %q", steps, p.Committed, want)
		}
	}
}

// A body of unknown length has a length when it is forwarded.
func TestForwardedChunks(t *testing.T) {
	p := newPair(t)
	r := request("POST", "/v1/jobs", `{"id":"a"}`)
	r.ContentLength, r.TransferEncoding = -1, []string{"chunked"}
	ok[v1.Enqueued](t, p.follower.send(r))
	if got := (<-p.seen).Get("Content-Length"); got != "10" {
		t.Fatalf("Content-Length %q", got)
	}
}

func TestBodyLimitIsLowered(t *testing.T) {
	for given, want := range map[int64]int64{0: core.DefaultBodyBytes, -1: core.DefaultBodyBytes, 77: 77, 1 << 40: core.MaxBodyBytes} {
		g := newRig(t, func(c *core.Config) { c.MaxBody, c.Limits.ClaimJobs = given, 1<<30 })
		if g.s.Config.MaxBody != want || g.s.Config.Limits.ClaimJobs != 16_384 {
			t.Errorf("%d: a limit of %d bytes, claims of %d", given, g.s.Config.MaxBody, g.s.Config.Limits.ClaimJobs)
		}
	}
}

// Every step of a connection has a timeout.
func TestEveryConnectionHasTimeouts(t *testing.T) {
	g := newRig(t)
	d := core.DefaultTimeouts()
	h := g.s.http
	if h.ReadHeaderTimeout != d.Header || h.ReadTimeout != d.Body || h.WriteTimeout != d.Answer || h.IdleTimeout != d.Idle ||
		min(d.Header, d.Body, d.Answer, d.Idle) <= 0 {
		t.Fatalf("timeouts %s %s %s %s", h.ReadHeaderTimeout, h.ReadTimeout, h.WriteTimeout, h.IdleTimeout)
	}
}

// A server has a backend, and an ack level that exists.
func TestNewPanics(t *testing.T) {
	for _, c := range []core.Config{{}, {Backend: newFake(), Ack: "bucket"}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("it did not with the ack level %q", c.Ack)
				}
			}()
			New(c)
		}()
	}
}
