// Package connmux hands the connections of one listener to several listeners, by what the
// client sends first.
//
// # Problem
//
// One port speaks several protocols: raft and the calls of peers, or TLS and plain text while
// a cluster gets certificates. The first bytes tell them apart, and a client that sends
// nothing must delay no other.
//
// # States of a connection
//
//	accepted ──(Sort, in a goroutine)──▶ sorted ──▶ waits for Accept of its branch
//	    └────(too slow, refused, or too many)──▶ closed
//
// # Failure stance
//
// A connection that is not sorted and accepted within the patience is closed; its client
// connects again. At most Max connections are being sorted; further ones are closed at once.
// Close ends all of them and waits for their goroutines. An error of the listener ends all
// branches with that error, unless it is temporary.
package connmux
