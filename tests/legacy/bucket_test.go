package legacy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	osqueue "osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/storage/document"
	"osqueue/tests/cluster"
	"osqueue/tests/cluster/store"
)

// The timeouts after which brokers notice each other: long enough for a busy machine.
const (
	heartbeat = 500 * time.Millisecond
	timeout   = 4 * time.Second
)

// together is a bucket that legacy brokers and our nodes share.
type together struct {
	*testing.T
	store *store.Store
}

func begin(t *testing.T) *together {
	t.Helper()
	// The binary is built first: on a busy machine the build takes longer than the leases of
	// a running test.
	if _, err := cluster.Binary(); err != nil {
		t.Fatal(err)
	}
	return &together{T: t, store: store.Start(t)}
}

// legacy starts a legacy broker.
func (b *together) legacy(shape func(*Config)) *Process {
	b.Helper()
	cfg := Config{Bucket: b.store.URL(), Heartbeat: heartbeat, Timeout: timeout}
	if shape != nil {
		shape(&cfg)
	}
	return Start(b.T, cfg)
}

// patient starts a legacy broker again until it is elected.
func patient(c *Config) { c.Retry = 300 * time.Millisecond }

// ours returns nodes that have not been started.
func (b *together) ours(nodes int, flags ...string) *cluster.Cluster {
	b.Helper()
	return cluster.New(b.T, cluster.Options{Nodes: nodes, Bucket: b.store.URL(), Flags: append(flags,
		"--broker-timeout", timeout.String(), "--broker-heartbeat", heartbeat.String(), "--standby-retry", heartbeat.String())})
}

func start(c *cluster.Cluster) {
	for _, n := range c.Nodes {
		n.Start()
	}
}

// stop kills all nodes after everything is flushed.
func (b *together) stop(c *cluster.Cluster) {
	b.Helper()
	b.flushed(c)
	c.KillAll()
	b.store.Settle()
}

func (b *together) flushed(c *cluster.Cluster) {
	b.Helper()
	c.Eventually(30*time.Second, "the bucket to have everything", func() error {
		leader, err := c.Leader()
		if err != nil {
			return err
		}
		s, err := leader.Status()
		if err != nil {
			return err
		}
		if s.LSN != s.FlushedLSN {
			return fmt.Errorf("at %s, flushed %s: %s", s.LSN, s.FlushedLSN, s.FlushError)
		}
		return nil
	})
}

// standsBy waits until a node of the cluster reports that another broker is alive.
func (b *together) standsBy(c *cluster.Cluster) {
	b.Helper()
	c.Eventually(cluster.LeaderTimeout, "the cluster to stand by", func() error {
		for _, n := range c.Nodes {
			s, err := n.Status()
			if err != nil {
				continue
			}
			if s.State == v1.StateLeader {
				b.Fatalf("%s is active beside the other broker", n.Name)
			}
			if s.Fence.State == "standby" && s.Fence.Reason == "the document belongs to another broker, which is alive" {
				return nil
			}
		}
		return errors.New("no node stands by")
	})
}

// text returns the document as bytes.
func (b *together) text() []byte {
	b.Helper()
	o, err := b.store.Bucket().Get(b.Context(), key)
	if err != nil {
		b.Fatal(err)
	}
	return o.Data
}

// document returns the decoded document.
func (b *together) document() *document.File {
	b.Helper()
	d, err := document.Decode(b.text())
	if err != nil {
		b.Fatal(err)
	}
	return d
}

// seen holds the fields of a job that a legacy broker knows.
type seen struct {
	ID          string          `json:"id"`
	Status      string          `json:"status"`
	Payload     json.RawMessage `json:"payload"`
	Type        string          `json:"type"`
	CreatedAt   int64           `json:"createdAt"`
	Attempts    int             `json:"attempts"`
	MaxAttempts *int            `json:"maxAttempts"`
	WorkerID    *string         `json:"workerId"`
	Heartbeat   int64           `json:"heartbeat"`
}

// String returns a text for comparisons.
func (s seen) String() string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// seenDocument holds the fields of a document that a legacy broker knows.
type seenDocument struct {
	Broker          string `json:"broker"`
	BrokerHeartbeat int64  `json:"brokerHeartbeat"`
	Jobs            []seen `json:"jobs"`
	CompletedTotal  int    `json:"completedTotal"`
}

func (d *seenDocument) ids() []string {
	ids := make([]string, len(d.Jobs))
	for i, j := range d.Jobs {
		ids[i] = j.ID
	}
	return ids
}

func (d *seenDocument) job(t *testing.T, id string) seen {
	t.Helper()
	i := slices.IndexFunc(d.Jobs, func(j seen) bool { return j.ID == id })
	if i < 0 {
		t.Fatalf("job %s is not in the document", id)
	}
	return d.Jobs[i]
}

func (b *together) seen() seenDocument {
	b.Helper()
	var d seenDocument
	if err := json.Unmarshal(b.text(), &d); err != nil {
		b.Fatal(err)
	}
	return d
}

// wantJobs compares lists of jobs and their order.
func wantJobs(t *testing.T, got, want []seen) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d jobs, want %d", len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if g, w := got[i].String(), want[i].String(); g != w {
			t.Errorf("job %d is\n%s, want\n%s", i, g, w)
		}
	}
}

// caller calls a broker of either kind through the legacy API.
type caller struct {
	t  *testing.T
	at string
}

func (c caller) post(path string, in, out any) {
	c.t.Helper()
	if err := Call(c.t.Context(), http.MethodPost, c.at, path, in, out); err != nil {
		c.t.Fatalf("POST %s: %v", path, err)
	}
}

type fields map[string]any

func (c caller) submit(in fields) (id string) {
	c.t.Helper()
	var out struct{ JobID string }
	c.post("/v1/jobs", in, &out)
	if out.JobID == "" {
		c.t.Fatal("no id")
	}
	return out.JobID
}

// claim returns "" if there is no job.
func (c caller) claim(in fields) (id string) {
	c.t.Helper()
	var out struct{ JobID string }
	c.post("/v1/jobs/claim", in, &out)
	return out.JobID
}

func (c caller) complete(id string, in fields) {
	c.t.Helper()
	c.post("/v1/jobs/"+id+"/complete", in, nil)
}

func (c caller) beat(id string, in fields) {
	c.t.Helper()
	c.post("/v1/jobs/"+id+"/heartbeat", in, nil)
}

func (c caller) stats() (s struct{ Total, Unclaimed, InProgress, CompletedTotal int }) {
	c.t.Helper()
	if err := Call(c.t.Context(), http.MethodGet, c.at, "/v1/stats", nil, &s); err != nil {
		c.t.Fatal(err)
	}
	return s
}

// held is the lease of a claimed job.
func held(worker string, j osqueue.ClaimedJob) osqueue.Lease {
	return osqueue.Lease{JobID: j.ID, Worker: worker, Token: j.Token}
}

// safely asks for answers after the flush.
func safely(ctx context.Context) context.Context { return osqueue.WithAck(ctx, osqueue.AckObject) }
