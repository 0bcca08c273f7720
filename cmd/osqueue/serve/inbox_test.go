package serve

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"osqueue/api/core"
	"osqueue/cluster"
	"osqueue/fsm"
	"osqueue/internal/inbox"
	"osqueue/storage"
	"osqueue/storage/cost"
	"osqueue/storage/document"
	"osqueue/storage/mem"
	"osqueue/storage/metered"
)

// TestInboxIntervals checks how often the node lists a busy and an idle inbox, for each
// combination of flags.
func TestInboxIntervals(t *testing.T) {
	for line, want := range map[string][2]time.Duration{
		"file:///d":                       {time.Second, time.Second},
		"s3://b":                          {10 * time.Second, 5 * time.Minute},
		"gs://b":                          {10 * time.Second, 5 * time.Minute},
		"s3://b --inbox-interval=10s":     {10 * time.Second, 10 * time.Second},
		"s3://b --inbox-interval=0":       {0, 0},
		"s3://b --inbox-idle-interval=1h": {10 * time.Second, time.Hour},
		"s3://b --inbox-interval=0 --inbox-idle-interval=1h":     {0, 0},
		"s3://b --inbox-interval=5s --inbox-idle-interval=30s":   {5 * time.Second, 30 * time.Second},
		"file:///d --inbox-interval=2s --inbox-idle-interval=4s": {2 * time.Second, 4 * time.Second},
	} {
		p, _ := paced(t, line)
		if got := [2]time.Duration{p.inbox.cfg.Interval, p.inbox.cfg.IdleInterval}; got != want {
			t.Errorf("%s: %v, want %v", line, got, want)
		}
	}
}

// TestCostOfAnIdleInbox counts the listings of an inbox in a day in which no file arrives, at
// the pace of S3, and compares their cost with the plan of a budget.
func TestCostOfAnIdleInbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := paced(t, "s3://b")
		meter := cost.NewMeter(p.plan.Prices, 0, nil)
		box := p.inbox.newBox(metered.New(mem.New(), meter.ObserveStorage), hclog.NewNullLogger())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			box.Run(ctx, inboxQueue{}) // nothing calls it without a file
		}()
		time.Sleep(time.Hour)
		before := meter.Report()
		time.Sleep(24 * time.Hour)
		after := meter.Report()
		cancel()
		<-ended

		planned := cost.Plan{Prices: p.plan.Prices}
		for _, r := range p.plan.Repeated {
			if strings.Contains(r.Name, "inbox") {
				planned.Repeated = append(planned.Repeated, r)
			}
		}
		month, plan := (after.Cost-before.Cost)*cost.Money(cost.Month/(24*time.Hour)), planned.Fixed()
		if plan <= 0 || month > plan+plan/100 || month < plan-plan/50 {
			t.Errorf("%d listings in an idle day: a month costs %s, planned are %s", after.Counts.Lists-before.Counts.Lists, month, plan)
		}
	})
}

// TestNodeTakesFiles puts files into the inbox of a node. Those that are jobs by the rules of
// POST /v1/jobs become jobs, once, and are removed when the document contains the jobs.
func TestNodeTakesFiles(t *testing.T) {
	bucket := mem.New()
	put := func(id, body string) {
		t.Helper()
		check(t, inbox.Put(t.Context(), bucket, id, []byte(body)))
	}
	for id, body := range map[string]string{
		"mine":   `{"type":"mail","payload":{"a": 1},"priority":3,"tags":["x"],"delayMs":3600000}`,
		"nojson": `hello`, "wrong": `{"priority":"high"}`, "another": `{"id":"mine"}`, "control": `{"type":"a\nb"}`,
		"large": `{"payload":"` + strings.Repeat("x", 3000) + `"}`,
		"only":  `{"type":"t","uniqueKey":"k"}`, "repeats": `{"type":"t","uniqueKey":"k"}`,
	} {
		put(id, body)
	}
	box := (&inboxOptions{cfg: inbox.Config{Interval: 10 * time.Millisecond}}).newBox(bucket, hclog.NewNullLogger())
	other := func(ctx context.Context, _ *cluster.Node) { <-ctx.Done() } // does not delay the inbox
	n := openNode(t, bucket, together(other, empty(box, 2000, nil)))
	awaitEmpty(t, bucket, box)
	o, err := bucket.Get(t.Context(), cluster.DocumentKey)
	check(t, err)
	if d, err := document.Decode(o.Data); err != nil || d.Header.Counts.Sum() < 2 || n.Job("only") == nil {
		t.Errorf("the files of two jobs are gone; the document has %+v, %v", d, err)
	}
	if j := n.Job("mine"); j == nil || j.Status != fsm.Scheduled || string(j.Payload()) != `{"a": 1}` || j.Priority != 3 {
		t.Errorf("%+v", j)
	}
	put("only", `{"type":"u"}`)
	awaitEmpty(t, bucket, box)
	for id, why := range map[string]string{
		"only":   "the id was used before for a file with other content",
		"nojson": "must be a JSON object", "wrong": "priority: want a whole number", "another": `must be \"another\"`,
		"control": "control character", "large": "larger than 2000 bytes",
	} {
		o, err := bucket.Get(t.Context(), inbox.RejectedPrefix+id+".reason.json")
		if err != nil || !strings.Contains(string(o.Data), why) {
			t.Errorf("%s: %s, %v; want %q", id, o.Data, err, why)
		}
	}
	if got := keys(t, bucket, inbox.RejectedPrefix); len(got) != 12 {
		t.Errorf("rejected: %v", got)
	}
	if err := testutil.CollectAndCompare(inboxCollector(n, box), strings.NewReader(inboxFigures)); err != nil {
		t.Error(err)
	}
}

const inboxFigures = `
# HELP osqueue_inbox_failing 1 while the inbox cannot be emptied (active leader only).
# TYPE osqueue_inbox_failing gauge
osqueue_inbox_failing 0
# HELP osqueue_inbox_files_total Files that this node has removed from the inbox, by result: enqueued, repeated without a new job, or rejected.
# TYPE osqueue_inbox_files_total counter
osqueue_inbox_files_total{outcome="rejected"} 6
osqueue_inbox_files_total{outcome="repeated"} 1
osqueue_inbox_files_total{outcome="taken"} 2
# HELP osqueue_inbox_files_waiting Files in the inbox that can become jobs (active leader only).
# TYPE osqueue_inbox_files_waiting gauge
osqueue_inbox_files_waiting 0
`

// openNode opens a cluster of one node, which has a duty while it leads.
func openNode(t *testing.T, bucket storage.Bucket, duty func(context.Context, *cluster.Node)) *cluster.Node {
	t.Helper()
	c := cluster.DefaultConfig()
	c.Name, c.Memory, c.Bucket, c.RaftAddr, c.WhileLeading = "n1", true, bucket, "127.0.0.1:0", duty
	c.HeartbeatTimeout, c.ElectionTimeout, c.LeaseTimeout = 50*time.Millisecond, 50*time.Millisecond, 50*time.Millisecond
	n, err := cluster.Open(c)
	check(t, err)
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// awaitEmpty waits until the box has emptied the inbox.
func awaitEmpty(t *testing.T, bucket storage.Bucket, box *inbox.Box) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); len(keys(t, bucket, inbox.Prefix)) > 0 || box.Stats().Waiting > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("left in the inbox: %v; %+v", keys(t, bucket, inbox.Prefix), box.Stats())
		}
	}
}

func keys(t *testing.T, bucket storage.Bucket, prefix string) (keys []string) {
	t.Helper()
	if err := bucket.List(t.Context(), prefix, func(o storage.Info) bool {
		keys = append(keys, o.Key)
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return keys
}

// With tokens a file starts no program, unless --inbox-types allows it.
func TestTypesThatTheInboxTakes(t *testing.T) {
	programs := []string{"command"}
	for _, c := range []struct {
		mode  string
		types []string
		of    string
		want  bool
	}{
		{core.SecurityOff, nil, "command", true},
		{core.SecurityOn, nil, "mail", true},
		{core.SecurityOn, nil, "command", false},
		{core.SecurityOn, []string{"comm*"}, "command", true},
		{core.SecurityOff, []string{"comm*"}, "mail", false},
	} {
		o := inboxOptions{types: c.types}
		if got := o.mayEnqueue(&securityOptions{mode: c.mode, programs: programs})(c.of); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}
