// Package player plays recorded cases against a running server.
//
// # Problem
//
// The cases of a sequence depend on each other, and on a queue that is empty
// before; a wrong answer must not take the rest of the sequence with it more than
// it has to, and a request must be what the recorded client sent: its headers, its
// path as it was written, in chunks where it was, on the connection that it had.
//
//	Player.Play(file) ── for each sequence: Reset, then each case:
//	    wait_ms ──▶ request ──▶ transcript.Check… ──▶ Result
//	                   ▲               │ wrong, and eventually_ms not over
//	                   └───────────────┘
//
// A Player is used by one goroutine. What it captures lives as long as a sequence,
// and so do connections of WebSockets. After a wrong answer on one of these it is
// opened anew, so that a late answer is not taken for the next one.
package player
