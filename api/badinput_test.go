package api

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
)

// The answer to a bad request names the fault so that the client can find and correct it.
func TestBadRequests(t *testing.T) {
	long := strings.Repeat("x", 300)
	for name, tc := range map[string]struct {
		path, body string
		status     int
		tag        string
		say        string // part of the detail
	}{
		"empty":            {"/v1/jobs", " \n", 400, v1.TagBadRequest, "empty"},
		"null":             {"/v1/jobs", `null`, 400, v1.TagBadRequest, "must be a JSON object"},
		"list":             {"/v1/jobs", `[1,2]`, 400, v1.TagBadRequest, "must be a JSON object"},
		"text":             {"/v1/jobs", `"{}"`, 400, v1.TagBadRequest, "must be a JSON object"},
		"cut off":          {"/v1/jobs", `{"payload":`, 400, v1.TagBadRequest, "ends in the middle"},
		"comma":            {"/v1/jobs", "{\"id\":\"a\",\n  \"type\":,}", 400, v1.TagBadRequest, "line 2, column 10"},
		"trailing":         {"/v1/jobs", `{"id":"a"} {}`, 400, v1.TagBadRequest, "byte 11"},
		"trailing junk":    {"/v1/jobs", `{"id":"a"}x`, 400, v1.TagBadRequest, "byte 10"},
		"single quotes":    {"/v1/jobs", `{'id':1}`, 400, v1.TagBadRequest, "byte 1"},
		"not UTF-8":        {"/v1/jobs", "{\"payload\":\"\xff\"}", 400, v1.TagBadRequest, "not UTF-8 (at byte 12"},
		"NaN":              {"/v1/jobs", `{"payload":NaN}`, 400, v1.TagBadRequest, "payload is not valid JSON"},
		"NaN inside":       {"/v1/jobs/batch", `{"jobs":[{},{"delayMs":NaN}]}`, 400, v1.TagBadRequest, "jobs/1/delayMs is not valid JSON"},
		"null job":         {"/v1/jobs/batch", `{"jobs":[{},null]}`, 400, v1.TagBadRequest, "jobs[1]: null is not a job"},
		"type of dots":     {"/v1/jobs", `{"type":".."}`, 400, v1.TagBadRequest, "type is "},
		"worker of dots":   {"/v1/workers", `{"name":"."}`, 400, v1.TagBadRequest, "name is "},
		"after long":       {"/v1/jobs", `{"after":["` + long + `"]}`, 400, v1.TagBadRequest, "after[0]"},
		"too deep":         {"/v1/jobs", `{"payload":` + strings.Repeat("[", 20_000), 400, v1.TagBadRequest, "payload/0/0/0 nests objects and lists more than 200 levels deep (at byte 210"},
		"id number":        {"/v1/jobs", `{"id":7}`, 400, v1.TagBadRequest, "id: want text, got "},
		"type list":        {"/v1/jobs", `{"type":["a"]}`, 400, v1.TagBadRequest, "type: want text, got a list"},
		"attempts text":    {"/v1/jobs", `{"maxAttempts":"5"}`, 400, v1.TagBadRequest, "maxAttempts: want a whole number of 32 bits, got text"},
		"attempts broken":  {"/v1/jobs", `{"maxAttempts":1.5}`, 400, v1.TagBadRequest, "maxAttempts"},
		"attempts huge":    {"/v1/jobs", `{"maxAttempts":2147483648}`, 400, v1.TagBadRequest, "maxAttempts"},
		"attempts below":   {"/v1/jobs", `{"maxAttempts":-1}`, 400, v1.TagBadRequest, "maxAttempts"},
		"priority huge":    {"/v1/jobs", `{"priority":99999999999}`, 400, v1.TagBadRequest, "priority"},
		"id space":         {"/v1/jobs", `{"id":"a b"}`, 400, v1.TagBadRequest, "id contains ' '"},
		"id NUL":           {"/v1/jobs", `{"id":"a\u0000"}`, 400, v1.TagBadRequest, "id contains"},
		"id long":          {"/v1/jobs", `{"id":"` + long[:129] + `"}`, 400, v1.TagBadRequest, "at most 128 are allowed"},
		"id dots":          {"/v1/jobs", `{"id":".."}`, 400, v1.TagBadRequest, "id"},
		"type NUL":         {"/v1/jobs", `{"type":"\u0000"}`, 400, v1.TagBadRequest, "NUL"},
		"type long":        {"/v1/jobs", `{"type":"` + long + `"}`, 400, v1.TagBadRequest, "at most 256 are allowed"},
		"lease below":      {"/v1/jobs", `{"leaseMs":-1}`, 400, v1.TagBadRequest, "leaseMs is -1; must not be negative"},
		"lease long":       {"/v1/jobs", `{"leaseMs":86400001}`, 400, v1.TagBadRequest, "leaseMs"},
		"delay below":      {"/v1/jobs", `{"delayMs":-5}`, 400, v1.TagBadRequest, "delayMs"},
		"delay long":       {"/v1/jobs", `{"delayMs":9223372036854775807}`, 400, v1.TagBadRequest, "delayMs"},
		"seconds":          {"/v1/jobs", `{"runAt":1700000000}`, 400, v1.TagBadRequest, "milliseconds"},
		"microseconds":     {"/v1/jobs", `{"runAt":1700000000000000}`, 400, v1.TagBadRequest, "in the future"},
		"run at below":     {"/v1/jobs", `{"runAt":-1}`, 400, v1.TagBadRequest, "runAt"},
		"both times":       {"/v1/jobs", `{"runAt":1800000000000,"delayMs":1}`, 400, v1.TagBadRequest, "cannot be combined"},
		"batch member":     {"/v1/jobs/batch", `{"jobs":[{},{"priority":true}]}`, 400, v1.TagBadRequest, "jobs/1/priority: want"},
		"batch no list":    {"/v1/jobs/batch", `{"jobs":{}}`, 400, v1.TagBadRequest, "jobs: want a list, got an object"},
		"batch item":       {"/v1/jobs/batch", `{"jobs":["a"]}`, 400, v1.TagBadRequest, "jobs/0: want an object, got text"},
		"worker number":    {"/v1/jobs/claim", `{"workerId":7}`, 400, v1.TagBadRequest, "workerId: want text"},
		"worker NUL":       {"/v1/jobs/claim", `{"workerId":"\u0000"}`, 400, v1.TagBadRequest, "workerId contains the character NUL"},
		"worker long":      {"/v1/jobs/claim", `{"workerId":"` + long + `"}`, 400, v1.TagBadRequest, "workerId"},
		"types object":     {"/v1/jobs/claim", `{"types":{"length":1}}`, 400, v1.TagBadRequest, "types: want a list"},
		"types many":       {"/v1/jobs/claim", `{"types":[` + strings.Repeat(`"a",`, 1000) + `"b"]}`, 400, v1.TagBadRequest, "at most 1000"},
		"types NUL":        {"/v1/jobs/claim", `{"types":["a\u0000"]}`, 400, v1.TagBadRequest, "NUL"},
		"wait below":       {"/v1/jobs/claim", `{"waitMs":-1}`, 400, v1.TagBadRequest, "waitMs"},
		"request NUL":      {"/v1/jobs/claim", `{"workerId":"w","requestId":"\u0000"}`, 400, v1.TagBadRequest, "requestId"},
		"request long":     {"/v1/jobs/claim", `{"workerId":"w","requestId":"` + long + `"}`, 400, v1.TagBadRequest, "requestId"},
		"token below":      {"/v1/jobs/a/complete", `{"token":-1}`, 400, v1.TagBadRequest, "token: want"},
		"log number":       {"/v1/jobs/a/complete", `{"log":1}`, 400, v1.TagBadRequest, "log: want text"},
		"log long":         {"/v1/jobs/a/complete", `{"log":"` + strings.Repeat("x", 16385) + `"}`, 400, v1.TagBadRequest, "log has 16385 bytes; at most 16384"},
		"batch log long":   {"/v1/jobs/complete", `{"jobs":[{"jobId":"a"},{"jobId":"b","log":"` + strings.Repeat("x", 16385) + `"}]}`, 400, v1.TagBadRequest, "jobs[1]: log has"},
		"token text":       {"/v1/jobs/a/heartbeat", `{"token":"1"}`, 400, v1.TagBadRequest, "token: want"},
		"retryable number": {"/v1/jobs/a/fail", `{"retryable":0}`, 400, v1.TagBadRequest, "retryable: want true or false"},
		"fail delay":       {"/v1/jobs/a/fail", `{"delayMs":-1}`, 400, v1.TagBadRequest, "delayMs"},
		"report worker":    {"/v1/jobs/a/release", `{"workerId":"\u0000"}`, 400, v1.TagBadRequest, "workerId"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t)
			p := refused(t, g.do("POST", tc.path, tc.body), tc.status, tc.tag)
			if !strings.Contains(p.Detail, tc.say) || p.Committed != v1.CommittedNo {
				t.Errorf("detail %q, want …%s…; committed %q", p.Detail, tc.say, p.Committed)
			}
			for _, inside := range []string{"json:", "Go ", "int32", "v1.", "fsm"} {
				if strings.Contains(p.Detail, inside) {
					t.Errorf("detail %q speaks of %q", p.Detail, inside)
				}
			}
			if g.node.written() != 0 {
				t.Error("it was written all the same")
			}
		})
	}
}

func TestWrongMemberIsNamed(t *testing.T) {
	g := newRig(t)
	p := refused(t, g.do("POST", "/v1/jobs/batch", `{"jobs":[{"maxAttempts":"x"}]}`), 400, v1.TagBadRequest)
	if len(p.Members) != 1 || p.Members[0] != "/jobs/0/maxAttempts" {
		t.Fatalf("members %q", p.Members)
	}
	// What the request holds is not repeated at length.
	name := strings.Repeat("n", 10_000)
	p = refused(t, g.do("POST", "/v1/jobs", `{"`+name+`":1}`, "Prefer", v1.PreferStrict), 400, v1.TagUnknownMember)
	if len(p.Detail) > 500 {
		t.Fatalf("a detail of %d bytes", len(p.Detail))
	}
}

func TestContentTypes(t *testing.T) {
	g := newRig(t)
	for _, given := range []string{"application/json", "application/json; charset=utf-8", "Application/JSON;charset=UTF-8"} {
		ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{}`, "Content-Type", given))
	}
	for _, given := range []string{"", "text/plain", "application/x-www-form-urlencoded", "application/json5", "a/b/c;;;"} {
		p := refused(t, g.do("POST", "/v1/jobs", `{}`, "Content-Type", given), http.StatusUnsupportedMediaType, v1.TagMediaType)
		if !strings.Contains(p.Detail, "application/json") {
			t.Errorf("detail %q", p.Detail)
		}
	}
	refused(t, g.do("POST", "/v1/jobs", `{}`, "Content-Encoding", "gzip"), http.StatusUnsupportedMediaType, v1.TagMediaType)
	ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{}`, "Content-Encoding", "identity"))
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

func TestUnknownMembers(t *testing.T) {
	g := newRig(t)
	const body = `{"id":"a","jobid":1,"payload":{"extra":1},"foo":{"bar":1},"a/b":[]}`
	a := g.do("POST", "/v1/jobs", body)
	ok[v1.Enqueued](t, a)
	if a.header.Get("Preference-Applied") != "" {
		t.Fatal("a preference that nobody has was applied")
	}
	for _, wish := range []string{"handling=strict", "respond-async, Handling=\"strict\";x=1", "handling=strict, handling=lenient"} {
		p := refused(t, g.do("POST", "/v1/jobs", body, "Prefer", wish), http.StatusBadRequest, v1.TagUnknownMember)
		if strings.Join(p.Members, " ") != "/jobid /foo /a~1b" {
			t.Errorf("%s: members %q", wish, p.Members)
		}
	}
	for _, wish := range []string{"handling=lenient", "handling=lenient, handling=strict", "strict", "return=minimal"} {
		ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", body, "Prefer", wish))
	}
	p := refused(t, g.do("POST", "/v1/jobs/batch", `{"jobs":[{},{"x":1,"payload":{"y":1}},{"z":null}],"w":{}}`,
		"Prefer", v1.PreferStrict), http.StatusBadRequest, v1.TagUnknownMember)
	if strings.Join(p.Members, " ") != "/jobs/1/x /jobs/2/z /w" || !strings.Contains(p.Detail, "jobs/1/x, jobs/2/z, w") {
		t.Errorf("members %q, detail %q", p.Members, p.Detail)
	}
	a = g.do("POST", "/v1/jobs", `{"id":"b"}`, "Prefer", v1.PreferStrict)
	if ok[v1.Enqueued](t, a); a.header.Get("Preference-Applied") != v1.PreferStrict {
		t.Fatalf("Preference-Applied %q", a.header.Get("Preference-Applied"))
	}
	// Routes that no older client calls refuse without being asked, unless they are asked not to.
	p = refused(t, g.do("POST", "/v1/jobs/batch", `{"jobs":[{"typ":"a"}]}`), http.StatusBadRequest, v1.TagUnknownMember)
	if strings.Join(p.Members, " ") != "/jobs/0/typ" {
		t.Errorf("members %q", p.Members)
	}
	ok[v1.BatchEnqueued](t, g.do("POST", "/v1/jobs/batch", `{"jobs":[{"typ":"a"}]}`, "Prefer", "handling=lenient"))
	// The number of named fields is bounded.
	many := `{` + strings.Repeat(`"u":1,`, 500) + `"v":1}`
	p = refused(t, g.do("POST", "/v1/jobs", many, "Prefer", v1.PreferStrict), http.StatusBadRequest, v1.TagUnknownMember)
	if len(p.Members) != core.UnknownMax {
		t.Errorf("%d members", len(p.Members))
	}
}

func TestUnknownParams(t *testing.T) {
	g := newRig(t)
	ok[v1.JobList](t, g.do("GET", "/v1/jobs?statsu=dead", ""))
	p := refused(t, g.do("GET", "/v1/jobs?statsu=dead&b=1&status=dead&minLsn=", "", "Prefer", v1.PreferStrict),
		http.StatusBadRequest, v1.TagUnknownMember)
	if strings.Join(p.Members, " ") != "b statsu" || p.Committed != "" {
		t.Fatalf("problem %+v", p)
	}
}

func TestUnknownRoutes(t *testing.T) {
	g := newRig(t)
	for _, target := range []string{"/", "/nope", "/v1/jobs/", "/v1/jobs/a/b", "/v1/jobs//heartbeat", "/v1//jobs", "/healthz/", "/v1/../v1/jobs"} {
		for _, method := range []string{"GET", "POST"} {
			a := g.do(method, target, "")
			p := refused(t, a, http.StatusNotFound, v1.TagNoRoute)
			want := "Route " + method + ":" + target + " not found"
			if p.Message != want || p.Error != "Not Found" || p.StatusCode != http.StatusNotFound || a.header.Get("Location") != "" {
				t.Errorf("%s %s: %s", method, target, a.body)
			}
		}
	}
	if p := refused(t, g.do("GET", "/x?"+strings.Repeat("y", 5000), ""), 404, v1.TagNoRoute); len(p.Detail) > 1200 {
		t.Errorf("a detail of %d bytes", len(p.Detail))
	}
}

func TestWrongMethods(t *testing.T) {
	g := newRig(t)
	for _, tc := range []struct{ method, path, allow string }{
		{"DELETE", "/v1/jobs", "GET, HEAD, POST"},
		{"GET", "/v1/jobs/a/complete", "POST"},
		{"POST", "/v1/stats", "GET, HEAD"},
		{"PUT", "/v1/jobs/batch", "GET, HEAD, POST, DELETE"}, // a job could have that name
		{"POST", "/v1/workers/w", "GET, HEAD, DELETE"},
		{"POST", "/state", "GET, HEAD"},
	} {
		a := g.do(tc.method, tc.path, "")
		p := refused(t, a, http.StatusMethodNotAllowed, v1.TagMethod)
		if got := a.header.Get("Allow"); got != tc.allow || p.Committed != "" {
			t.Errorf("%s %s: Allow %q, want %q", tc.method, tc.path, got, tc.allow)
		}
		if want := tc.path + " does not allow the method " + tc.method; !strings.HasPrefix(p.Detail, want) {
			t.Errorf("detail %q, want %q", p.Detail, want)
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
