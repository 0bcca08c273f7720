package cluster

import "osqueue/cluster/leader"

// active returns the leader term that may answer writes and reads now, or nil. After this
// node was cut off from the others, there is none.
func (n *Node) active() *leader.Term {
	r := n.leader.Active()
	select {
	case <-n.cut:
		return nil
	default:
		return r
	}
}

// Refusal returns why this active leader takes no writes except reports now: an
// ErrFlushLag, or nil. Propose checks this itself. Refusal is for callers that would
// write only if there were something to write, such as claims.
func (n *Node) Refusal() error {
	if r := n.active(); r != nil {
		return r.Refusal()
	}
	return nil
}
