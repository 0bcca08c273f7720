package osqueue

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"go.yaml.in/yaml/v3"

	v1 "osqueue/client/api/v1"
	"osqueue/compat/compattest"
)

const jsonType = "application/json; charset=utf-8"

// errorCases are requests that the legacy broker answers with an error.
var errorCases = map[string]struct {
	method, path, body string
	headers            []string
	status             int
	want               string // part of the body
}{
	"empty body":          {method: "POST", path: "/v1/jobs", status: 400, want: `"_tag":"BrokerProtocolError"`},
	"invalid JSON":        {method: "POST", path: "/v1/jobs", body: `{"payload":`, status: 400, want: `"_tag":"BrokerProtocolError"`},
	"null":                {method: "POST", path: "/v1/jobs", body: `null`, status: 400, want: `"_tag":"BrokerProtocolError"`},
	"too large":           {method: "POST", path: "/v1/jobs", body: `{"payload":"` + strings.Repeat("a", 1<<20) + `"}`, status: 413, want: `"_tag":"BrokerProtocolError"`},
	"XML":                 {method: "POST", path: "/v1/jobs", body: `<a/>`, headers: []string{"Content-Type", "application/xml"}, status: 415, want: `"_tag":"BrokerProtocolError"`},
	"no type":             {method: "POST", path: "/v1/jobs", body: `{}`, headers: []string{"Content-Type", ""}, status: 415, want: `"_tag":"BrokerProtocolError"`},
	"claim, empty":        {method: "POST", path: "/v1/jobs/claim", status: 400, want: `"_tag":"BrokerProtocolError"`},
	"heartbeat, empty":    {method: "POST", path: "/v1/jobs/abc/heartbeat", status: 400, want: `"_tag":"BrokerProtocolError"`},
	"complete, invalid":   {method: "POST", path: "/v1/jobs/abc/complete", body: `{`, status: 400, want: `"_tag":"BrokerProtocolError"`},
	"unknown":             {method: "GET", path: "/nope?a=b", status: 404, want: `{"message":"Route GET:/nope?a=b not found","error":"Not Found","statusCode":404}`},
	"root":                {method: "GET", path: "/", status: 404, want: `{"message":"Route GET:/ not found","error":"Not Found","statusCode":404}`},
	"GET claim":           {method: "GET", path: "/v1/jobs/claim", status: 404, want: `{"message":"Route GET:/v1/jobs/claim not found","error":"Not Found","statusCode":404}`},
	"DELETE jobs":         {method: "DELETE", path: "/v1/jobs", status: 404, want: `{"message":"Route DELETE:/v1/jobs not found","error":"Not Found","statusCode":404}`},
	"PUT complete":        {method: "PUT", path: "/v1/jobs/a/complete", body: `{}`, status: 404, want: `{"message":"Route PUT:/v1/jobs/a/complete not found"`},
	"POST job":            {method: "POST", path: "/v1/jobs/abc", body: `{}`, status: 404, want: `{"message":"Route POST:/v1/jobs/abc not found","error":"Not Found","statusCode":404}`},
	"PUT job":             {method: "PUT", path: "/v1/jobs/abc?x=1", body: `{}`, status: 404, want: `{"message":"Route PUT:/v1/jobs/abc?x=1 not found"`},
	"GET complete":        {method: "GET", path: "/v1/jobs/abc/complete", status: 404, want: `{"message":"Route GET:/v1/jobs/abc/complete not found"`},
	"DELETE heartbeat":    {method: "DELETE", path: "/v1/jobs/abc/heartbeat", status: 404, want: `{"message":"Route DELETE:/v1/jobs/abc/heartbeat not found"`},
	"GET fail":            {method: "GET", path: "/v1/jobs/abc/fail", status: 404, want: `{"message":"Route GET:/v1/jobs/abc/fail not found"`},
	"unknown action":      {method: "POST", path: "/v1/jobs/abc/nope", body: `{}`, status: 404, want: `{"message":"Route POST:/v1/jobs/abc/nope not found"`},
	"slash after action":  {method: "POST", path: "/v1/jobs/abc/complete/", body: `{}`, status: 404, want: `{"message":"Route POST:/v1/jobs/abc/complete/ not found"`},
	"PATCH stats":         {method: "PATCH", path: "/v1/stats", body: `{}`, status: 404, want: `{"message":"Route PATCH:/v1/stats not found"`},
	"POST stats":          {method: "POST", path: "/v1/stats", body: `{}`, status: 404, want: `{"message":"Route POST:/v1/stats not found"`},
	"POST healthz":        {method: "POST", path: "/healthz", body: `{}`, status: 404, want: `{"message":"Route POST:/healthz not found"`},
	"POST state":          {method: "POST", path: "/state", body: `{}`, status: 404, want: `{"message":"Route POST:/state not found"`},
	"POST throttle-stats": {method: "POST", path: "/v1/throttle-stats", body: `{}`, status: 404, want: `{"message":"Route POST:/v1/throttle-stats not found"`},
	"slash":               {method: "GET", path: "/v1/jobs/", status: 404, want: `{"message":"Route GET:/v1/jobs/ not found"`},
	"escaped":             {method: "GET", path: "/v1/%73tats", status: 404, want: `{"message":"Route GET:/v1/%73tats not found"`},
	"POST on the socket":  {method: "POST", path: "/v1/ws", body: `{}`, status: 404, want: `{"message":"Route POST:/v1/ws not found"`},
}

func TestErrorsOfREST(t *testing.T) { //nolint:tparallel // the cases share a cluster
	t.Parallel()
	c := start(t, 2, Limits{})
	for who, n := range c.asked() {
		for name, test := range errorCases {
			t.Run(name+", "+who, func(t *testing.T) {
				got := request(t, test.method, n.address, test.path, test.body, append(test.headers, "Origin", "null")...)
				if got.status != test.status || got.header.Get("Content-Type") != jsonType || !strings.Contains(got.body, test.want) {
					t.Errorf("answered %d %s %s", got.status, got.header, got.body)
				}
				if test.status != http.StatusNotFound && !strings.Contains(got.body, `"message":"`) {
					t.Errorf("no message in %s", got.body)
				}
				for name, want := range map[string]string{"Vary": "Origin", "Access-Control-Allow-Origin": "null", "Access-Control-Expose-Headers": exposedHeaders} {
					if values := got.header[name]; len(values) != 1 || values[0] != want {
						t.Errorf("%s is %q", name, values)
					}
				}
			})
		}
	}
}

// A client that accepts the API's problems, or uses its features, gets its answers.
func TestNativeAnswersStay(t *testing.T) { //nolint:tparallel // the cases share a cluster
	t.Parallel()
	c := start(t, 2, Limits{})
	for who, n := range c.asked() {
		for name, test := range map[string]struct {
			method, path, body string
			headers            []string
			status             int
			tag                string
		}{
			"bad request":   {"POST", "/v1/jobs", `{`, []string{"Accept", "application/json, application/problem+json"}, 400, v1.TagBadRequest},
			"unknown route": {"GET", "/nope", "", []string{"Accept", v1.MediaTypeProblem}, 404, v1.TagNoRoute},
			"wrong method":  {"DELETE", "/v1/jobs", "", []string{"Accept", v1.MediaTypeProblem}, 405, v1.TagMethod},
			"token":         {"POST", "/v1/jobs/nope/complete", `{"workerId":"w","token":5}`, nil, 404, v1.TagNotFound},
			"job":           {"GET", "/v1/jobs/nope", "", nil, 404, v1.TagNotFound},
			"other method":  {"DELETE", "/v1/batches", "", nil, 405, v1.TagMethod},
			"strict":        {"POST", "/v1/jobs", `{"foo":1}`, []string{"Prefer", "handling=strict"}, 400, v1.TagUnknownMember},
		} {
			t.Run(name+", "+who, func(t *testing.T) {
				got := request(t, test.method, n.address, test.path, test.body, test.headers...)
				if got.status != test.status || got.header.Get("Content-Type") != v1.MediaTypeProblem || !strings.Contains(got.body, `"_tag":"`+test.tag+`"`) {
					t.Errorf("answered %d %s %s", got.status, got.header.Get("Content-Type"), got.body)
				}
			})
		}
	}
}

// Every query parameter of the API counts on the routes that the legacy broker has, too: with it
// alone, the query is not dropped as that of a legacy client.
func TestParametersOfTheAPI(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	type parameter struct {
		Ref      string `yaml:"$ref"`
		Name, In string
	}
	var document struct {
		Paths      map[string]map[string]struct{ Parameters []parameter }
		Components struct{ Parameters map[string]parameter }
	}
	if err := yaml.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for path, operations := range document.Paths {
		for method, op := range operations {
			method, path := strings.ToUpper(method), strings.Replace(path, "{id}", "j", 1)
			if _, allowed := isOriginal(method, path); !allowed {
				continue
			}
			for _, p := range op.Parameters {
				if name, isRef := strings.CutPrefix(p.Ref, "#/components/parameters/"); isRef {
					p = document.Components.Parameters[name]
				}
				if p.In != "query" {
					continue
				}
				seen[p.Name] = true
				target := path + "?" + p.Name + "=1&theirs=2"
				if kept := (&answer{r: httptest.NewRequest(method, target, nil)}).target(path); kept != target {
					t.Errorf("%s %s becomes %s", method, target, kept)
				}
			}
		}
	}
	if !seen[v1.ParamAt] || len(seen) < 20 {
		t.Errorf("only these parameters were found: %v", seen)
	}
}

// A state that is not kept is 404, and the answer says what is kept: on the routes that the legacy
// broker has as on the others, and not the present counts.
func TestStatesThatAreNotKept(t *testing.T) {
	t.Parallel()
	c := start(t, 1, Limits{})
	// The first flush of a new queue writes no archive, and replaces the state at 0-0 by its own.
	waitFor(t, "archive", func() bool { return !c.all[0].node.Status().ArchiveLSN.IsZero() })
	for _, path := range []string{v1.PathStats, v1.PathJobs, v1.PathCount, v1.PathQueues, v1.PathQueues + "/mail", v1.PathHistory, v1.PathWorkers} {
		resp, err := http.Get("http://" + c.all[0].address + path + "?at=9000-1")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if text := string(body); err != nil || resp.StatusCode != http.StatusNotFound || !strings.Contains(text, v1.TagNotKept) ||
			!strings.Contains(text, "the bucket has the states from LSN 0-0 (the beginning of the queue) to LSN ") {
			t.Errorf("%s: %d %s %v", path, resp.StatusCode, body, err)
		}
	}
}

func TestIDsOfSubmissions(t *testing.T) {
	t.Parallel()
	c := start(t, 2, Limits{})
	for who, n := range c.asked() {
		var out v1.Enqueued
		submit := func(body string, headers ...string) string {
			readJSON(t, request(t, "POST", n.address, v1.PathJobs, body, headers...), &out)
			return out.JobID
		}
		for _, body := range []string{`{}`, `{"id":"old","status":"unclaimed"}`, `{"id":7}`} {
			if id := submit(body); !uuid4.MatchString(id) {
				t.Errorf("%s: %s gets the id %q", who, body, id)
			}
		}
		if id := submit(`{"id":"mine-` + who + `"}`); id != "mine-"+who {
			t.Errorf("%s: the id is %q", who, id)
		}
		if id := submit(`{}`, "Accept", v1.MediaTypeProblem); uuid4.MatchString(id) {
			t.Errorf("%s: to who knows the API the id is %q", who, id)
		}
		key := []string{"Idempotency-Key", "k-" + who}
		if first, again := submit(`{"payload":1}`, key...), submit(`{"payload":1}`, key...); first != again {
			t.Errorf("%s: with one key the ids are %q and %q", who, first, again)
		}
		// The largest body that there may be: the id makes it larger.
		body := `{"payload":"` + strings.Repeat("a", defaultMaxBody-len(`{"payload":""}`)) + `"}`
		if id := submit(body); !uuid4.MatchString(id) {
			t.Errorf("%s: %q", who, id)
		}
	}
}

// Legacy clients get a list in one answer.
func TestListIsWhole(t *testing.T) {
	t.Parallel()
	c := start(t, 2, Limits{})
	const jobs = 2*pageJobs + 7
	var batch v1.Batch
	for i := range jobs {
		batch.Jobs = append(batch.Jobs, v1.NewJob{ID: fmt.Sprintf("j%03d", i)})
	}
	body, err := json.Marshal(&batch)
	if err != nil {
		t.Fatal(err)
	}
	if got := request(t, "POST", c.leader().address, v1.PathJobsBatch, string(body)); got.status != 200 {
		t.Fatal(got)
	}
	for who, n := range c.asked() {
		var list v1.JobList
		readJSON(t, request(t, "GET", n.address, v1.PathJobs, ""), &list)
		if len(list.Jobs) != jobs || list.NextCursor != "" || list.Total != jobs || list.LSN == "" {
			t.Errorf("%s: %d jobs, then %q, of %d", who, len(list.Jobs), list.NextCursor, list.Total)
		}
		for i := range list.Jobs {
			if list.Jobs[i].ID != batch.Jobs[i].ID {
				t.Fatalf("%s: %s at %d", who, list.Jobs[i].ID, i)
			}
		}
		var page v1.JobList
		readJSON(t, request(t, "GET", n.address, v1.PathJobs+"?limit=3", ""), &page)
		if len(page.Jobs) != 3 || page.NextCursor == "" {
			t.Errorf("%s: a page has %d jobs, then %q", who, len(page.Jobs), page.NextCursor)
		}
		var native v1.JobList
		readJSON(t, request(t, "GET", n.address, v1.PathJobs, "", "Accept", v1.MediaTypeProblem), &native)
		if len(native.Jobs) != pageJobs {
			t.Errorf("%s: the API's page has %d jobs", who, len(native.Jobs))
		}
		readJSON(t, request(t, "GET", n.address, v1.PathJobs+"?_=1700000000&_=2&x=%zz", ""), &list)
		if len(list.Jobs) != jobs {
			t.Errorf("%s: with a query that means nothing: %d jobs", who, len(list.Jobs))
		}
		if got := request(t, "GET", n.address, v1.PathJobs+"?limit=x", ""); got.status != http.StatusBadRequest {
			t.Errorf("%s: with one that is wrong: %+v", who, got)
		}
		if got := request(t, "HEAD", n.address, v1.PathJobs, ""); got.status != 200 || got.body != "" {
			t.Errorf("%s: HEAD: %+v", who, got)
		}
	}
}

func TestCORS(t *testing.T) {
	const page = "https://dash.example.test:8443"
	answer := func(origins, method, path string, headers ...string) *httptest.ResponseRecorder {
		o, err := ParseOrigins(origins)
		if err != nil {
			t.Fatal(err)
		}
		api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusTeapot) })
		r := httptest.NewRequest(method, path, nil)
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		New(Config{Native: api, Calls: compattest.API{Handler: api}, Origins: o}).ServeHTTP(w, r)
		return w
	}
	const origin, asked = "Origin", "Access-Control-Request-Method"
	for name, test := range map[string]struct {
		origins, method, path string
		headers               []string
		status                int
		allowed, vary         string
		body                  string
	}{
		"GET":                  {"any", "GET", "/v1/stats", []string{origin, page}, 418, page, "Origin", ""},
		"null":                 {"any", "GET", "/v1/stats", []string{origin, "null"}, 418, "null", "Origin", ""},
		"star":                 {"*", "GET", "/v1/stats", []string{origin, page}, 418, page, "Origin", ""},
		"no origin":            {"any", "GET", "/v1/stats", nil, 418, "", "Origin", ""},
		"listed":               {"http://a.test," + page, "GET", "/v1/stats", []string{origin, page}, 418, page, "Origin", ""},
		"not listed":           {page, "GET", "/v1/stats", []string{origin, "https://dash.example.test"}, 418, "", "Origin", ""},
		"none":                 {"none", "GET", "/v1/stats", []string{origin, page}, 418, "", "", ""},
		"preflight":            {"any", "OPTIONS", "/v1/jobs", []string{origin, page, asked, "POST"}, 204, page, "Origin", ""},
		"preflight, DELETE":    {"any", "OPTIONS", "/v1/jobs", []string{origin, page, asked, "DELETE"}, 204, page, "Origin", ""},
		"preflight, nowhere":   {"any", "OPTIONS", "/nope", []string{origin, page, asked, "POST"}, 204, page, "Origin", ""},
		"preflight, Connect":   {"any", "OPTIONS", rpcPrefix + "GetStats", []string{origin, page, asked, "POST"}, 204, page, "Origin", ""},
		"preflight, socket":    {"any", "OPTIONS", socketPath, []string{origin, page, asked, "GET"}, 204, page, "Origin", ""},
		"preflight, other":     {page, "OPTIONS", "/v1/jobs", []string{origin, "http://b.test", asked, "POST"}, 204, "", "Origin", ""},
		"OPTIONS, no origin":   {"any", "OPTIONS", "/v1/jobs", []string{asked, "POST"}, 400, "", "Origin", "Invalid Preflight Request"},
		"OPTIONS, no question": {"any", "OPTIONS", "/v1/jobs", []string{origin, page}, 400, page, "Origin", "Invalid Preflight Request"},
		"OPTIONS, none":        {"none", "OPTIONS", "/v1/jobs", []string{origin, page, asked, "POST"}, 418, "", "", ""},
	} {
		resp := answer(test.origins, test.method, test.path, test.headers...)
		h, body := resp.Header(), resp.Body.String()
		if resp.Code != test.status || h.Get("Access-Control-Allow-Origin") != test.allowed || h.Get("Vary") != test.vary || body != test.body {
			t.Errorf("%s: %d %v %q", name, resp.Code, h, body)
		}
		methods, headers := h.Get("Access-Control-Allow-Methods"), h.Get("Access-Control-Allow-Headers")
		if preflight := test.status == 204; preflight != (methods == allowedMethods && headers == allowedHeaders) {
			t.Errorf("%s: methods %q, headers %q", name, methods, headers)
		}
		if test.status == 400 && h.Get("Content-Type") != "text/plain" {
			t.Errorf("%s: %v", name, h)
		}
	}
	for _, bad := range []string{"dash.example.test", "https://", "https://a.test/", "https://a.test,", "https://a.test/x", "any,none", "https://u@a.test"} {
		if o, err := ParseOrigins(bad); err == nil {
			t.Errorf("%q: %+v", bad, o)
		}
	}
}

// An answer of another node that breaks off is an error.
func TestHalfAnAnswer(t *testing.T) {
	half := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("{}"))
		panic(http.ErrAbortHandler)
	})
	cfg := Config{Native: half, Calls: compattest.API{Handler: half}}.withDefaults()
	_, err := newNative(&cfg).claim(caller{ctx: t.Context()}, "w", nil)
	if f := faultOf(err); err == nil || f.Tag != v1.TagLeaderGone || meaningOf(f).tag != storageError {
		t.Errorf("%v", err)
	}
	defer func() {
		if p := recover(); p != http.ErrAbortHandler { //nolint:errorlint // net/http does not wrap it
			t.Errorf("a list that breaks off ends with %v", p)
		}
	}()
	New(cfg).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, v1.PathJobs, nil))
}
