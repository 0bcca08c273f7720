package attack

import (
	"fmt"
	"net/http"
	"testing"
)

// A page of a stranger changes nothing and reads nothing, whether it names the node by its
// address (foreign origin) or by a name of its own (DNS rebinding), and whether it needs a
// preflight or not (S5).
func TestPagesOfStrangers(t *testing.T) {
	t.Parallel()
	g := shareTarget(t)
	n := g.Nodes[0]
	const job = `{"type":"pwned","payload":{}}`
	const evil, rebound = "https://evil.example", "evil.example:8080"
	type row struct {
		name, method, path, host, origin, site, media, body string
		want                                                int
	}
	rows := []row{
		{"a health check by name", "GET", "/healthz", rebound, "", "", "", "", http.StatusOK},
		{"a program", "POST", "/v1/jobs", n.HTTP, "", "", "application/json", job, http.StatusOK},
		{"a page of the node", "POST", "/v1/jobs", n.HTTP, "http://" + n.HTTP, "same-origin", "application/json", job, http.StatusOK},
		{"a preflight", "OPTIONS", "/v1/jobs", n.HTTP, evil, "cross-site", "", "", http.StatusNotFound},
		{"a WebSocket", "GET", "/v1/ws", n.HTTP, evil, "cross-site", "websocket", "", http.StatusForbidden},
	}
	for _, path := range []string{
		"/v1/jobs", "/v1/jobs/x/cancel", "/v1/jobs/x/retry", "/v1/jobs/delete", "/v1/claims", "/v1/queues/t/pause",
		"/v1/queues/t/resume", "/v1/crons/c/trigger", "/v1/workers", "/cluster/v1/join", "/unknown",
		"/queue.v1.QueueService/SubmitJob",
	} {
		for _, origin := range []string{evil, "null", "http://127.0.0.1:1"} {
			rows = append(rows,
				row{"a form", "POST", path, n.HTTP, origin, "cross-site", "text/plain", job, http.StatusForbidden},
				row{"an old browser", "POST", path, n.HTTP, origin, "", "", "", http.StatusForbidden})
		}
		rows = append(rows,
			row{"a rebound page", "POST", path, rebound, "http://" + rebound, "same-origin", "application/json", job, http.StatusMisdirectedRequest},
			row{"a rebound read", "GET", path, rebound, "", "same-origin", "", "", http.StatusMisdirectedRequest})
	}
	for i, r := range rows {
		name := fmt.Sprintf("%d %s %s %s", i, r.name, r.method, r.path)
		head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Length: %d\r\n", r.method, r.path, r.host, len(r.body))
		for header, value := range map[string]string{"Origin": r.origin, "Sec-Fetch-Site": r.site, "Content-Type": r.media} {
			if value != "" && value != "websocket" {
				head += header + ": " + value + "\r\n"
			}
		}
		if r.media == "websocket" {
			head = fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\nOrigin: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
				"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", r.path, r.host, r.origin)
		}
		g.attack(name, func(t *testing.T) {
			a, err := request(n.HTTP, head+"\r\n"+r.body, answerMax)
			if err != nil {
				t.Fatal(err)
			}
			if a.StatusCode != r.want {
				t.Errorf("answered %d %s, want %d", a.StatusCode, a.Body, r.want)
			}
			if allow := a.Header.Get("Access-Control-Allow-Origin"); allow != "" {
				t.Errorf("pages of %q may read the answer", allow)
			}
			if a.Header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("the headers are %v", a.Header)
			}
		})
	}
	g.settled()
}
