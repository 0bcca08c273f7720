package bucket

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"osqueue/api"
	"osqueue/api/core"
	"osqueue/api/ui"
	"osqueue/cluster"
	"osqueue/cluster/notify"
	"osqueue/cluster/past"
	"osqueue/cmd/osqueue/view"
	"osqueue/fsm"
)

// bucketNode is a state that was read from a bucket, in the place of a node behind the API. Nothing
// can be written, and nothing happens.
type bucketNode struct {
	*past.State
	unreached
	status cluster.Status
	events *notify.History
}

// unreached has the methods of a node for writes, which readOnly refuses, and for the tokens of callers, which nobody needs.
type unreached struct{ core.Backend }

var errStored = errors.New("the queue is read from its bucket, without a cluster: nothing can be changed")

// serveBucket calls run with the API, and the dashboard, of the queue in a bucket, and says on
// stderr how old that state is. Only reads work.
func serveBucket(ctx context.Context, g *view.Globals, url string, at view.Moment, timeout time.Duration, run func(context.Context, http.Handler) error) error {
	o := offline{g: g, timeout: max(timeout, offlineTimeout)}
	return o.run(ctx, func(ctx context.Context, b *buckets) error {
		bucket, err := b.read(ctx, url)
		if err != nil {
			return err
		}
		s, err := readState(ctx, bucket, url, at)
		if err != nil {
			return err
		}
		stamp, now := s.stamp(time.Now()), time.Now()
		if err := view.WritePlain(g.Err, stamp.text(now)); err != nil {
			return err
		}
		states := past.New(past.Config{Bucket: bucket, Key: s.key, MaxBytes: pastBytes})
		defer states.Close()
		return s.serve(ctx, g, states, run)
	})
}

// serve calls run with the API and the dashboard of the state. states may be nil: there are no earlier ones then.
func (s *storedState) serve(ctx context.Context, g *view.Globals, states core.Past, run func(context.Context, http.Handler) error) error {
	server := api.New(core.Config{Backend: s.backend(g.Version), Past: states, Security: core.SecurityConfig{Mode: core.SecurityOff}})
	defer func() { _ = server.Shutdown(ctx) }() // it has no connections
	pages := ui.New(ui.Config{API: server.Identified(), ReadOnly: true})
	mux := http.NewServeMux()
	mux.Handle("/", readOnly(server.Identified()))
	mux.Handle(ui.Root, readOnly(pages))
	mux.Handle(ui.Root+"/", readOnly(pages))
	return run(ctx, mux)
}

// pastBytes bounds the earlier states that the page Past of the dashboard shows.
const pastBytes = 1 << 30

// readOnly refuses all but reads.
func readOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			http.Error(w, errStored.Error(), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// backend returns the state as the API sees a node.
func (s *storedState) backend(version string) *bucketNode {
	m, now := s.view.Meta(), time.Now().UnixMilli()
	out := &bucketNode{State: past.Of(s.machine), events: notify.NewHistory(1)}
	out.status = cluster.Status{
		Node: "bucket", Version: version, State: "leader", RaftState: "none", Term: m.LSN().Term, CommitIndex: m.LSN().Index, Applied: m.LSN().Index,
		LSN: m.LSN(), FlushedLSN: m.LSN(), Fence: cluster.FenceFollower, Epoch: m.Epoch, Lineage: s.doc.Lineage(),
		Counts: s.view.Counts(), CompletedEver: m.CompletedTotal, Workers: s.view.WorkerCount(), Now: m.NowMs, WallClock: now, StartedAt: now,
	}
	out.status.Refusing = errStored.Error()
	return out
}

// Now implements core.Writer.
func (s *bucketNode) Now() int64 { return s.status.Now }

// Linearize implements core.Node.
func (s *bucketNode) Linearize(context.Context) error { return nil }

// WaitApplied implements core.Node.
func (s *bucketNode) WaitApplied(_ context.Context, lsn fsm.LSN) error { return s.has(lsn) }

// WaitFlushed implements core.Node.
func (s *bucketNode) WaitFlushed(_ context.Context, lsn fsm.LSN) error { return s.has(lsn) }

func (s *bucketNode) has(lsn fsm.LSN) error {
	if lsn.Compare(s.status.LSN) > 0 {
		return fmt.Errorf("the state in the bucket is %s, which is before %s", s.status.LSN, lsn)
	}
	return nil
}

// WaitEnded implements core.Node.
func (s *bucketNode) WaitEnded(context.Context, string) error { return errStored }

// Events implements core.Node.
func (s *bucketNode) Events() *notify.History { return s.events }

// ProgressOf implements core.Node.
func (s *bucketNode) ProgressOf(string) []notify.ProgressPoint { return nil }

// ActionsOn implements core.Node.
func (s *bucketNode) ActionsOn(string) []notify.Action { return nil }

// Document implements core.Node.
func (s *bucketNode) Document(context.Context) ([]byte, error) { return nil, errStored }

// Status implements core.Node.
func (s *bucketNode) Status() cluster.Status { return s.status }

// Leader implements core.Node.
func (s *bucketNode) Leader() (address string, self bool) { return "bucket", true }
