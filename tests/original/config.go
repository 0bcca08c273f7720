package original

import "time"

// Config is what a broker is started with.
type Config struct {
	Bucket  string // URL
	Address string // to listen on, and to register

	Heartbeat  time.Duration // 0: 3 s
	Timeout    time.Duration // of other brokers; 0: 10 s
	JobTimeout time.Duration // 0: 30 s

	// TakesBack is a recorded defect: the heartbeat writes the own address
	// whoever is registered, so a broker that was deposed takes the document back,
	// and never ends.
	TakesBack bool
	// Missing is what it does without a list of jobs.
	Missing Missing
	// Retry starts it again and again while another one is the broker, as the
	// script around the real one does each 10 s. 0: it ends.
	Retry time.Duration
}

// Missing is what a broker makes of a document without a list of jobs.
type Missing string

// The ways to take it.
const (
	Fail         Missing = ""       // each step that looks at the jobs fails
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
