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
	"osqueue/election"
	"osqueue/internal/sleep"
	"osqueue/storage"
	"osqueue/storage/bucketurl"
	"osqueue/tests/cluster/store"
	"osqueue/tests/replay/transcript"
)

// mode selects the node that gets the requests.
type mode string

const (
	askLeader   mode = "leader"
	askFollower mode = "follower"
)

var modes = []mode{askLeader, askFollower}

// servers returns the addresses of nodes.
func (m mode) servers(leader, follower *node) servers {
	at := servers{base: leader.base, leader: leader.base, follower: follower.base}
	if m == askFollower {
		at.base = follower.base
	}
	return at
}

// setups has the flags of the nodes for each config of cases.
var setups = map[string][]string{
	transcript.ConfigDefault:     nil,
	transcript.ConfigShortExpiry: {"--lease", "1s", "--broker-heartbeat", "300ms"},
	transcript.ConfigThrottled:   {"--bucket-writes-per-day", "1000000"},
	transcript.ConfigStorageFail: {
		"--broker-heartbeat", "500ms", "--broker-timeout", "1500ms", "--max-flush-lag", "2s",
		"--raft-heartbeat", "2s", "--raft-election", "2s", "--raft-lease", "1s", // in real time a busy machine must not change the leader
	},
	transcript.ConfigSeeded: {"--broker-timeout", silence.String(), "--broker-heartbeat", "1s"},
}

// silence is the time without a write after which a cluster counts the broker in the seed as
// dead, if the document has a header. A broker whose heartbeat in the seed is younger is alive.
const silence = 5 * time.Second

// newPlayerOn makes a player of the cases of a config.
func newPlayerOn(t *testing.T, config string, at port, m mode) *player {
	t.Helper()
	n := newNetwork()
	switch config {
	case transcript.ConfigSeeded:
		return &player{net: n.dial, start: seeded(t, n, at, m)}
	case transcript.ConfigStorageFail:
		return &player{at: m.servers(startFailing(t, at)), reset: staysEmpty}
	default:
		c := run(t, n, at, "file://"+t.TempDir(), setups[config]...)
		return &player{at: m.servers(c.leader()), net: n.dial, reset: c.empty}
	}
}

// startFailing starts nodes whose bucket, an emulator of S3, refuses every later write, and waits
// until they refuse writes too. That takes one write that does not reach the bucket, and the queue
// must stay empty, so it writes the name of a worker.
func startFailing(t *testing.T, at port) (leader, follower *node) {
	t.Helper()
	s := store.StartKind(t, store.GoFakeS3)
	c := run(t, nil, at, s.URL(), setups[transcript.ConfigStorageFail]...)
	leader, follower = c.leader()
	const forEver = 1 << 30
	s.Proxy(t).Inject(store.Error, store.Writes, forEver)
	if err := c.admin.RegisterWorker(t.Context(), client.WorkerInfo{Name: "unflushed"}); err != nil {
		t.Fatal(err)
	}
	c.eventually("writes to be refused", func() error {
		for _, s := range c.admin.StatusAll(t.Context()) {
			if s.Err == nil && s.Status.Refusing != "" {
				return nil
			}
		}
		return errors.New("they are taken")
	})
	return leader, follower
}

// staysEmpty empties nothing: nothing can be written.
func staysEmpty(context.Context) error { return nil }

// seeded returns the function that starts nodes on a seed.
func seeded(t *testing.T, n *network, at port, m mode) func(seed []byte) (bool, servers, error) {
	return func(seed []byte) (started bool, to servers, err error) {
		url := "file://" + t.TempDir()
		stop, err := plant(t.Context(), url, seed)
		if err != nil {
			return false, to, err
		}
		defer stop()
		c := run(t, n, at, url, setups[transcript.ConfigSeeded]...)
		if !c.serves() {
			return false, to, nil
		}
		return true, m.servers(c.leader()), nil
	}
}

const docKey = "queue.json"

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
		for sleep.For(ctx, silence/10) {
			document["brokerHeartbeat"] = time.Now().UnixMilli()
			text, _ := json.Marshal(document) // it was JSON
			if w = b.PutIfMatch(ctx, docKey, text, w.Version); w.Outcome != storage.Committed {
				return // this broker is fenced, or the test is over
			}
		}
	}()
	return func() { cancel(); <-done; _ = b.Close() }, nil
}

// respected is for how long nodes must stand by until the broker in the seed counts as
// respected: a dead one loses the document by then.
const respected = election.LegacyTimeout + silence

// serves waits until there is an active leader, or until both nodes say that the broker of another
// system is alive, and still do after respected.
func (c *nodes) serves() (active bool) {
	c.t.Helper()
	c.eventually("a leader, or a standby", func() error {
		if _, _, err := c.leads(); err == nil {
			return nil
		}
		return c.standsBy()
	})
	if _, _, err := c.leads(); err == nil {
		return true
	}
	time.Sleep(respected)
	if _, _, err := c.leads(); err == nil {
		return true
	}
	if err := c.standsBy(); err != nil {
		c.t.Error(err)
	}
	return false
}

// standsBy returns an error unless both nodes say that the broker of another system is alive.
func (c *nodes) standsBy() (err error) {
	for _, n := range c.all {
		ready := c.admin.Ready(c.t.Context(), n.http)
		if ready == nil || !strings.Contains(ready.Error(), "another broker") {
			err = errors.Join(err, fmt.Errorf("%s is ready, or is not for another reason: %w", n.name, ready))
		}
	}
	return err
}
