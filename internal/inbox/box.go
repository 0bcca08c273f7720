package inbox

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/limit"
	"osqueue/internal/sleep"
	"osqueue/storage"
)

// Config has the settings of a box. IdleInterval, Now and Log are optional.
type Config struct {
	Bucket   storage.Bucket
	Interval time.Duration // rest between two rounds; 0: the box does nothing
	// IdleInterval is the longest rest while no file arrives. If it is less than Interval,
	// the rest is always Interval.
	IdleInterval time.Duration

	Now func() time.Time // for reasons, and for the time that a file waits; nil: time.Now
	Log hclog.Logger     // nil: no log
}

// Queue is the queue of the node that leads. One goroutine calls it, during a Run.
type Queue interface {
	// Enqueue enqueues the jobs of files, in one log entry, and returns an answer for each
	// file. After an error it is unknown whether they were enqueued; the box calls Enqueue
	// with them again. lsn is that of the entry.
	Enqueue(ctx context.Context, files []File) (answers []Answer, lsn fsm.LSN, err error)
	// WaitFlushed waits until the document in the bucket has that LSN, and then returns nil.
	WaitFlushed(ctx context.Context, lsn fsm.LSN) error
}

// File is a file that has one job.
type File struct {
	ID      string // of the job
	Data    []byte
	Request *fsmpb.Request // of the mutation that enqueues the job, which makes it take effect once
}

// Answer is the answer of the queue to a file.
type Answer struct {
	Defect error      // reason for which the file is not a job, and is rejected; nil: it is one
	Result fsm.Result // of the machine, if Defect is nil
}

// bounds limits one round and the memory of a leader. Tests make them smaller.
type bounds struct {
	files      int           // new files in a round
	batchFiles int           // in one log entry
	batchBytes int64         // in one log entry, unless a single file has more
	parallel   int           // concurrent requests to the bucket
	held       int           // files that are refused for now
	stuck      int           // files that are in the queue and cannot be removed
	probe      int           // initial number of held files to look at in a round
	page       int           // names in one page of a listing
	moved      int64         // a larger file is ignored
	patience   time.Duration // maximum wait for a missing job
	pauseMax   time.Duration // after failed rounds
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

// Box takes the jobs of the inbox into the queue. It lives as long as its node. Stats is
// safe for concurrent use.
type Box struct {
	cfg    Config
	bounds bounds

	mu    sync.Mutex
	stats Stats
}

// Stats counts the actions of this node as leader since its start.
type Stats struct {
	Taken    uint64 // jobs added to the queue
	Repeated uint64 // files that added nothing: the job or its unique key existed
	Rejected uint64 // files moved to inbox-rejected/
	// Waiting is the number of files in the inbox that can be jobs: the count of the last
	// listing without the files removed since. It is a lower bound if the listing was
	// incomplete, and 0 while the node does not lead.
	Waiting int
	Failing string // the error of the last round; "" if it succeeded
}

// New returns a box.
func New(cfg Config) *Box {
	cfg = limit.Defaults(cfg, Config{Now: time.Now, Log: hclog.NewNullLogger()})
	return &Box{cfg: cfg, bounds: defaultBounds()}
}

// Stats returns the current counts.
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

// Run takes jobs into the queue, round after round, until ctx ends. One goroutine calls it,
// once in each leader term, while this node is the active leader.
func (b *Box) Run(ctx context.Context, queue Queue) {
	if b.cfg.Interval <= 0 {
		return
	}
	defer b.count(func(s *Stats) { s.Waiting, s.Failing = 0, "" })
	r := newLeaderTerm(b, queue)
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
		if !sleep.For(ctx, rest) {
			return
		}
	}
}

// note records the result of a round, and logs the first failure and the recovery.
func (b *Box) note(err error) {
	before, now := b.Stats().Failing, ""
	if err != nil {
		now = err.Error()
	}
	b.count(func(s *Stats) { s.Failing = now })
	switch {
	case before == "" && err != nil:
		b.cfg.Log.Warn("cannot empty the inbox; trying again", "error", err)
	case before != "" && err == nil:
		b.cfg.Log.Info("emptying the inbox works again")
	}
}
