// Package web has what a server of HTTP needs around its handlers.
//
// # Guard
//
// Guard keeps web pages of strangers away from the HTTP API of a node. A browser lets any page send
// requests to any address that the machine reaches, also to loopback. The same-origin policy hides
// the answers, but a request without a body has done its work by then. And a page whose name its
// owner points to the node's address (DNS rebinding) counts as the same origin: it reads the
// answers, too.
//
//	Hosts   a request must name a host under which this node is known. Addresses pass:
//	        a page cannot be served under the name of an address that is not its own.
//	        Otherwise the answer is 421 Misdirected Request.
//	origin  an unsafe request that a browser marks as one of another origin is refused
//	        with 403, unless the operator has named the origin
//	        (net/http.CrossOriginProtection).
//
// Programs send neither Origin nor Sec-Fetch-Site, and nothing changes for them. Health
// checks pass under any name: they show nothing, and balancers make up names. The guard protects
// browsers. It is no authentication: a program can send any header.
//
// # Mux
//
// Mux hands the connections of one listener to several listeners, by what the client sends first.
// One port speaks several protocols: raft and the calls of peers, or TLS and plain text while a
// cluster gets certificates. A client that sends nothing delays no other.
//
//	accepted ──(Sort, in a goroutine)──▶ sorted ──▶ waits for Accept of its branch
//	    └────(too slow, refused, or too many)──▶ closed
//
// A connection that is not sorted and accepted within the patience is closed; its client
// connects again. At most Max connections are being sorted; further ones are closed at once.
// Close ends all of them and waits for their goroutines. An error of the listener ends all
// branches with that error, unless it is temporary.
//
// # Answers
//
// Answer keeps the answer of an http.Handler that is called without a socket in between.
//
// Requests between nodes, and between a node and a machine that joins, are answered with JSON: the
// value that was asked for with a status of 2xx, or else a Refusal.
package web
