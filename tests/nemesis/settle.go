package nemesis

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"osqueue/fsm"
	"osqueue/storage/archive"
	"osqueue/tests/cluster"
	"osqueue/tests/history"
	"osqueue/tests/model"
)

// noteStores stops the nodes and notes what their disks and the bucket hold.
func (w *World) noteStores() {
	w.T.Helper()
	w.Cluster.StopAll()
	w.Store.Settle()
	w.restoreObjects()
	// Each version is replayed from its checkpoint, and a long round has thousands of them.
	written := w.Store.Versions()
	ctx := w.Cluster.Context(2*time.Minute + time.Duration(len(written))*500*time.Millisecond)
	versions, err := model.Read(ctx, w.Store.Bucket(), written)
	if err != nil {
		w.T.Error(err)
		return
	}
	w.verifyBucket(ctx)
	at := make([]fsm.LSN, 0, len(versions))
	for _, v := range versions {
		at = append(at, v.Header.LSN())
	}
	at = append(at, w.noteSnapshots()...)
	var replayed []history.State // by all nodes: the log of one may begin late, that of another end early
	for _, n := range w.Cluster.Nodes {
		states, err := w.noteLog(n, at)
		if err != nil {
			w.T.Errorf("%s: %v", n.Name, err)
		}
		replayed = append(replayed, states...)
	}
	times := w.Store.VersionTimes()
	for i, d := range model.Versions(versions, replayed) {
		if i < len(times) {
			d.At = w.Rec.At(times[i])
		}
		w.Rec.Document(d)
	}
}

// noteSnapshots notes the states that nodes have written out while they ran, and
// returns their LSNs.
func (w *World) noteSnapshots() (at []fsm.LSN) {
	for _, n := range w.Cluster.Nodes {
		files, err := n.Snapshots()
		if err != nil {
			w.T.Error(err)
		}
		for _, f := range files {
			s, err := snapshotState(n, f)
			if err != nil {
				w.T.Errorf("snapshot %s of %s: %v", f, n.Name, err)
				continue
			}
			w.Rec.State(s)
			at = append(at, s.LSN.LSN)
		}
	}
	return at
}

func snapshotState(n *cluster.Node, path string) (history.State, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return history.State{}, err
	}
	return model.SnapshotState(n.Name, data)
}

// noteLog replays a node's log.
func (w *World) noteLog(n *cluster.Node, at []fsm.LSN) ([]history.State, error) {
	log, err := n.RaftLog()
	if err != nil {
		return nil, err
	}
	lines, states, err := model.Applied(n.Name, log, at...)
	for _, l := range lines {
		w.Rec.Applied(l)
	}
	for _, s := range states {
		w.Rec.State(s)
	}
	return states, err
}

// verifyBucket checks all objects of the bucket, as `osqueue verify` does, and looks for
// copies of documents that a leader has taken for edited: none was edited.
func (w *World) verifyBucket(ctx context.Context) {
	report, err := archive.Verify(ctx, w.Store.Bucket(), "queue.json")
	if err != nil {
		w.T.Error(err)
		return
	}
	for _, p := range report.Problems {
		w.T.Error(p)
	}
	if keys := w.conflicts(); len(keys) > w.copies {
		w.T.Errorf("%d documents were taken for ones that somebody had edited, and %d were: %v", len(keys), w.copies, keys)
	}
}

// keepEvidence removes the record of a round that has passed, and adds the nodes' logs
// to that of one that has not.
func (w *World) keepEvidence() {
	if !w.T.Failed() && os.Getenv(keepEnv) == "" {
		_ = os.RemoveAll(w.evidence)
		return
	}
	for _, n := range w.Cluster.Nodes {
		if err := os.WriteFile(filepath.Join(w.evidence, n.Name+".log"), []byte(n.Log()), 0o600); err != nil {
			w.T.Log(err)
		}
	}
	w.T.Logf("seed %d; the history and the nodes' logs are in %s; look at them with\n\tgo run ./tests/check --timeline timeline.html %s",
		w.round.Seed, w.evidence, filepath.Join(w.evidence, historyFile))
}

// keepEnv keeps the record of every round, if it is set.
const keepEnv = "OSQUEUE_KEEP_HISTORY"

const historyFile = "history.jsonl"
