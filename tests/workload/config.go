package workload

import (
	"context"
	"errors"
	"net"
	"time"
)

// Config sets the load. The zero value is a modest load: about 120 operations per second in
// total, which two cores can run next to a cluster.
type Config struct {
	Seed  uint64
	Lease time.Duration // that consumers ask for; 0: 3 s

	Producers  int // 0: 3, as below; negative: none
	Consumers  int // 0: 4
	Cancellers int // 0: 1
	Editors    int // 0: 1
	Limiters   int // 0: 1
	Readers    int // 0: 2

	// Each rate is the total of all clients of the kind, per second.
	JobRate    float64 // 0: 30
	CancelRate float64 // 0: 1.5
	EditRate   float64 // 0: 4
	LimitRate  float64 // 0: 1
	ReadRate   float64 // 0: 15

	// Patience is the time for which a call is repeated; 0 means 10 s.
	Patience time.Duration
	// Dial opens the connections; nil means the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

var errRate = errors.New("workload: a rate is negative")

// filled returns the configuration with its defaults.
func (c Config) filled() (Config, error) {
	if min(c.JobRate, c.CancelRate, c.EditRate, c.LimitRate, c.ReadRate) < 0 {
		return c, errRate
	}
	for _, d := range []struct {
		n   *int
		def int
	}{{&c.Producers, 3}, {&c.Consumers, 4}, {&c.Cancellers, 1}, {&c.Editors, 1}, {&c.Limiters, 1}, {&c.Readers, 2}} {
		if *d.n == 0 {
			*d.n = d.def
		}
		*d.n = max(*d.n, 0)
	}
	for _, d := range []struct {
		r   *float64
		def float64
	}{{&c.JobRate, 30}, {&c.CancelRate, 1.5}, {&c.EditRate, 4}, {&c.LimitRate, 1}, {&c.ReadRate, 15}} {
		if *d.r == 0 {
			*d.r = d.def
		}
	}
	if c.Lease == 0 {
		c.Lease = 3 * time.Second
	}
	if c.Patience == 0 {
		c.Patience = 10 * time.Second
	}
	return c, nil
}
