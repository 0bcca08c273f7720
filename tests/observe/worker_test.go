package observe

import (
	"encoding/json"
	"errors"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"osqueue/client"
	"osqueue/tests/cluster"
)

// A command of osqueue worker gets the context of its run, whose span is in the trace of the
// producer, and the line of the worker about the job has the id of that trace.
func TestACommandIsInTheTrace(t *testing.T) {
	t.Parallel()
	const trace, producer = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	got := &collector{t: t}
	srv := httptest.NewServer(got)
	defer srv.Close()
	c := cluster.Start(t, cluster.Options{Nodes: 1, Env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + srv.URL, "OTEL_BSP_SCHEDULE_DELAY=50"}})
	w := c.StartWorker("w1", "--exec", "show=printenv TRACEPARENT")
	ctx := c.Context(time.Minute)
	added, err := c.Client.Enqueue(ctx, client.NewJob{Type: "show", Headers: map[string]string{"traceparent": "00-" + trace + "-" + producer + "-01"}})
	check(t, err)
	job, err := c.Client.WaitJob(ctx, added.JobID, 40*time.Second)
	check(t, err)
	var parent string
	if err := json.Unmarshal(job.Result, &parent); err != nil {
		t.Fatalf("%s: %v", job.Result, err)
	}
	c.Eventually(20*time.Second, "the spans", func() error {
		for _, want := range []string{"osqueue claim show", "osqueue-worker run show"} {
			if !slices.ContainsFunc(got.all(), func(s span) bool { return s.service+" "+s.name == want && s.trace == trace }) {
				return errors.New("there is no span " + want)
			}
		}
		return nil
	})
	run := got.all()[slices.IndexFunc(got.all(), func(s span) bool { return s.name == "run show" })]
	if parent != "00-"+trace+"-"+run.id+"-01" {
		t.Errorf("TRACEPARENT is %q, the run has the span %s", parent, run.id)
	}
	c.Eventually(10*time.Second, "the line of the job", func() error {
		if log := w.Log(); !strings.Contains(log, "trace_id="+trace) {
			return errors.New(log)
		}
		return nil
	})
}
