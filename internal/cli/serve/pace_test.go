package serve

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"osqueue/cluster"
)

// TestInboxIntervals checks how often the node reads a busy and an idle inbox, for each
// combination of flags.
func TestInboxIntervals(t *testing.T) {
	for line, want := range map[string][2]time.Duration{
		"file:///d":                       {time.Second, time.Second},
		"s3://b":                          {10 * time.Second, 5 * time.Minute},
		"gs://b":                          {10 * time.Second, 5 * time.Minute},
		"s3://b --inbox-interval=10s":     {10 * time.Second, 10 * time.Second},
		"s3://b --inbox-interval=0":       {0, 0},
		"s3://b --inbox-idle-interval=1h": {10 * time.Second, time.Hour},
		"s3://b --inbox-interval=5s --inbox-idle-interval=30s":   {5 * time.Second, 30 * time.Second},
		"file:///d --inbox-interval=2s --inbox-idle-interval=4s": {2 * time.Second, 4 * time.Second},
	} {
		c := paced(t, line)
		if got := [2]time.Duration{c.InboxInterval, c.InboxIdleInterval}; got != want {
			t.Errorf("%s: %v, want %v", line, got, want)
		}
	}
}

// TestIdleHeartbeats checks the heartbeat of an idle leader: slow where writes cost money,
// unless the times that are given do not allow it.
func TestIdleHeartbeats(t *testing.T) {
	for line, want := range map[string]time.Duration{
		"file:///d":                             0,
		"s3://b":                                time.Minute,
		"gs://b":                                time.Minute,
		"s3://b --broker-idle-heartbeat=0":      0,
		"s3://b --broker-idle-heartbeat=2m":     2 * time.Minute,
		"file:///d --broker-idle-heartbeat=30s": 30 * time.Second,
		"s3://b --max-flush-lag=1m":             0,
		"s3://b --max-flush-lag=0":              time.Minute,
	} {
		if c := paced(t, line); c.Flush.IdleHeartbeat != want {
			t.Errorf("%s: %v, want %v", line, c.Flush.IdleHeartbeat, want)
		}
	}
	c := cluster.DefaultConfig()
	c.Flush.Heartbeat = time.Second
	if got := (&pace{}).aloneHeartbeat(time.Minute, &c); got != 0 {
		t.Errorf("with a heartbeat of its own: %v", got)
	}
}

// paced returns the configuration that a bucket and flags of pace result in.
func paced(t *testing.T, line string) cluster.Config {
	t.Helper()
	c := cluster.DefaultConfig()
	var p pace
	f := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	p.bind(f, &c)
	if err := f.Parse(append([]string{"--ack=quorum"}, strings.Fields(line)...)); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	if err := p.complete(f.Arg(0), &c); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return c
}
