package cluster

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"osqueue/fsm"
	"osqueue/internal/storagetest"
	"osqueue/internal/storagetest/script"
	"osqueue/storage"
	"osqueue/storage/document"
	"osqueue/storage/mem"
)

func TestMain(m *testing.M) {
	storagetest.AtOnce(16) // tests of nodes in real time compute for 5 % of their time
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

// others returns all members except one.
func others(all []*member, but *member) []*member {
	return slices.DeleteFunc(slices.Clone(all), func(m *member) bool { return m == but })
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
	r, lsn, err := m.Propose(l.t.Context(), script.Enqueue(ids...))
	if err != nil || r.Code != fsm.OK {
		l.t.Fatalf("enqueue: %v %v", r.Code, err)
	}
	return lsn
}

// claim claims one job.
func (l *lab) claim(m *member, worker string) *fsm.Job {
	l.t.Helper()
	r, _, err := m.Propose(l.t.Context(), script.Claim(worker, 1))
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

// TestWhileLeading checks that the active leader runs its duty, and that the duty has ended, and
// the bucket has everything, when StepDown returns.
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
	lsn := l.enqueue(old, "a")
	old.StepDown(t.Context())
	if runs(old) {
		t.Error("the duty runs after the leader term")
	}
	if d := l.document(); d.Header.LSN().Compare(lsn) < 0 {
		t.Errorf("the document has %s after the hand-over, want %s", d.Header.LSN(), lsn)
	}
	next := l.leader(others(all, old)...)
	l.eventually("the duty of the next leader", func() bool { return runs(next) })
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
		res, _, err := n.Propose(t.Context(), script.Claim("w", 1))
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
