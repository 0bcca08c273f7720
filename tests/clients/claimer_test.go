package clients

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// claims is a node that returns three jobs to the first claim, and records the claims.
type claims struct {
	gate string // the payload of the jobs

	mu       sync.Mutex
	sizes    []int // of the claims so far, by their field max
	underWay int
	together int // the most claims under way at the same time
}

func (n *claims) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := any(map[string]any{})
	switch {
	case r.URL.Path == "/status":
		answer = map[string]any{"state": "leader", "term": 1}
	case strings.HasSuffix(r.URL.Path, "/claim"):
		answer = map[string]any{"jobs": n.claim(r)}
	case strings.HasSuffix(r.URL.Path, "/heartbeat"):
		answer = map[string]any{"results": []any{}}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (n *claims) claim(r *http.Request) []map[string]any {
	var body struct{ Max int }
	_ = json.NewDecoder(r.Body).Decode(&body)
	n.mu.Lock()
	first := len(n.sizes) == 0
	n.sizes = append(n.sizes, body.Max)
	n.underWay++
	n.together = max(n.together, n.underWay)
	n.mu.Unlock()
	jobs := []map[string]any{}
	for i := range 3 {
		if first {
			jobs = append(jobs, map[string]any{
				"jobId": fmt.Sprint("j", i), "type": "gate", "payload": n.gate, "token": i + 1, "attempts": 1, "leaseMs": 60_000,
			})
		}
	}
	if !first {
		select {
		case <-r.Context().Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	n.mu.Lock()
	n.underWay--
	n.mu.Unlock()
	return jobs
}

// last returns the size of the newest claim.
func (n *claims) last(want int) func() error {
	return func() error {
		n.mu.Lock()
		defer n.mu.Unlock()
		if len(n.sizes) == 0 || n.sizes[len(n.sizes)-1] != want {
			return fmt.Errorf("claims ask for %v", n.sizes)
		}
		return nil
	}
}

// A worker has one claim under way, for as many jobs as it has free slots.
func TestOneClaimer(t *testing.T) {
	eachLanguage(t, func(t *testing.T, l language) {
		n := &claims{gate: filepath.Join(t.TempDir(), "gate")}
		node := httptest.NewServer(n)
		defer node.Close()
		dir := l.desk(t)
		env := []string{"OSQUEUE_SERVERS=" + node.URL, "NAME=w", "LEDGER=" + filepath.Join(dir, "ledger"), "CONCURRENCY=4"}
		w := start(t, "w", dir, env, l.interpreter, "worker"+l.extension)
		eventually(t, "claims for the last slot", n.last(1))
		if err := os.WriteFile(n.gate, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		eventually(t, "claims for all slots", n.last(4))
		w.signal(syscall.SIGTERM)
		w.ended(limit / 4)
		node.Close()
		if n.sizes[0] != 4 || n.together != 1 {
			t.Errorf("the first claim asks for %d jobs, want 4; %d claims were under way together, want 1", n.sizes[0], n.together)
		}
	})
}
