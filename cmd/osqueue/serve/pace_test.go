package serve

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"osqueue/cluster"
)

// TestHeartbeats checks the heartbeat and the broker timeout: longer where writes cost money.
func TestHeartbeats(t *testing.T) {
	for line, want := range map[string][2]time.Duration{
		"file:///d":                  {3 * time.Second, 10 * time.Second},
		"s3://b":                     {10 * time.Second, 30 * time.Second},
		"gs://b":                     {10 * time.Second, 30 * time.Second},
		"s3://b --broker-timeout=9s": {3 * time.Second, 9 * time.Second},
		"s3://b --broker-heartbeat=30s --broker-timeout=90s": {30 * time.Second, 90 * time.Second},
	} {
		if _, c := paced(t, line); c.Flush.Heartbeat != want[0] || c.BrokerTimeout != want[1] {
			t.Errorf("%s: %v and %v, want %v", line, c.Flush.Heartbeat, c.BrokerTimeout, want)
		}
	}
}

// paced returns the pace and the configuration that a bucket and flags of pace result in.
func paced(t *testing.T, line string) (*pace, *cluster.Config) {
	t.Helper()
	o := newOptions()
	f := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	o.bind(f)
	if err := f.Parse(append([]string{"--ack=quorum"}, strings.Fields(line)...)); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	if err := o.pace.complete(f.Arg(0), &o.node); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return &o.pace, &o.node
}
