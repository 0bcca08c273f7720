package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/client/webhook"
	"osqueue/tests/cluster"
)

// hookReceiver counts the deliveries of each event.
type hookReceiver struct {
	mu     sync.Mutex
	secret webhook.Secret
	ids    map[string]int    // deliveries, by the id of the event
	jobs   map[string]string // id of the event, by job
	errs   []error
}

func (r *hookReceiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	e, err := webhook.Read(req, r.secret)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.errs = append(r.errs, err)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if other, ok := r.jobs[e.Data.JobID]; ok && other != e.ID {
		r.errs = append(r.errs, fmt.Errorf("job %s has the events %s and %s", e.Data.JobID, other, e.ID))
	}
	r.ids[e.ID]++
	r.jobs[e.Data.JobID] = e.ID
}

// TestHooksOverLeaderKills makes 10 000 events and kills three leaders meanwhile. Each event
// arrives, and all its repetitions have one id.
func TestHooksOverLeaderKills(t *testing.T) {
	t.Parallel()
	const rounds, each = 10, 1000
	secret := webhook.NewSecret()
	r := &hookReceiver{secret: secret, ids: make(map[string]int), jobs: make(map[string]string)}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	c := cluster.Start(t, cluster.Options{Flags: []string{"--hook-allow", "127.0.0.0/8"}})
	q, ctx := c.NewClient(), c.Context(3*time.Minute)
	c.WaitLeader()
	_, err := q.PutHook(ctx, "ops", v1.NewHook{
		URL: server.URL, On: []string{"job.cancelled"}, HTTP: true, Secret: secret.Text(), BufferBytes: 8 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	for round := range rounds {
		jobs, ids := make([]client.NewJob, each), make([]string, each)
		for i := range each {
			ids[i] = fmt.Sprintf("hooked-%d-%d", round, i)
			jobs[i] = client.NewJob{ID: ids[i], Type: "t"}
		}
		if _, err := q.EnqueueBatch(ctx, jobs); err != nil {
			t.Fatal(err)
		}
		if _, err := q.CancelMany(ctx, ids); err != nil {
			t.Fatal(err)
		}
		if round%3 == 2 {
			old := c.WaitLeader()
			old.Kill()
			c.WaitOtherLeader(old)
			old.Start()
		}
	}
	c.Eventually(time.Minute, "the delivery of all events", func() error {
		h, err := q.Hook(ctx, "ops")
		if err != nil {
			return err
		}
		if h.Pending > 0 || h.Delivered != rounds*each {
			return fmt.Errorf("%d pending, %d delivered, last error %q", h.Pending, h.Delivered, h.LastError)
		}
		if h.Dropped+h.Failed > 0 {
			t.Errorf("%d events dropped, %d given up", h.Dropped, h.Failed)
		}
		return nil
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	all, repeated := 0, 0
	for _, n := range r.ids {
		all += n
		if n > 1 {
			repeated++
		}
	}
	if len(r.jobs) != rounds*each || len(r.ids) != rounds*each || len(r.errs) > 0 {
		t.Errorf("events of %d jobs with %d ids; %v", len(r.jobs), len(r.ids), errors.Join(r.errs...))
	}
	t.Logf("%d events in %d deliveries; %d arrived more than once", len(r.ids), all, repeated)
}
