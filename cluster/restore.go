package cluster

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/raft"

	"osqueue/fsm"
)

// restore gives every node the state v, if this node has been leader since the campaign
// began in that term. It encodes v while raft reads it, because a second copy of v may not
// fit into memory. It returns ErrNotLeader if leadership changed, and ErrClosed if the node
// is closing.
func (n *Node) restore(ctx context.Context, v *fsm.View, term uint64) error {
	r, w := io.Pipe()
	go func() { _ = w.CloseWithError(v.Encode(w)) }() // writes to a pipe; raft gets the error of Encode
	defer func() { _ = r.Close() }()                  // closing a pipe cannot fail
	meta := &raft.SnapshotMeta{
		Version: raft.SnapshotVersionMax,
		Index:   v.LSN().Index,
		Term:    term,
		Size:    v.EncodedSize(),
	}
	// Preparing the state takes time, and v lacks the writes that another leader has
	// answered since.
	if err := n.leads(term); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ErrNotLeader
	}
	timeout := restoreTimeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = time.Until(deadline)
	}
	n.restoring.Lock()
	defer n.restoring.Unlock()
	if n.ctx.Err() != nil {
		return ErrClosed
	}
	err := n.raft.Restore(meta, whileLeading{r, func() error { return n.leads(term) }}, timeout)
	if err != nil {
		if lost := n.leads(term); lost != nil { // raft does not wrap the reader's error
			return lost
		}
	}
	return err
}

// leads returns an error unless this node is raft's leader of a term.
func (n *Node) leads(term uint64) error {
	if n.raft.CurrentTerm() != term || n.raft.State() != raft.Leader {
		return fmt.Errorf("leadership changed before the state was restored: %w", ErrNotLeader)
	}
	return nil
}

// whileLeading reads the state that raft restores. Raft reads it in its main goroutine, and changes
// its term in no other one. So a request that raft takes up late, in a later term of this
// node, fails and changes nothing.
type whileLeading struct {
	io.Reader
	leads func() error
}

// Read implements io.Reader.
func (w whileLeading) Read(p []byte) (int, error) {
	if err := w.leads(); err != nil {
		return 0, err
	}
	return w.Reader.Read(p)
}

// restoreTimeout bounds how long raft may take to give all nodes a new state.
const restoreTimeout = 10 * time.Minute
