package serve

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"osqueue/cluster"
)

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
		if _, c := paced(t, line); c.Flush.IdleHeartbeat != want {
			t.Errorf("%s: %v, want %v", line, c.Flush.IdleHeartbeat, want)
		}
	}
	c := cluster.DefaultConfig()
	c.Flush.Heartbeat = time.Second
	if got := (&pace{}).aloneHeartbeat(time.Minute, &c); got != 0 {
		t.Errorf("with a heartbeat of its own: %v", got)
	}
}

// paced returns the pace and the configuration that a bucket and flags of pace result in.
func paced(t *testing.T, line string) (*pace, *cluster.Config) {
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
	return &p, &c
}
