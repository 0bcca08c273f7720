package clients

import (
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

const countsWanted = `{
	"counts": {"enqueued": 4, "claimed": 4, "completed": 1, "failed": 1, "released": 1, "suspended": 1}, "timed": true,
	"events": [
		["enqueued", null, true], ["enqueued", null, true], ["enqueued", null, true], ["enqueued", null, true],
		["claimed", "a", true], ["completed", "a", true],
		["claimed", "b", true], ["claimed", "b", true], ["claimed", "b", true],
		["failed", "b", true], ["released", "b", true], ["suspended", "b", true]
	],
	"line": "job ID trace_id=0af7651916cd43dd8448eb211c80319c"
}`

// The clients count their jobs, tell an observer, which cannot harm them, and have metrics as
// Prometheus wants them. The headers of a job reach its worker.
func TestCounts(t *testing.T) {
	eachLanguage(t, func(t *testing.T, l language) {
		c := l.share(t, 1)
		out := run(t, l.desk(t), []string{servers(c)}, l.interpreter, "counts"+l.extension)
		got := object(t, out)
		metrics, _ := got["metrics"].(string)
		delete(got, "metrics")
		checkFields(t, got, object(t, countsWanted))
		problems, err := promlint.New(strings.NewReader(metrics)).Lint()
		if err != nil || len(problems) > 0 {
			t.Errorf("%v, %v", problems, err)
		}
		for _, line := range []string{`osqueue_client_jobs_enqueued_total 4`, `osqueue_client_jobs_failed_total 1`, `osqueue_client_run_seconds_total \d+\.\d`} {
			if !regexp.MustCompile("(?m)^" + line).MatchString(metrics) {
				t.Errorf("there is no %s in\n%s", line, metrics)
			}
		}
	})
}
