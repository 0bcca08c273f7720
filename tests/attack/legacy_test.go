package attack

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "osqueue/client/api/v1"
	"osqueue/tests/cluster"
)

// newLegacy starts a cluster that asks for tokens and has listeners for legacy clients.
func newLegacy(t *testing.T, nodes int, flags ...string) *secured {
	t.Helper()
	return newSecuredWith(t, cluster.Options{Nodes: nodes, Legacy: true, Flags: flags})
}

// The listener for legacy clients serves their routes without a token, and nothing else, under
// the names by which the node is known, to clients that are no pages of strangers.
func TestTheLegacyListener(t *testing.T) {
	audit := filepath.Join(t.TempDir(), "audit.jsonl")
	s := newLegacy(t, 1, "--legacy-types", "mail,film.*", "--audit-log", audit)
	n := s.node
	type row struct {
		name, method, path, headers, body string
		want                              int
	}
	const tokens = `{"role":"admin"}`
	rows := []row{
		{"a job", "POST", v1.PathJobs, "", mailJob, http.StatusOK},
		{"a job by a glob", "POST", v1.PathJobs, "", `{"type":"film.cut"}`, http.StatusOK},
		{"a claim of a type", "POST", v1.PathClaim, "", `{"workerId":"w","types":["mail"]}`, http.StatusOK},
		{"health", "GET", v1.PathHealthz, "", "", http.StatusOK},
		{"readiness", "GET", v1.PathReadyz, "", "", http.StatusOK},
		{"discovery", "GET", v1.PathStatus, "", "", http.StatusOK},
		{"an unknown route", "GET", "/nothing", "", "", http.StatusNotFound},
		{"a job by its id", "GET", "/v1/jobs/x", "", "", http.StatusNotFound},
		{"dtq: a task", "POST", "/submit_task", "", `{"task_type":"mail"}`, http.StatusAccepted},
		{"dtq: a heartbeat", "POST", "/heartbeat", "", `{"worker_id":"w"}`, http.StatusOK},

		{"a job of another type", "POST", v1.PathJobs, "", `{"type":"bank"}`, http.StatusForbidden},
		{"a job without a type", "POST", v1.PathJobs, "", `{}`, http.StatusForbidden},
		{"a job that runs a program", "POST", v1.PathJobs, "", `{"type":"command"}`, http.StatusForbidden},
		{"a claim of another type", "POST", v1.PathClaim, "", `{"workerId":"w","types":["bank"]}`, http.StatusForbidden},
		{"a claim of two types", "POST", v1.PathClaim, "", `{"workerId":"w","types":["mail","bank"]}`, http.StatusForbidden},
		{"a claim of every type", "POST", v1.PathClaim, "", `{"workerId":"w"}`, http.StatusForbidden},
		{"all jobs", "GET", v1.PathJobs, "", "", http.StatusForbidden},
		{"jobs of another type", "GET", v1.PathJobs + "?type=bank", "", "", http.StatusForbidden},
		{"all counts", "GET", v1.PathStats, "", "", http.StatusForbidden},
		{"the document", "GET", v1.PathState, "", "", http.StatusForbidden},
		{"dtq: another type", "POST", "/submit_task", "", `{"task_type":"bank"}`, http.StatusForbidden},
		{"dtq: every type", "POST", "/get_pending_task", "", `{"worker_id":"w"}`, http.StatusForbidden},
		{"Connect: another type", "POST", "/osqueue.v1.QueueService/SubmitJob", "", `{"payload":"e30=","type":"bank"}`, http.StatusInternalServerError},
		{"Connect: all jobs", "POST", "/osqueue.v1.QueueService/ListJobs", "", `{}`, http.StatusInternalServerError},

		{"a name that is not the node's", "POST", v1.PathJobs, "Host: evil.example\r\n", mailJob, http.StatusMisdirectedRequest},
		{"a page of a stranger", "POST", v1.PathJobs, "Origin: https://evil.example\r\nSec-Fetch-Site: cross-site\r\n", mailJob, http.StatusForbidden},
		{"a token of nobody", "POST", v1.PathTokens, bearer("osq_x"), tokens, http.StatusForbidden},
		{"the token of an admin", "POST", v1.PathTokens, bearer(s.token), tokens, http.StatusForbidden},
		{"the header of the local admin", "POST", v1.PathTokens, v1.HeaderPrincipal + ": local-admin\r\n" + v1.HeaderForwarded + ": n1\r\n", tokens, http.StatusForbidden},
		{"a header with all types", "POST", v1.PathJobs, v1.HeaderPrincipal + ": legacy?\r\n" + v1.HeaderForwarded + ": n1\r\n", `{"type":"bank"}`, http.StatusForbidden},
	}
	for _, native := range []string{
		"GET /v1/tokens", "POST /v1/tokens", "GET /v1/self", "GET /v1/events", "GET /v1/stream", "GET /v1/queues", "GET /v1/queues/mail", "PATCH /v1/queues/mail",
		"POST /v1/queues/mail/pause", "POST /v1/jobs/batch", "POST /v1/batches", "GET /v1/batches", "GET /v1/batches/x", "DELETE /v1/jobs/x",
		"POST /v1/jobs/x/cancel", "POST /v1/jobs/x/retry", "POST /v1/jobs/x/fail", "POST /v1/jobs/x/release", "POST /v1/jobs/x/progress",
		"POST /v1/jobs/x/force-complete", "POST /v1/jobs/cancel", "POST /v1/jobs/delete", "POST /v1/jobs/heartbeat", "POST /v1/jobs/complete", "GET /v1/crons",
		"PUT /v1/crons/x", "GET /v1/workers", "POST /v1/workers", "GET /v1/workers/w", "DELETE /v1/workers/w", "GET /v1/stats/jobs", "GET /v1/stats/history", "GET /v1/scale",
		"GET /metrics", "GET /ui/", "POST /ui/login", "POST /cluster/v1/join", "GET /cluster/v1/members",
	} {
		method, path, _ := strings.Cut(native, " ")
		rows = append(rows, row{"native", method, path, "", "{}", http.StatusForbidden},
			row{"native with a token", method, path, bearer(s.token), "{}", http.StatusForbidden})
	}
	if len(rows) < 80 {
		t.Errorf("only %d attacks", len(rows))
	}
	for i, r := range rows {
		s.attack(fmt.Sprintf("%d %s %s %s", i, r.name, r.method, r.path), func(t *testing.T) {
			text := requestText(r.method, r.path, n.Legacy, r.headers, r.body)
			if strings.HasPrefix(r.headers, "Host: ") {
				text = strings.Replace(text, "Host: "+n.Legacy+"\r\n", "", 1)
			}
			a, err := request(n.Legacy, text, answerMax)
			if err != nil {
				t.Fatal(err)
			}
			if a.StatusCode != r.want {
				t.Errorf("answered %d %s, want %d", a.StatusCode, a.Body, r.want)
			}
			if strings.Contains(a.Body, "raft_address") || strings.Contains(a.Body, "osq_") {
				t.Errorf("it shows %s", a.Body)
			}
		})
	}
	if a := try(t, n, "GET", v1.PathJobs, "", ""); a.StatusCode != http.StatusUnauthorized {
		t.Errorf("the port of the API answers %d without a token", a.StatusCode)
	}
	for _, want := range []string{
		`"principal":"legacy","address":"127.`, `"action":"POST /v1/jobs","lsn":"`, `"action":"POST /v1/tokens","status":403,"outcome":"forbidden"`,
	} {
		s.Eventually(patience, want+" in the audit log", func() error {
			log, err := os.ReadFile(audit)
			if err == nil && !strings.Contains(string(log), want) {
				err = fmt.Errorf("it is not in\n%.2000s", log)
			}
			return err
		})
	}
	s.settled()
}

// Connections of other networks are closed before a byte is read.
func TestTheLegacyListenerForOtherNetworks(t *testing.T) {
	s := newLegacy(t, 1, "--legacy-allow", "10.0.0.0/8,::1/128")
	for i := range 20 {
		s.attack(fmt.Sprint(i), func(t *testing.T) {
			if a, err := request(s.node.Legacy, requestText("POST", v1.PathJobs, s.node.Legacy, "", mailJob), answerMax); err == nil {
				t.Errorf("answered %d %s", a.StatusCode, a.Body)
			}
		})
	}
	s.settled()
}

// Connections of both ports have one bound.
func TestTheLegacyListenerSharesTheBounds(t *testing.T) {
	s := newLegacy(t, 1, "--max-connections", "64", "--max-connections-per-address", "60")
	for range 60 {
		dial(t, s.node.Legacy)
	}
	s.Eventually(patience, "the bound", func() error {
		dial(t, s.node.Legacy) // takes the place of an earlier connection that was closed meanwhile
		a, err := request(s.node.HTTP, requestText("GET", v1.PathStats, s.node.HTTP, bearer(s.token), ""), answerMax)
		if err == nil && a.StatusCode != http.StatusServiceUnavailable {
			err = fmt.Errorf("answered %d %s", a.StatusCode, a.Body)
		}
		return err
	})
}
