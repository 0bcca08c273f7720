// Package player plays recorded cases against a running server.
//
// # Problem
//
// The cases of a sequence depend on each other, and on an empty queue at the start. A wrong
// answer must affect as few later cases as possible. A request must equal that of the recorded
// client: its headers, its path without normalization, its chunked encoding, and its
// connection.
//
//	Player.Play(file) ── for each sequence: Reset, then each case:
//	    wait_ms ──▶ request ──▶ transcript.Check… ──▶ Result
//	                   ▲               │ wrong, and eventually_ms not over
//	                   └───────────────┘
//
// A Player must be used by one goroutine at a time. Captured values live as long as a sequence,
// and so do WebSocket connections. After a wrong answer on a WebSocket the player opens a new
// connection, so that a late answer is not taken for the next one.
package player
