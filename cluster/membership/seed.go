package membership

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"osqueue/cluster/snapshot"
	"osqueue/storage"
)

// A new node that finds a running cluster fetches the newest snapshot of that cluster
// from the bucket before it starts raft. The leader then has to send only the log behind
// the snapshot, and not the whole state. If that fails for any reason, the node starts
// empty, and the leader sends everything.

// seedTimeout bounds how long fetching the snapshot may delay the start of a new node.
const seedTimeout = 2 * time.Minute

// seedAsk bounds how long a new node asks for a living cluster. If all nodes of a cluster are new, each
// waits here for the others, and no node serves yet.
const seedAsk = 500 * time.Millisecond

// SeedOptions configure Peers.Seed.
type SeedOptions struct {
	Bucket storage.Bucket
	Dir    string // data directory of the new node
	Log    hclog.Logger
}

// Seed fetches the newest snapshot of the cluster of a peer into the data directory of a
// new node. If there is none, or it cannot be fetched, Seed only logs the reason.
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
		meta, err := snapshot.Fetch(ctx, o.Bucket, o.Dir, who.Cluster, snapshot.FetchOptions{
			Accept: func(ctx context.Context, m raft.SnapshotMeta) error { return p.Vouched(ctx, who.HTTPAddress, m) },
			Logger: o.Log.Named("snapshot"),
		})
		if err == nil {
			o.Log.Info("this new node starts from a snapshot in the bucket", "index", meta.Index, "bytes", meta.Size)
			return
		}
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		o.Log.Info("this new node gets its state from the leader, not from the bucket", "reason", errors.Join(errs...))
	}
}

// Vouched asks the node at address to confirm that it leads the cluster and that the
// snapshot is part of its history. It returns nil if the node confirms it.
func (p *Peers) Vouched(ctx context.Context, address string, m raft.SnapshotMeta) error {
	url := fmt.Sprintf("http://%s%shistory/%d/%d", address, Path, m.Term, m.Index)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	return p.call(req, nil)
}
