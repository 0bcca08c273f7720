// Package plane is the port of a node for the other nodes: raft, the calls of peers, and the
// requests that a node forwards to the leader share it.
//
// # Problem
//
// Clients and nodes must not share a port: what a node may do, such as joining or forwarding a
// request under the identity of its client, no client may. So one port, with mutual TLS, has
// everything that needs to trust a node, and the HTTP port has none of it.
//
// # Protocols
//
//	             with TLS (ALPN)    without TLS (first byte)
//	raft         osqueue-raft/1     0 to 4, the kind of a raft request
//	peers        osqueue-peer/1     "osqueue-peer/1\n", which the node sends back; then HTTP
//
// # Parts
//
//	Port      the listener: sorts connections, and knows which nodes may have one
//	Security  certificates and TLS of both directions
//	Dialer    connects to the peer calls of a node, of which only the HTTP address is known
//
// # Migration
//
// With Security.Plain a node accepts connections with and without TLS, and dials with TLS
// first. So a cluster gets certificates, or loses them, by rolling restarts.
//
// # Failure stance
//
// A connection of which it is not certain that a node has opened it is closed. A node that may
// no longer have connections (Port.Allow) loses the open ones within allowEvery. A dial that
// fails forgets where the node was, and the next one asks it again.
package plane
