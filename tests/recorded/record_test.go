package recorded

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"osqueue/client"
	"osqueue/fsm"
	"osqueue/internal/auth/certs"
	"osqueue/tests/cluster"
)

const patience = 30 * time.Second

// recordLevel runs the script against the last release of a feature level, and writes what
// its node recorded to testdata.
func recordLevel(t *testing.T, level int) {
	if _, err := os.Stat(levelDir(level)); err == nil {
		t.Fatalf("%s is there: a level is recorded once", levelDir(level))
	}
	binary, err := cluster.Release(level)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("OSQUEUE_BIN", binary)
	flags := []string{
		"--lease", "20s", "--max-jobs", "500", "--idempotency-keys", "20", "--raft-snapshot-threshold", "1", "--raft-snapshot-interval", "1s",
		"--raft-trailing-logs", "100000",
	}
	if level >= fsm.Level8 {
		flags = append(flags, "--state-check-interval", "2s")
	}
	if level >= fsm.Level11 {
		flags = append(flags, "--hook-allow", "127.0.0.0/8")
	}
	c := cluster.Start(t, cluster.Options{Nodes: 1, Flags: flags, TLS: level >= fsm.Level11})
	s := newScript(t, c, level)
	n := c.Nodes[0]
	data := n.DataDir()
	s.first()
	s.snapshot(data)
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	states := snapshots(t, data)
	n.Start()
	c.WaitLeader()
	s.http.CloseIdleConnections() // to the process that has ended
	s.second()
	s.snapshot(data)
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, st := range snapshots(t, data) {
		if !slices.Contains(states, st) {
			states = append(states, st)
		}
	}
	log, err := n.RaftLog()
	if err != nil || log.Snapshot != nil {
		t.Fatalf("the log does not begin at the first entry: %v", err)
	}
	document, err := os.ReadFile(s.document)
	if err != nil {
		t.Fatal(err)
	}
	write(t, levelDir(level), log.Entries, states, document)
}

// script makes the requests.
type script struct {
	*testing.T
	c        *cluster.Cluster
	level    int
	document string // path of queue.json
	url      string // of the node
	http     *http.Client
	token    string // "": the node asks for none
}

func newScript(t *testing.T, c *cluster.Cluster, level int) *script {
	s := &script{
		T: t, c: c, level: level, url: "http://" + c.Nodes[0].HTTP, http: http.DefaultClient,
		document: filepath.Join(strings.TrimPrefix(c.Bucket(), "file://"), "queue.json"),
	}
	if level < fsm.Level11 {
		return s
	}
	config, err := client.LoadTLS(filepath.Join(c.CertDir(), certs.CAFile), "", "")
	if err != nil {
		t.Fatal(err)
	}
	s.url, s.token = "https://"+c.Nodes[0].HTTP, c.Token()
	s.http = &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
	return s
}

// do makes one request, which must succeed, and returns the answer.
func (s *script) do(method, path, body string) map[string]any {
	s.Helper()
	answer, status := s.try(method, path, body)
	if status/100 != 2 {
		s.Fatalf("%s %s %s: %d: %v", method, path, body, status, answer)
	}
	return answer
}

// try makes one request, and returns the answer and its status.
func (s *script) try(method, path, body string) (answer map[string]any, status int) {
	s.Helper()
	req, err := http.NewRequestWithContext(s.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	if strings.Contains(body, `"keyed"`) { // the same body has the same key
		req.Header.Set("Idempotency-Key", fmt.Sprintf("%x", sha256.Sum256([]byte(body)))[:16])
	}
	resp, err := s.http.Do(req)
	if err != nil {
		s.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.Fatal(err)
	}
	if len(text) > 0 {
		if err := json.Unmarshal(text, &answer); err != nil {
			s.Fatalf("%s %s: %s: %v", method, path, text, err)
		}
	}
	return answer, resp.StatusCode
}

// lines makes one request for each line: a method, a path, and a body.
func (s *script) lines(text string) {
	s.Helper()
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			method, rest, _ := strings.Cut(line, " ")
			path, body, _ := strings.Cut(rest, " ")
			s.do(method, path, body)
		}
	}
}

// await waits until a job has a status.
func (s *script) await(id, status string) {
	s.Helper()
	s.c.Eventually(patience, id+" to be "+status, func() error {
		if got := s.do("GET", "/v1/jobs/"+id, "")["status"]; got != status {
			return fmt.Errorf("it is %v", got)
		}
		return nil
	})
}

// snapshot waits for a snapshot of a state after the requests so far.
func (s *script) snapshot(data string) {
	s.Helper()
	begun := time.Now()
	s.do("POST", "/v1/jobs", `{"type":"snapshot"}`) // an entry that no snapshot has
	s.c.Eventually(patience, "a snapshot", func() error {
		paths, err := filepath.Glob(filepath.Join(data, "snapshots", "*[0-9]", "state.bin"))
		if err != nil {
			return err
		}
		for _, path := range paths {
			if info, err := os.Stat(path); err == nil && info.ModTime().After(begun) {
				return nil
			}
		}
		return fmt.Errorf("%d are older", len(paths))
	})
}

// edit adds an unknown field to the document by hand.
func (s *script) edit() {
	s.Helper()
	s.c.Eventually(patience, "the edit to be adopted", func() error {
		data, err := os.ReadFile(s.document)
		if err != nil {
			return err
		}
		data = bytes.Replace(data, []byte(`"completedTotal"`), []byte(`"note":{"by":"hand"},"completedTotal"`), 1)
		fresh := s.document + ".edited"
		if err = os.WriteFile(fresh, data, 0o644); err != nil {
			return err
		}
		if err = os.Rename(fresh, s.document); err != nil {
			return err
		}
		s.do("POST", "/v1/jobs?ack=object", `{"type":"flush"}`)
		if data, err = os.ReadFile(s.document); err == nil && !bytes.Contains(data, []byte(`"note"`)) {
			err = fmt.Errorf("it has no note")
		}
		return err
	})
}

func (s *script) first() {
	s.lines(`
		POST /v1/workers {"name":"w1","types":["mail","film"],"version":"1.2","address":"10.0.0.9:1"}
		POST /v1/workers {"name":"w2"}
		PATCH /v1/queues/film {"maxRunning":3,"maxRunningPerGroup":1,"ratePerSecond":50,"burst":4,"maxAttempts":2,"retainCount":1}
		PATCH /v1/queues/mail {"leaseMs":15000,"timeoutMs":60000,"backoff":{"kind":"fixed","baseMs":300},"maxJobs":100,"maxBytes":100000,"maxPayload":5000}
		POST /v1/jobs {"id":"m1","type":"mail","payload":{"to":"a@example.test","é":"\u00e9"},"priority":5,"tags":["x","y"],"maxAttempts":4}
		POST /v1/jobs {"id":"m2","type":"mail","payload":2,"delayMs":400}
		POST /v1/jobs {"id":"m3","type":"mail","payload":3,"uniqueKey":"u1","uniqueScope":"period","uniqueMs":3600000}
		POST /v1/jobs {"id":"m4","type":"mail","payload":4,"uniqueKey":"u1","uniqueScope":"period","uniqueMs":3600000}
		POST /v1/jobs {"id":"m5","type":"mail","uniqueKey":"u2","uniqueScope":"active"}
		POST /v1/jobs {"id":"m6","type":"mail","uniqueKey":"u3","uniqueScope":"waiting"}
		POST /v1/jobs {"type":"keyed","id":"k1"}
		POST /v1/jobs {"type":"keyed","id":"k1"}
		POST /v1/jobs/batch {"jobs":[{"id":"f1","type":"film","group":"g1"},{"id":"f2","type":"film","group":"g1"},{"id":"f3","type":"film","group":"g2"},{"id":"f4","type":"film","group":"g3","priority":-2}]}
		POST /v1/jobs {"id":"d1","type":"step","after":["m1"]}
		POST /v1/jobs {"id":"d2","type":"step","after":["m1","f1"],"afterFailure":"cancel"}
		POST /v1/jobs {"id":"x1","type":"fragile","maxAttempts":1}
		POST /v1/jobs {"id":"d3","type":"step","after":["x1"],"afterFailure":"run"}
		POST /v1/jobs {"id":"x2","type":"fragile","maxAttempts":3,"backoff":{"kind":"exponential","baseMs":200,"capMs":1000,"jitter":20}}
		POST /v1/jobs {"id":"x3","type":"fragile","leaseMs":1000}
		POST /v1/batches {"id":"b1","jobs":[{"id":"b1a","type":"part"},{"id":"b1b","type":"part"}],"callback":{"id":"b1c","type":"report"},"callbackOn":"completed"}
		POST /v1/batches {"id":"b2","callback":{"type":"report"}}
		PUT /v1/crons/often {"spec":"@every 1s","job":{"type":"tick","payload":{"n":1}},"overlap":"allow"}
		PUT /v1/crons/daily {"spec":"30 4 * * *","timeZone":"Europe/Berlin","job":{"type":"report"},"missed":"one"}
		PUT /v1/crons/gone {"spec":"@hourly","job":{"type":"tick"}}
		POST /v1/jobs/claim {"workerId":"w1","types":["mail"],"max":2,"requestId":"r1"}
		POST /v1/jobs/claim {"workerId":"w1","types":["mail"],"max":2,"requestId":"r1"}
		POST /v1/jobs/m1/progress {"workerId":"w1","progress":{"percent":40,"message":"half"}}
		POST /v1/jobs/heartbeat {"workerId":"w1","jobs":[{"jobId":"m1"},{"jobId":"m3","progress":{"percent":7}}]}
		POST /v1/jobs/m1/complete {"workerId":"w1","result":{"sent":true}}
		POST /v1/jobs/m3/release {"workerId":"w1"}
		POST /v1/jobs/claim {"workerId":"w1","types":["film"],"max":4,"requestId":"r2"}
		POST /v1/jobs/f1/fail {"workerId":"w1","error":"no tape"}
		POST /v1/jobs/f3/complete {"workerId":"w1"}
		POST /v1/jobs/claim {"workerId":"w2","types":["fragile"],"max":3,"leaseMs":1000}
		POST /v1/jobs/x1/fail {"workerId":"w2","error":"broken","retryable":false}
		POST /v1/jobs/x2/fail {"workerId":"w2","error":"again"}
		POST /v1/queues/part/pause
		POST /v1/queues/part/resume
		POST /v1/jobs/claim {"workerId":"w2","types":["part"],"max":2}
		POST /v1/jobs/complete {"workerId":"w2","jobs":[{"jobId":"b1a","result":1},{"jobId":"b1b"}]}
		POST /v1/crons/often/trigger {}
		POST /v1/crons/daily/pause
		POST /v1/crons/daily/resume
		POST /v1/crons/daily/pause
		DELETE /v1/crons/gone
		POST /v1/jobs/m5/cancel
	`)
	s.await("x3", "unclaimed") // its lease expires
	s.await("m2", "unclaimed") // its time comes
	s.c.Eventually(patience, "a schedule to fire", func() error {
		if n := s.do("GET", "/v1/crons/often", "")["fired"]; n.(float64) < 3 {
			return fmt.Errorf("fired %v times", n)
		}
		return nil
	})
	s.do("POST", "/v1/crons/often/pause", "")
	s.edit()
}

func (s *script) second() {
	s.lines(`
		POST /v1/jobs/claim {"workerId":"w2","types":["film","report","step"],"max":5}
		DELETE /v1/workers/w2
		POST /v1/jobs/claim {"workerId":"w1","types":["film"],"max":5}
		POST /v1/jobs/f2/force-complete {"result":"by hand"}
		POST /v1/jobs/f4/force-complete {}
		POST /v1/jobs/retry {"filter":{"statuses":["dead"]}}
		POST /v1/jobs/x1/cancel
		POST /v1/jobs/cancel {"filter":{"type":"tick"}}
		POST /v1/jobs/claim {"workerId":"w1","types":["step"],"max":2}
		POST /v1/jobs/fail {"workerId":"w1","jobs":[{"jobId":"d1","error":"e","delayMs":100}]}
		POST /v1/jobs/release {"workerId":"w1","jobs":[{"jobId":"d2"}]}
		POST /v1/jobs/delete {"filter":{"statuses":["cancelled"]},"limit":2}
		DELETE /v1/jobs/m6
		DELETE /v1/queues/mail
		POST /v1/jobs {"id":"last","payload":"ж","delayMs":86400000}
	`)
	s.await("d1", "unclaimed")
	s.busy()
	if s.level >= fsm.Level11 {
		s.ofLevel11()
	}
	if s.do("GET", "/status", "")["state"] != "leader" {
		s.Fatal("the node does not lead")
	}
	time.Sleep(5 * time.Second) // a state check, and what retention removes
}

// ofLevel11 makes the requests that level 11 added.
func (s *script) ofLevel11() {
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/takes" {
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	s.Cleanup(receiver.Close)
	hook := func(name, more string) {
		s.do("PUT", "/v1/hooks/"+name, fmt.Sprintf(`{"url":%q,"http":true,%s}`, receiver.URL+"/"+name, more))
	}
	hook("takes", `"on":["*"],"deadGrew":1`)
	hook("fails", `"on":["job.*"],"types":["h*"],"bufferBytes":65536,"retryForMs":3600000`)
	hook("gone", `"on":["job.dead"],"paused":true`)
	made := s.do("POST", "/v1/tokens", `{"role":"producer","types":["h*"],"maxJobs":3,"maxBytes":1000,"ratePerSecond":100,"name":"limited"}`)
	marked := s.do("POST", "/v1/tokens", `{"role":"worker","types":["h*"],"name":"worker"}`)
	admin := s.token
	s.token = made["token"].(string)
	s.lines(`
		POST /v1/jobs {"id":"h1","type":"h","payload":"12345","headers":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","tenant":"é"}}
		POST /v1/jobs/batch {"jobs":[{"id":"h2","type":"h","maxAttempts":1},{"id":"h3","type":"h2","after":["h2"],"afterFailure":"run","headers":{"a":""}}]}
	`)
	if _, status := s.try("POST", "/v1/jobs", `{"type":"h"}`); status != http.StatusTooManyRequests {
		s.Fatalf("beyond the quota: %d", status)
	}
	s.token = admin
	rotated := s.do("POST", "/v1/tokens/"+made["id"].(string)+"/rotate", `{}`)
	s.token = rotated["token"].(string)
	s.try("POST", "/v1/jobs", `{"type":"h"}`)
	s.token = marked["token"].(string)
	s.lines(`
		POST /v1/jobs/claim {"workerId":"h","types":["h"],"max":2,"requestId":"h1"}
		POST /v1/jobs/h2/fail {"workerId":"h","error":"ж","retryable":false}
		POST /v1/jobs/h1/complete {"workerId":"h","result":{"a":1}}
		POST /v1/jobs/claim {"workerId":"h","types":["h2"]}
	`)
	s.token = admin
	s.lines(`
		POST /v1/queues/h/pause {"reason":"why é","forMs":1500}
		POST /v1/queues/h2/pause {"reason":"no end"}
		POST /v1/queues/ra/pause {"forMs":3600000}
		POST /v1/queues/ra/resume
		PUT /v1/crons/headed {"spec":"@hourly","job":{"type":"h","headers":{"b":"c"}}}
		POST /v1/crons/headed/trigger {}
		POST /v1/batches {"id":"hb","jobs":[{"id":"hb1","type":"h","headers":{"d":"e"}}],"callback":{"id":"hb2","type":"h","headers":{"f":"g"}}}
		POST /v1/hooks/takes/test {}
		DELETE /v1/hooks/gone
	`)
	s.do("DELETE", "/v1/tokens/"+marked["id"].(string), "")
	s.c.Eventually(patience, "deliveries, a failed one and an alert", func() error {
		takes, fails := s.do("GET", "/v1/hooks/takes", ""), s.do("GET", "/v1/hooks/fails", "")
		if takes["delivered"] == 0.0 || takes["alerts"] == nil || fails["pending"] == 0.0 {
			return fmt.Errorf("%v, %v", takes, fails)
		}
		return nil
	})
}

// busy makes requests at random, always the same ones. The node refuses some of them.
func (s *script) busy() {
	s.lines(`
		PATCH /v1/queues/ra {"maxRunningPerGroup":1,"retainCount":5}
		PATCH /v1/queues/rb {"ratePerSecond":10,"burst":3,"maxJobs":20}
		PATCH /v1/queues/rc {"maxRunning":2,"backoff":{"kind":"linear","baseMs":50}}
	`)
	r := rand.New(rand.NewPCG(6, 7))
	var claimed []string // bodies of reports, without the end
	var paths []string   // of the jobs
	for i := range 300 {
		worker := fmt.Sprintf("rw%d", r.IntN(3))
		job := fmt.Sprintf(`{"id":"r%d","type":"r%c","payload":%d,"priority":%d,"group":"g%d","maxAttempts":%d`,
			i, "abc"[r.IntN(3)], i, r.IntN(3), r.IntN(3), 1+r.IntN(3))
		if r.IntN(4) == 0 {
			job += fmt.Sprintf(`,"uniqueKey":"u%d"`, r.IntN(5))
		}
		if r.IntN(6) == 0 {
			job += fmt.Sprintf(`,"after":["r%d"]`, r.IntN(i+1))
		}
		claim := fmt.Sprintf(`{"workerId":%q,"max":%d,"leaseMs":%d,"requestId":"q%d"}`, worker, 1+r.IntN(3), 1000+r.IntN(1000), i-r.IntN(2))
		ends := []string{"complete", "complete", "fail", "release", "heartbeat", "cancel", "retry"}
		end, of := ends[r.IntN(len(ends))], r.IntN(1000)
		switch n := r.IntN(40); {
		case n < 1: // a key that weighs more than one
			many := strings.Repeat(fmt.Sprintf(`{"type":"keyed","payload":%d},`, i), 10+r.IntN(10))
			s.try("POST", "/v1/jobs/batch", `{"jobs":[`+strings.TrimSuffix(many, ",")+`]}`)
		case n < 14:
			s.try("POST", "/v1/jobs", job+"}")
		case n < 24:
			answer, _ := s.try("POST", "/v1/jobs/claim", claim)
			for _, j := range answer["jobs"].([]any) {
				j := j.(map[string]any)
				paths = append(paths, fmt.Sprintf("/v1/jobs/%v/", j["jobId"]))
				claimed = append(claimed, fmt.Sprintf(`{"workerId":%q,"token":%.0f}`, worker, j["token"]))
			}
		case len(claimed) > 0:
			at := len(claimed) - 1 - of%min(len(claimed), 12)
			body := claimed[at]
			if end == "cancel" || end == "retry" {
				body = ""
			}
			s.try("POST", paths[at]+end, body)
		}
	}
}
