package cluster

// movedHosts is added to the number of a node that has moved.
const movedHosts = 50

// Move gives a node that does not run other addresses, as on another machine. All nodes that are
// started from now on, and clients made from now on, know them. It is for clusters without links.
func (n *Node) Move() {
	c := n.cluster
	for i, o := range c.Nodes {
		if o == n {
			n.HTTP, n.Raft, n.Legacy = c.address(movedHosts+i+1, httpPort), c.address(movedHosts+i+1, raftPort), c.address(movedHosts+i+1, legacyPort)
		}
	}
	n.httpBind, n.raftBind = n.HTTP, n.Raft
}
