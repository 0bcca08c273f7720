package membership

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/hashicorp/go-hclog"

	"osqueue/cluster/snapshot"
	"osqueue/fsm"
	"osqueue/storage"
)

// A new node that finds a running cluster starts from the state of that cluster in the bucket.
// The leader then has to send only the log behind it, and not the whole state. If that fails for
// any reason, the node starts empty, and the leader sends everything.

// seedTimeout bounds how long reading the state may delay the start of a new node.
const seedTimeout = 2 * time.Minute

// seedAsk bounds how long a new node asks for a living cluster. If all nodes of a cluster are new, each
// waits here for the others, and no node serves yet.
const seedAsk = 500 * time.Millisecond

// SeedOptions configure Peers.Seed.
type SeedOptions struct {
	Bucket storage.Bucket
	Key    string // of the document
	Dir    string // data directory of the new node
	Log    hclog.Logger
}

// Seed writes the state in the bucket as the first snapshot in the data directory of a new node,
// if the cluster of a peer wrote it. If that fails, Seed only logs the reason.
func (p *Peers) Seed(ctx context.Context, o SeedOptions) {
	if len(p.named) < 2 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, seedTimeout)
	defer cancel()
	asking, asked := context.WithTimeout(ctx, seedAsk)
	peers, _ := p.AskAll(asking) // peers that do not answer are skipped
	asked()
	var errs []error
	for _, who := range peers {
		if who.Empty || who.Cluster == "" {
			continue
		}
		meta, err := snapshot.Seed(ctx, snapshot.SeedOptions{
			Bucket: o.Bucket, Key: o.Key, Dir: o.Dir, Cluster: who.Cluster, Logger: o.Log.Named("snapshot"),
			Confirm: func(ctx context.Context, lsn fsm.LSN) (snapshot.Place, error) {
				return p.Confirm(ctx, who.HTTPAddress, lsn)
			},
		})
		if err == nil {
			o.Log.Info("this new node starts from the state in the bucket", "index", meta.Index, "bytes", meta.Size)
			return
		}
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		o.Log.Info("this new node gets its state from the leader, not from the bucket", "reason", errors.Join(errs...))
	}
}

// Confirm asks the node at address, which must lead the cluster, for the place of an entry in
// raft's log. It returns an error if the log of that node does not continue behind the entry.
func (p *Peers) Confirm(ctx context.Context, address string, lsn fsm.LSN) (at snapshot.Place, err error) {
	url := fmt.Sprintf("http://%s%shistory/%s", address, Path, lsn)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return at, err
	}
	err = p.call(req, &at)
	return at, err
}
