package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/storage"
	"osqueue/storage/bucketurl"
	"osqueue/tests/cluster"
	"osqueue/tests/cluster/store"
	"osqueue/tests/replay/player"
	"osqueue/tests/replay/transcript"
)

// mode selects the node that gets the requests.
type mode string

const (
	askLeader   mode = "leader"
	askFollower mode = "follower"
)

var modes = []mode{askLeader, askFollower}

// calm prevents changes of leader on a machine that is busy with several clusters, because the
// answering node is part of the test.
var calm = []string{"--cors-origins", "any", "--raft-heartbeat", "2s", "--raft-election", "2s", "--raft-lease", "1s"}

// port selects the port that gets the requests.
type port bool

const (
	plainPort  port = false // of the API, without certificates
	legacyPort port = true  // for legacy clients, of nodes with certificates that ask for tokens
)

// options returns the options of a cluster.
func (p port) options(flags ...string) cluster.Options {
	return cluster.Options{Flags: flags, TLS: bool(p), Legacy: bool(p)}
}

// of returns the URL of the port of a node.
func (p port) of(n *cluster.Node) string {
	if p == legacyPort {
		return "http://" + n.Legacy
	}
	return "http://" + n.HTTP
}

// emptying returns the way to empty the queue between sequences.
func emptying(c *cluster.Cluster) func(context.Context) error {
	return func(ctx context.Context) error {
		for {
			n := 0
			for j, err := range c.Client.Jobs(ctx, client.ListOptions{Statuses: []string{v1.StatusAll}}) {
				if err != nil {
					return err
				}
				n++
				if j.Status == v1.StatusInProgress { // it could not be deleted
					if err := c.Client.ForceComplete(ctx, j.ID, nil); err != nil {
						return err
					}
				}
			}
			if n == 0 {
				return nil
			}
			if _, err := c.Client.DeleteWhere(ctx, client.Filter{All: true}); err != nil {
				return err
			}
		}
	}
}

// servers returns the addresses of a cluster that has a leader.
func servers(c *cluster.Cluster, m mode, p port) player.Servers {
	leader, follower := p.of(c.WaitLeader()), p.of(c.Follower())
	s := player.Servers{Base: leader, Leader: leader, Follower: follower}
	if m == askFollower {
		s.Base = follower
	}
	return s
}

// setup has the configs for which a cluster is started.
type setup struct {
	name  string
	keep  func(*transcript.Case) bool
	start func(t *testing.T, p port) *cluster.Cluster // nil: the cases start their own
}

func startWith(flags ...string) func(*testing.T, port) *cluster.Cluster {
	return func(t *testing.T, p port) *cluster.Cluster {
		return cluster.Start(t, p.options(append(flags, calm...)...))
	}
}

func config(name string) func(*transcript.Case) bool {
	return func(c *transcript.Case) bool { return c.Config == name && !c.Slow }
}

// slow names the setup of the sequences that take long.
const slow = "slow"

// setups begins with the longest ones: the first three take about 80, 75 and 50 s.
var setups = []setup{
	{transcript.ConfigSeeded, config(transcript.ConfigSeeded), nil},
	{slow, func(c *transcript.Case) bool { return c.Slow }, startWith()},
	{
		transcript.ConfigShortExpiry, config(transcript.ConfigShortExpiry),
		startWith("--lease", "1s", "--broker-heartbeat", "300ms"),
	},
	{transcript.ConfigDefault, config(transcript.ConfigDefault), startWith()},
	{transcript.ConfigThrottled, config(transcript.ConfigThrottled), startWith("--bucket-writes-per-day", "1000000")},
	{transcript.ConfigStorageFail, config(transcript.ConfigStorageFail), startFailing},
}

// startFailing starts a cluster whose bucket refuses every later write, and waits until the
// cluster refuses writes too. That takes one write that does not reach the bucket, and the
// queue must stay empty, so it writes the name of a worker.
func startFailing(t *testing.T, p port) *cluster.Cluster {
	s := store.StartKind(t, store.GoFakeS3)
	o := p.options(append([]string{"--broker-heartbeat", "500ms", "--broker-timeout", "1500ms", "--max-flush-lag", "2s"}, calm...)...)
	o.Bucket = s.URL()
	c := cluster.Start(t, o)
	const forEver = 1 << 30
	s.Proxy(t).Inject(store.Error, store.Writes, forEver)
	if err := c.Client.RegisterWorker(c.Context(cluster.LeaderTimeout), client.WorkerInfo{Name: "unflushed"}); err != nil {
		t.Fatal(err)
	}
	c.Eventually(cluster.LeaderTimeout, "writes to be refused", func() error {
		status, err := c.WaitLeader().Status()
		if err == nil && status.Refusing == "" {
			err = errors.New("they are taken")
		}
		return err
	})
	return c
}

// seeder starts a cluster on each seed, one at a time.
type seeder struct {
	t    *testing.T
	mode mode
	at   port
	last *cluster.Cluster
}

const docKey = "queue.json"

// silence is the time without a write after which a cluster counts the broker in the seed as
// dead. A broker whose heartbeat in the seed is younger is alive.
const silence = 5 * time.Second

var seededFlags = []string{"--cors-origins", "any", "--broker-timeout", silence.String(), "--broker-heartbeat", "1s"}

func (s *seeder) start(ctx context.Context, seed []byte) (started bool, at player.Servers, err error) {
	if s.last != nil {
		s.last.KillAll()
	}
	url := "file://" + s.t.TempDir()
	stop, err := plant(ctx, url, seed)
	if err != nil {
		return false, at, err
	}
	defer stop()
	o := s.at.options(seededFlags...)
	o.Bucket = url
	c := cluster.New(s.t, o)
	s.last = c
	for _, n := range c.Nodes {
		n.Start()
	}
	if !serves(c) {
		s.refuseReady(c)
		return false, at, nil
	}
	return true, servers(c, s.mode, s.at), nil
}

// refuseReady checks that every node reports why it is not ready: the raft leader is not active
// while the broker of another system is alive.
func (s *seeder) refuseReady(c *cluster.Cluster) {
	s.t.Helper()
	for _, n := range c.Nodes {
		if !anotherBroker(c, n) {
			s.t.Errorf("%s does not report that another broker is active", n.Name)
		}
	}
}

// plant puts the seed into the bucket. If the broker in it is alive, plant renews the broker's
// heartbeat until stop is called.
func plant(ctx context.Context, url string, seed []byte) (stop func(), err error) {
	b, err := bucketurl.Open(ctx, url)
	if err != nil {
		return nil, err
	}
	w := b.PutIfAbsent(ctx, docKey, seed)
	if w.Outcome != storage.Committed {
		return nil, errors.Join(fmt.Errorf("put the seed: %s: %w", w.Outcome, w.Err), b.Close())
	}
	var document map[string]any
	if err := json.Unmarshal(seed, &document); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	heartbeat, _ := document["brokerHeartbeat"].(float64)
	if time.Since(time.UnixMilli(int64(heartbeat))) > silence {
		return func() { _ = b.Close() }, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(silence / 10)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			document["brokerHeartbeat"] = time.Now().UnixMilli()
			text, _ := json.Marshal(document) // it was JSON
			if w = b.PutIfMatch(ctx, docKey, text, w.Version); w.Outcome != storage.Committed {
				return // this broker is fenced, or the test is over
			}
		}
	}()
	return func() { cancel(); <-done; _ = b.Close() }, nil
}

// serves waits until the cluster has an active leader, or a raft leader that the document keeps
// inactive for longer than the timeout of a dead broker: then that broker is alive.
func serves(c *cluster.Cluster) (active bool) {
	var since time.Time // when a standby was seen first
	c.Eventually(cluster.LeaderTimeout, "a leader, or a standby", func() error {
		var reasons []string
		for _, n := range c.Nodes {
			s, err := n.Status()
			switch {
			case err != nil:
				reasons = append(reasons, err.Error())
			case s.State == v1.StateLeader:
				active = true
				return nil
			case s.Fence.State == "standby" && anotherBroker(c, n):
				if since.IsZero() {
					since = time.Now()
				}
				if time.Since(since) > 3*silence {
					return nil
				}
				reasons = append(reasons, "a standby, for "+time.Since(since).String())
			default:
				reasons = append(reasons, s.Fence.State+" "+s.Fence.Reason)
			}
		}
		return fmt.Errorf("neither: %s", strings.Join(reasons, "; "))
	})
	return active
}

// anotherBroker reports whether a node is not ready because the broker of another system is
// alive. Only this answer has the reason: the status shows it to tokens, which a node without an
// active leader does not know.
func anotherBroker(c *cluster.Cluster, n *cluster.Node) bool {
	err := c.Client.Ready(c.Context(cluster.LeaderTimeout), n.HTTP)
	return err != nil && strings.Contains(err.Error(), "another broker")
}
