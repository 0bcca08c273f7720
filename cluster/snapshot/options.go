package snapshot

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"osqueue/storage"
)

// Defaults of Options.
const (
	DefaultUploadInterval = 10 * time.Minute
	DefaultSlack          = 4 << 10
)

// Options has the settings of a Store.
type Options struct {
	// Dir is the node's data directory. No other Store may use it, which the lock of the
	// raft log in it ensures.
	Dir string
	// Bucket is the destination of uploads. nil keeps everything on the disk, for tools.
	Bucket storage.Bucket
	// Node is the name of this node in the bucket.
	Node string
	// Cluster returns the id of the cluster in the machine, "" while it has none. Different
	// raft groups must never have the same id. Several goroutines call it.
	Cluster func() string
	// UploadInterval is the minimum time between two uploads of this node; 0 means
	// DefaultUploadInterval.
	UploadInterval time.Duration
	// Slack is the number of entries by which another node's upload may be older than a
	// snapshot of this node and still replace its upload. Up to raft's TrailingLogs the
	// leader has the log after it. 0 means DefaultSlack.
	Slack uint64
	// Damaged is called when a local snapshot turns out to be damaged while raft runs; nil:
	// no call. The node should make raft take a new snapshot. Damaged runs on raft's
	// goroutines: it must not block.
	Damaged func(error)
	// Watch runs fn, which reads up to that many bytes of the disk; if fn hangs, the node should end.
	// nil only runs fn. Several goroutines call it.
	Watch  func(what string, bytes int, fn func() error) error
	Clock  func() time.Time // wall clock for the dates of uploads; nil: time.Now
	Logger hclog.Logger     // nil: no log

	partBytes int // size of the objects of an upload; for tests
}

func unwatched(_ string, _ int, fn func() error) error { return fn() }

func (o *Options) complete() error {
	if o.Dir == "" {
		return errors.New("snapshots need a data directory")
	}
	if o.UploadInterval == 0 {
		o.UploadInterval = DefaultUploadInterval
	}
	if o.Slack == 0 {
		o.Slack = DefaultSlack
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Logger == nil {
		o.Logger = hclog.NewNullLogger()
	}
	if o.Watch == nil {
		o.Watch = unwatched
	}
	if o.Damaged == nil {
		o.Damaged = func(error) {}
	}
	if o.Bucket == nil {
		return nil
	}
	if o.Cluster == nil {
		return errors.New("snapshots in a bucket need the cluster's id")
	}
	if err := storage.ValidateKey(o.Node); err != nil || strings.Contains(o.Node, "/") {
		return fmt.Errorf("the node's name %q cannot be used in the bucket: use letters, digits and . _ ~ -", o.Node)
	}
	return nil
}
