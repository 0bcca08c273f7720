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

// Options are what a Store works with.
type Options struct {
	// Dir is the node's data directory. The Store must be the only one on it,
	// which the lock of the raft log in there sees to.
	Dir string
	// Bucket gets the uploads. nil keeps everything on the disk, for tools.
	Bucket storage.Bucket
	// Node names this node in the bucket.
	Node string
	// Cluster returns the cluster's id as the machine has it, "" while it has
	// none. Snapshots of different raft groups must never have the same one.
	// It is called from several goroutines.
	Cluster func() string
	// UploadInterval is the shortest time between two uploads of this node; 0
	// takes DefaultUploadInterval.
	UploadInterval time.Duration
	// Slack is by how many entries another node's upload may be older than a
	// snapshot of this node's and still be good enough instead of it. Up to
	// raft's TrailingLogs the leader has the log behind it. 0 takes DefaultSlack.
	Slack uint64
	// Damaged is told when a local snapshot turns out to be damaged while raft
	// runs; nil for nobody. The node should have raft make a new one. It is
	// called on raft's goroutines: it must not block.
	Damaged func(error)
	Clock   func() time.Time // the wall clock, by which uploads are dated; nil: time.Now
	Logger  hclog.Logger     // nil logs nothing

	partBytes int // of the objects of an upload; for tests
}

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
