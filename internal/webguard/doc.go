// Package webguard keeps web pages of strangers away from the HTTP API of a node.
//
// # Problem
//
// A browser lets any page send requests to any address that the machine reaches, also to
// loopback. The same-origin policy hides the answers, but a request without a body has done
// its work by then. And a page whose name its owner points to the node's address (DNS
// rebinding) counts as the same origin: it reads the answers, too.
//
// # Rules
//
//	Hosts   a request must name a host under which this node is known. Addresses pass:
//	        a page cannot be served under the name of an address that is not its own.
//	        Otherwise the answer is 421 Misdirected Request.
//	origin  an unsafe request that a browser marks as one of another origin is refused
//	        with 403, unless the operator has named the origin
//	        (net/http.CrossOriginProtection).
//
// Programs send neither Origin nor Sec-Fetch-Site, and nothing changes for them. Health
// checks pass under any name: they show nothing, and balancers make up names.
//
// # Failure stance
//
// The guard protects browsers. It is no authentication: a program can send any header.
package webguard
