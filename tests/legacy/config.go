package legacy

import "time"

// Config configures a broker.
type Config struct {
	Bucket  string // URL
	Address string // to listen on and to register

	Heartbeat  time.Duration // 0: 3 s
	Timeout    time.Duration // of other brokers; 0: 10 s
	JobTimeout time.Duration // 0: 30 s

	// TakesBack enables a recorded defect: the heartbeat writes the own address even if
	// another broker is registered, so a deposed broker takes the document back and never
	// ends.
	TakesBack bool
	// Missing selects the behaviour without a list of jobs.
	Missing Missing
	// Retry starts the broker again while another one is registered, as the script around the
	// real one does every 10 s. 0: it ends.
	Retry time.Duration
}

// Missing is the behaviour of a broker on a document without a list of jobs.
type Missing string

// The possible behaviours.
const (
	Fail         Missing = ""       // each step that reads the jobs fails
	TakeForEmpty Missing = "empty"  // the queue has no jobs
	Unreadable   Missing = "refuse" // the document cannot be read, also in the election
)

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, to time.Duration) {
		if *d == 0 {
			*d = to
		}
	}
	set(&c.Heartbeat, 3*time.Second)
	set(&c.Timeout, 10*time.Second)
	set(&c.JobTimeout, 30*time.Second)
	return c
}
