package inbox

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage"
)

// Config is what a box needs. All but Now and Log must be set; the functions must be
// safe to call while the node leads, and are called by one goroutine.
type Config struct {
	Bucket   storage.Bucket
	Interval time.Duration // rest between two looks into the box; 0: it is not looked at
	// IdleInterval is the longest rest while no file arrives; less than Interval: it is
	// always Interval.
	IdleInterval time.Duration
	// Parse makes an enqueue of one job, with that id, of a file's bytes. An error
	// says what is wrong with the file, and rejects it.
	Parse func(id string, data []byte) (*fsmpb.Mutation, error)
	// Propose commits mutations in one log entry, and returns the machine's answer to
	// each. An error leaves open whether they were committed; they are proposed again.
	Propose func(ctx context.Context, ms []*fsmpb.Mutation) ([]fsm.Result, fsm.LSN, error)
	// Requested reports whether the machine remembers a request with this key and fingerprint.
	Requested func(*fsmpb.Request) bool
	// Flushed returns nil once the document in the bucket has that LSN.
	Flushed func(ctx context.Context, lsn fsm.LSN) error

	Now func() time.Time // for reasons, and for how long a file waits; nil: time.Now
	Log hclog.Logger     // nil: none
}

// bounds of a round. Tests make them smaller.
type bounds struct {
	files      int           // new files in a round
	batchFiles int           // in one log entry
	batchBytes int64         // in one log entry, unless one file alone has more
	parallel   int           // requests to the bucket at once
	held       int           // files that are refused for now
	stuck      int           // files that are in the queue and cannot be removed
	probe      int           // of them, looked at in a round at first
	page       int           // names that one request lists
	moved      int64         // a larger file is left where it is
	patience   time.Duration // for a job to wait for
	pauseMax   time.Duration // after rounds that failed
}

func defaultBounds() bounds {
	return bounds{
		files:      1000,
		batchFiles: 100,
		batchBytes: 512 << 10,
		parallel:   4,
		held:       10_000,
		stuck:      10_000,
		probe:      10,
		page:       1000,
		moved:      64 << 20,
		patience:   time.Minute,
		pauseMax:   time.Minute,
	}
}

// Box takes what is in the drop box into the queue. It lives as long as its node;
// Stats is safe for concurrent use.
type Box struct {
	cfg    Config
	bounds bounds

	mu    sync.Mutex
	stats Stats
}

// Stats count what this node has done as leader since its start.
type Stats struct {
	Taken    uint64 // jobs added to the queue
	Repeated uint64 // files that added nothing: their job was there, or its unique key
	Rejected uint64 // files moved to inbox-rejected/
	// Waiting is how many files that can be jobs were in the box when it was last
	// looked at, and are still; the least that it can be, if there were very many.
	// 0 while the node does not lead.
	Waiting int
	Failing string // why the last round did not succeed; "" when it did
}

// New makes a box.
func New(cfg Config) *Box {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = hclog.NewNullLogger()
	}
	return &Box{cfg: cfg, bounds: defaultBounds()}
}

// Stats are those of this moment.
func (b *Box) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stats
}

func (b *Box) count(change func(*Stats)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.stats)
}

// Run empties the box, again and again, until ctx ends. One goroutine calls it, for
// each reign anew, while this node is the active leader.
func (b *Box) Run(ctx context.Context) {
	if b.cfg.Interval <= 0 {
		return
	}
	defer b.count(func(s *Stats) { s.Waiting, s.Failing = 0, "" })
	r := newReign(b)
	for failures := 0; ; {
		rest, err := r.round(ctx)
		if ctx.Err() != nil {
			return
		}
		alarm := err
		if alarm == nil {
			alarm = r.stuckError()
		}
		b.note(alarm)
		if err == nil {
			failures = 0
		} else {
			failures = min(failures+1, 20)
			rest = max(min(b.cfg.Interval<<(failures-1), b.bounds.pauseMax), b.cfg.Interval)
		}
		if !sleep(ctx, rest) {
			return
		}
	}
}

// note keeps how a round ended, and logs the beginning and the end of trouble.
func (b *Box) note(err error) {
	before, now := b.Stats().Failing, ""
	if err != nil {
		now = err.Error()
	}
	b.count(func(s *Stats) { s.Failing = now })
	switch {
	case before == "" && err != nil:
		b.cfg.Log.Warn("the drop box cannot be emptied; trying again", "error", err)
	case before != "" && err == nil:
		b.cfg.Log.Info("the drop box is emptied again")
	}
}

// sleep waits for d and reports whether ctx lives.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
