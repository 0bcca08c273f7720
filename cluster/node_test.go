package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/storagetest"
	"osqueue/storage"
	"osqueue/storage/archive"
	"osqueue/storage/document"
	"osqueue/storage/mem"
)

func TestMain(m *testing.M) {
	storagetest.AtOnce(8) // tests of nodes in real time compute for 5 % of their time
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // a quarter of the simulation's time went into garbage
	}
	goleak.VerifyTestMain(m)
}

// lab runs nodes of one or more clusters in this process.
type lab struct {
	t      *testing.T
	bucket storage.Bucket
}

func newLab(t *testing.T) *lab {
	b := mem.New()
	t.Cleanup(func() { _ = b.Close() })
	return &lab{t: t, bucket: b}
}

// member is a node with the HTTP server at which its peers reach it.
type member struct {
	*Node
	cfg  Config
	http *http.Server
	once sync.Once
}

func (m *member) stop() {
	m.once.Do(func() {
		_ = m.http.Close()
		_ = m.Node.Close()
	})
}

// start starts a cluster of n nodes.
func (l *lab) start(prefix string, n int, adjust func(*Config)) []*member {
	l.t.Helper()
	listeners := make([]net.Listener, n)
	var peers []PeerAddr
	for i := range listeners {
		listeners[i] = l.listen()
		peers = append(peers, PeerAddr{Name: fmt.Sprintf("%s%d", prefix, i+1), HTTP: listeners[i].Addr().String()})
	}
	members := make([]*member, n)
	for i := range members {
		members[i] = l.open(peers, i, listeners[i], adjust)
	}
	return members
}

// hosts numbers the addresses of listen.
var hosts atomic.Uint32

// listen listens on a loopback address of its own. A node that starts again finds its ports free
// there: on 127.0.0.1, an outgoing connection of another test may have got one of them.
func (l *lab) listen() net.Listener {
	l.t.Helper()
	host := "127.0.0.1"
	if runtime.GOOS == "linux" { // which has all of 127.0.0.0/8
		n := hosts.Add(1)
		host = fmt.Sprintf("127.%d.%d.%d", 1+os.Getpid()%250, 1+n/250%250, 1+n%250)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		l.t.Fatal(err)
	}
	return listener
}

func (l *lab) open(peers []PeerAddr, i int, listener net.Listener, adjust func(*Config)) *member {
	l.t.Helper()
	cfg := DefaultConfig()
	cfg.Name, cfg.Peers = peers[i].Name, peers
	cfg.DataDir = l.t.TempDir()
	host, _, err := net.SplitHostPort(peers[i].HTTP)
	if err != nil {
		l.t.Fatal(err)
	}
	cfg.RaftAddr, cfg.HTTPAdvertise = net.JoinHostPort(host, "0"), peers[i].HTTP
	cfg.Bucket = l.bucket
	cfg.BrokerTimeout, cfg.Flush.Heartbeat = 2*time.Second, 500*time.Millisecond
	cfg.MaxFlushLag = 10 * time.Second      // a standby of a leader that was killed takes over then
	cfg.LeaseTimeout = cfg.HeartbeatTimeout // so that a leader on a busy machine seldom loses its leadership
	cfg.Logger = hclog.New(&hclog.LoggerOptions{Name: cfg.Name, Level: hclog.Warn, Output: testWriter{l.t}})
	cfg.Client = &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	if adjust != nil {
		adjust(&cfg)
	}
	node, err := Open(cfg)
	if err != nil {
		l.t.Fatal(err)
	}
	m := &member{Node: node, cfg: cfg, http: &http.Server{Handler: node.PeerHandler(), ReadHeaderTimeout: time.Second}}
	go func() { _ = m.http.Serve(listener) }()
	l.t.Cleanup(m.stop)
	return m
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	if w.t.Context().Err() == nil { // a log line after the end of the test would panic
		w.t.Logf("%s", p)
	}
	return len(p), nil
}

// leader waits for an active leader among the members.
func (l *lab) leader(members ...*member) *member {
	l.t.Helper()
	var found *member
	l.eventually("an active leader", func() bool {
		for _, m := range members {
			if _, self := m.Leader(); self {
				found = m
				return true
			}
		}
		return false
	})
	return found
}

func (l *lab) eventually(what string, cond func() bool) {
	l.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !cond() {
		if time.Now().After(deadline) {
			l.t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// never fails the test if cond becomes true within d.
func (l *lab) never(d time.Duration, what string, cond func() bool) {
	l.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if cond() {
			l.t.Fatalf("saw %s", what)
		}
	}
}

func (l *lab) enqueue(m *member, ids ...string) fsm.LSN {
	l.t.Helper()
	op := &fsmpb.Enqueue{}
	for _, id := range ids {
		op.Jobs = append(op.Jobs, &fsmpb.NewJob{Id: id, Type: "t", Payload: []byte("1")})
	}
	r, lsn, err := m.Propose(l.t.Context(), &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: op}})
	if err != nil || r.Code != fsm.OK {
		l.t.Fatalf("enqueue: %v %v", r.Code, err)
	}
	return lsn
}

// claim claims one job.
func (l *lab) claim(m *member, worker string) *fsm.Job {
	l.t.Helper()
	r, _, err := m.Propose(l.t.Context(), &fsmpb.Mutation{Op: &fsmpb.Mutation_Claim{Claim: &fsmpb.Claim{Worker: worker, Max: 1}}})
	if err != nil || len(r.Jobs) != 1 {
		l.t.Fatalf("claim: %d jobs, %v %v", len(r.Jobs), r.Code, err)
	}
	return r.Jobs[0]
}

func (l *lab) document() *document.File {
	l.t.Helper()
	obj, err := l.bucket.Get(l.t.Context(), DocumentKey)
	if err != nil {
		l.t.Fatal(err)
	}
	d, err := document.Decode(obj.Data)
	if err != nil {
		l.t.Fatal(err)
	}
	return d
}

func TestThreeNodesReplicateAndFlush(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	all := l.start("n", 3, nil)
	leader := l.leader(all...)
	lsn := l.enqueue(leader, "a", "b")
	for _, m := range all {
		if err := m.WaitApplied(t.Context(), lsn); err != nil {
			t.Fatal(err)
		}
		if m.Job("b") == nil {
			t.Fatalf("%s does not have job b after %s", m.Name(), lsn)
		}
	}
	l.eventually("the flush", func() bool { return l.document().Header.LSN().Compare(lsn) >= 0 })
	l.eventually("the document to be the nodes' state", func() bool {
		m, err := archive.Machine(t.Context(), l.bucket, l.document())
		if err != nil {
			t.Fatal(err)
		}
		hash := m.View().Hash()
		return hash == all[0].View().Hash() && hash == all[1].View().Hash() && hash == all[2].View().Hash()
	})
}

func TestLeaderStopsAndAnotherTakesOver(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	all := l.start("n", 3, nil)
	old := l.leader(all...)
	l.enqueue(old, "a")
	epoch := old.Status().Epoch
	old.stop()
	var rest []*member
	for _, m := range all {
		if m != old {
			rest = append(rest, m)
		}
	}
	next := l.leader(rest...)
	if next.Job("a") == nil {
		t.Fatal("job a is lost")
	}
	if got := next.Status().Epoch; got <= epoch {
		t.Fatalf("epoch %d after %d", got, epoch)
	}
	if _, _, err := old.Propose(t.Context(), &fsmpb.Mutation{}); !errors.Is(err, ErrNotLeader) {
		t.Fatalf("the stopped node answers %v", err)
	}
}

func TestGracefulHandOver(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	all := l.start("n", 3, nil)
	old := l.leader(all...)
	lsn := l.enqueue(old, "a")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	start := time.Now()
	old.StepDown(ctx)
	if d := l.document(); d.Header.LSN().Compare(lsn) < 0 {
		t.Fatalf("the document has %s after the hand-over, want %s", d.Header.LSN(), lsn)
	}
	var rest []*member
	for _, m := range all {
		if m != old {
			rest = append(rest, m)
		}
	}
	next := l.leader(rest...)
	t.Logf("handed over in %v", time.Since(start))
	l.enqueue(next, "b")
}

// TestWhileLeading checks that the active leader runs its duty, and that the duty has ended
// when StepDown returns.
func TestWhileLeading(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var running sync.Map // names of nodes
	all := l.start("n", 3, func(c *Config) {
		c.WhileLeading = func(ctx context.Context, n *Node) {
			running.Store(n.Name(), true)
			<-ctx.Done()
			time.Sleep(50 * time.Millisecond) // StepDown waits for it
			running.Delete(n.Name())
		}
	})
	runs := func(m *member) bool {
		_, ok := running.Load(m.Name())
		return ok
	}
	old := l.leader(all...)
	l.eventually("the duty of the leader", func() bool { return runs(old) })
	for _, m := range all {
		if m != old && runs(m) {
			t.Errorf("the duty runs on %s, which does not lead", m.Name())
		}
	}
	old.StepDown(t.Context())
	if runs(old) {
		t.Error("the duty runs after the leader term")
	}
	next := l.leader(slices.DeleteFunc(all, func(m *member) bool { return m == old })...)
	l.eventually("the duty of the next leader", func() bool { return runs(next) })
}

func TestSecondClusterWaitsThenAdopts(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	first := l.start("a", 1, nil)
	lead := l.leader(first...)
	lsn := l.enqueue(lead, "x", "y")
	second := l.start("b", 1, nil)
	l.eventually("the second cluster to stand by", func() bool { return second[0].Status().Fence == FenceStandby })
	if _, self := second[0].Leader(); self {
		t.Fatal("two active leaders on one document")
	}
	l.eventually("the flush", func() bool { return l.document().Header.LSN().Compare(lsn) >= 0 })
	first[0].stop()
	next := l.leader(second...)
	if next.Job("x") == nil || next.Job("y") == nil {
		t.Fatal("the second cluster does not have the first one's jobs")
	}
	if got := l.enqueue(next, "z"); got.Compare(lsn) <= 0 {
		t.Fatalf("LSN %s after %s: it must not go back", got, lsn)
	}
}

// A job whose lease has expired can be claimed at once: no claim is refused because the
// entry that lets time pass is not applied yet.
func TestAJobIsReadyWhenItsLeaseIsOver(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.leader(l.start("n", 1, func(c *Config) { c.Settings.LeaseMs = 50; c.Settings.MaxAttempts = 1000 })...)
	l.enqueue(n, "a")
	for range 20 {
		l.eventually("the job to be ready", func() bool { return n.Ready("", nil) })
		res, _, err := n.Propose(t.Context(), &fsmpb.Mutation{Op: &fsmpb.Mutation_Claim{Claim: &fsmpb.Claim{Worker: "w", Max: 1}}})
		if err != nil || len(res.Jobs) != 1 {
			t.Fatalf("claimed %v: %v", res.Jobs, err)
		}
		for over := false; !over; {
			over = n.Now() > res.Jobs[0].Execution().Heartbeat+50
			if over && !n.Ready("", nil) {
				t.Fatal("its lease is over, and it is not ready")
			}
		}
	}
}

// edit adds a job to the document by hand.
func (l *lab) edit(id string) {
	l.t.Helper()
	l.eventually("the edit to be stored", func() bool {
		obj, err := l.bucket.Get(l.t.Context(), DocumentKey)
		if err != nil {
			l.t.Fatal(err)
		}
		const at = `"jobs":[`
		data := string(obj.Data)
		i := indexOf(data, at) + len(at)
		data = data[:i] + `{"id":"` + id + `","status":"unclaimed","payload":7,"createdAt":1,"attempts":0},` + data[i:]
		return l.bucket.PutIfMatch(l.t.Context(), DocumentKey, []byte(data), obj.Version).Outcome == storage.Committed
	})
}

func TestEditByHandIsTakenIn(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.leader(l.start("n", 1, nil)...)
	l.enqueue(n, "a")
	l.eventually("job a in the bucket", func() bool { return l.document().Header.Counts.Sum() == 1 })
	l.edit("by-hand")
	l.eventually("the edited job", func() bool { return n.Job("by-hand") != nil })
	if n.Job("a") == nil {
		t.Fatal("job a is lost")
	}
	copies := 0
	if err := l.bucket.List(t.Context(), "conflicts/", func(storage.Info) bool { copies++; return true }); err != nil {
		t.Fatal(err)
	}
	if c := n.Status().DocumentCopies; copies != 1 || c.Count != 1 || !strings.HasPrefix(c.Last, "conflicts/") {
		t.Fatalf("%d copies under conflicts/, want 1; the status has %+v", copies, c)
	}
}

func indexOf(s, part string) int {
	for i := range s {
		if len(s)-i >= len(part) && s[i:i+len(part)] == part {
			return i
		}
	}
	return -1
}
