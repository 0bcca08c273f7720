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
		if got := [2]time.Duration{c.InboxInterval, c.InboxIdleInterval}; got != want {
			t.Errorf("%s: %v, want %v", line, got, want)
		}
	}
}
