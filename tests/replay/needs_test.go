package replay

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"osqueue/tests/replay/needs"
)

// flow is the life of a job with further requests of a client: claims with and without a job,
// lists with an available and with a running job.
var flow = []struct{ name, method string }{
	{"stats", needs.Stats},
	{"list, empty", needs.List},
	{"submit", needs.Submit},
	{"list, waiting", needs.List},
	{"claim", needs.Claim},
	{"claim, none", needs.Claim},
	{"list, running", needs.List},
	{"heartbeat", needs.Heartbeat},
	{"complete", needs.Complete},
	{"heartbeat, gone", needs.Heartbeat},
	{"complete, gone", needs.Complete},
}

// TestClientNeeds makes the calls of the recorded clients, none of which throws.
func TestClientNeeds(t *testing.T) {
	t.Parallel()
	simulated(t, func(t *testing.T) {
		n := newNetwork()
		leader, follower := run(t, n, plainPort, "file://"+t.TempDir()).leader()
		for _, m := range modes {
			for _, name := range []string{needs.REST, needs.WS, needs.Connect, needs.ConnectWeb} {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				client := needs.NewClient(name, &http.Client{Transport: &http.Transport{DialContext: n.dial}})
				if err := client.Connect(ctx, m.servers(leader, follower).base); err != nil {
					t.Errorf("%s %s: %v", m, name, err)
				}
				p := needs.Params{Worker: "w-1", Type: fmt.Sprintf("needs-%s-%s", m, name), Job: "none"}
				for _, step := range flow {
					id, err := client.Call(ctx, step.method, p)
					if err != nil {
						t.Errorf("%s %s, %s: %v", m, name, step.name, err)
					}
					if step.method == needs.Submit {
						p.Job = id
					}
				}
				client.Close()
				cancel()
			}
		}
	})
}
