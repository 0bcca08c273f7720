package regression

import (
	"fmt"
	"testing"
	"time"

	"osqueue/tests/cluster"
)

// The idle heartbeat writes almost nothing while no standby is known. A standby that starts
// makes the heartbeat fast, and does not take over although the document has not changed for
// longer than its broker timeout.
func TestIdleHeartbeat(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes 50 s")
	}
	const idle = 20 * time.Second
	dir := t.TempDir()
	flags := append([]string{"--standby-interval", "1s", "--broker-idle-heartbeat", idle.String()}, standbyTimes...)
	a := cluster.Start(t, cluster.Options{Nodes: 1, Prefix: "a", Bucket: "file://" + dir, Flags: flags})
	n := a.Nodes[0]
	startWritten(t, a, n, 2*time.Second)
	puts := func(span time.Duration) (n uint64, passed time.Duration) {
		began, before := time.Now(), putsOf(reading(t, a.Nodes[0]))
		time.Sleep(span)
		return putsOf(reading(t, a.Nodes[0])) - before, time.Since(began)
	}
	slow, passed := puts(30 * time.Second)
	t.Logf("in %v an idle leader wrote %d times to the bucket", passed.Round(time.Second), slow)
	if most := uint64(passed/idle) + 2; slow > most {
		t.Errorf("an idle leader wrote %d times to the bucket in %v, want at most %d", slow, passed, most)
	}
	epoch := reading(t, n).Epoch
	b := cluster.New(t, cluster.Options{Nodes: 1, Prefix: "b", Bucket: "file://" + dir, Flags: flags})
	b.Nodes[0].Start()
	a.Eventually(patience, "the leader to know of the standby", func() error {
		s, err := n.Status()
		if err == nil && s.Standby == "" {
			err = fmt.Errorf("it knows of none")
		}
		return err
	})
	fast, passed := puts(10 * time.Second)
	t.Logf("in %v a leader with a standby wrote %d times", passed.Round(time.Second), fast)
	if least := uint64(10*time.Second/(500*time.Millisecond)) / 2; fast < least {
		t.Errorf("a leader with a standby wrote %d times in %v, want at least %d", fast, passed, least)
	}
	if s := reading(t, n); s.Epoch != epoch || s.Fence.State != "active" {
		t.Errorf("the standby has deposed the leader: epoch %d after %d, %s", s.Epoch, epoch, s.Fence.State)
	}
	if err := fenceOf(b, "standby")(); err != nil {
		t.Error(err)
	}
}
