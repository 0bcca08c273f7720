package osqueue

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"go.yaml.in/yaml/v3"

	v1 "osqueue/client/api/v1"
	"osqueue/compat"
	"osqueue/compat/compattest"
)

// Only the legacy broker's routes answer in its error shape; every other route of the API
// answers in the API's own, whatever the client accepts.
func TestErrorShapeOfEachRoute(t *testing.T) {
	var document struct {
		Paths map[string]map[string]any
	}
	text, err := os.ReadFile("../../api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	legacy := map[string]bool{
		"GET /v1/jobs": true, "POST /v1/jobs": true, "POST /v1/jobs/claim": true,
		"POST /v1/jobs/{id}/heartbeat": true, "POST /v1/jobs/{id}/complete": true,
		"GET /v1/stats": true, "GET /state": true, "GET /healthz": true, "GET /v1/throttle-stats": true,
	}
	api := http.HandlerFunc(refusing)
	h := New(Config{Native: api, Calls: compattest.API{Handler: api}})
	defer h.Close()
	routes, original := 0, 0
	for path, operations := range document.Paths {
		target := strings.NewReplacer("{", "", "}", "").Replace(path)
		for method := range operations {
			method = strings.ToUpper(method)
			if method == "PARAMETERS" {
				continue
			}
			routes++
			r := httptest.NewRequest(method, target, strings.NewReader(`{}`))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			contentType, tag, status := v1.MediaTypeProblem, v1.TagFlushLag, http.StatusServiceUnavailable
			if legacy[method+" "+path] {
				original++
				contentType, tag, status = jsonType, storageError, http.StatusInternalServerError
			}
			if got := tagOf(w.Body.Bytes()); w.Code != status || w.Header().Get("Content-Type") != contentType || got != tag {
				t.Errorf("%s %s: %d %s %s, want %d %s %s", method, path, w.Code, w.Header().Get("Content-Type"), got, status, contentType, tag)
			}
		}
	}
	if routes < 40 || original != len(legacy) {
		t.Errorf("%d routes, %d of the legacy broker's %d", routes, original, len(legacy))
	}
}

// refusing is an API that refuses writes because the bucket lags.
func refusing(w http.ResponseWriter, r *http.Request) {
	body, _ := json.Marshal(&v1.Problem{
		Type: v1.ProblemTypePrefix + v1.TagFlushLag, Status: http.StatusServiceUnavailable, Tag: v1.TagFlushLag,
		Detail: "the bucket says boom", Message: "the bucket says boom", Committed: v1.CommittedNo, RetryAfterMs: 2000,
	})
	w.Header().Set("Content-Type", v1.MediaTypeProblem)
	w.Header().Set("Retry-After", "2")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = w.Write(body)
}

// A bucket that lags too far behind is the contract's storage failure on each transport;
// a client that knows the API gets the API's words.
func TestWritesRefused(t *testing.T) {
	api := http.HandlerFunc(refusing)
	h := New(Config{Native: api, Calls: compattest.API{Handler: api}})
	server := httptest.NewServer(h)
	defer func() { h.Close(); server.Close() }()
	at := strings.TrimPrefix(server.URL, "http://")

	const long = "/v1/jobs/abc/"
	for name, test := range map[string]struct {
		path    string
		headers []string
		status  int
		want    string
	}{
		"submit":        {v1.PathJobs, nil, 500, `"_tag":"StorageBackendError"`},
		"claim":         {v1.PathClaim, nil, 500, `"_tag":"StorageBackendError"`},
		"heartbeat":     {long + "heartbeat", nil, 500, `"_tag":"StorageBackendError"`},
		"complete":      {long + "complete", nil, 500, `"_tag":"StorageBackendError"`},
		"problem":       {v1.PathJobs, []string{"Accept", v1.MediaTypeProblem}, 503, `"_tag":"flush_lag"`},
		"native member": {v1.PathJobs, nil, 503, `"_tag":"StorageBackendError"`},
		"a key":         {v1.PathJobs, []string{v1.HeaderIdempotencyKey, "k"}, 503, `"_tag":"StorageBackendError"`},
		"other route":   {v1.PathJobsBatch, nil, 503, `"_tag":"flush_lag"`},
		"SubmitJob":     {rpcPrefix + "SubmitJob", nil, 500, `"code":"internal"`},
		"ClaimJob":      {rpcPrefix + "ClaimJob", nil, 500, `"code":"internal"`},
		"Heartbeat":     {rpcPrefix + "Heartbeat", nil, 500, `"code":"internal"`},
		"Heartbeat, {}": {rpcPrefix + "Heartbeat", nil, 500, `"code":"internal"`},
	} {
		body := `{"payload":"MQ==","jobId":"abc","workerId":"w"}`
		if name == "native member" {
			body = `{"payload":1,"priority":3}`
		}
		if strings.HasSuffix(name, "{}") {
			body = `{}` // the job without a name is not there, and is written nevertheless
		}
		got := request(t, "POST", at, test.path, body, test.headers...)
		if got.status != test.status || !strings.Contains(got.body, test.want) || !strings.Contains(got.body, `"message":"the bucket says boom"`) {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
		if rest := test.want == `"_tag":"StorageBackendError"`; rest && got.header.Get("Content-Type") != jsonType {
			t.Errorf("%s: %v", name, got.header)
		}
		var p v1.Problem
		if err := json.Unmarshal([]byte(got.body), &p, compat.Lenient); err != nil || p.Status != 0 && p.Status != test.status {
			t.Errorf("%s: the status is %d, and %d in %s (%v)", name, test.status, p.Status, got.body, err)
		}
	}

	p := dial(t, at)
	defer p.close()
	for _, call := range []string{
		`{"method":"submitJob"}`, `{"method":"claimJob"}`, `{"method":"heartbeat","params":{"jobId":"abc","workerId":"w"}}`,
		`{"method":"completeJob","params":{"jobId":"abc"}}`, `{"method":"heartbeat"}`, `{"method":"completeJob"}`,
		`{"method":"heartbeat","params":{"jobId":"` + strings.Repeat("j", idMax+1) + `"}}`,
	} {
		p.send(call)
		if in := p.receive(); in.OK || in.Error == nil || in.Error.Tag != storageError || in.Error.Message != "the bucket says boom" {
			t.Errorf("%s: %+v %+v", call, in, in.Error)
		}
	}
}
