// Package model checks what a run has shown against what the queue promises.
// Checkers are pure functions: from a history (package history) to what is wrong, in
// words, with the operations that show it. They know nothing of how the queue works.
//
// Where an answer was lost, the nodes' logs say what became of the operation: Applied
// replays a log into lines of a history, and each of them bears the idempotency key
// of its operation. What a checker cannot judge without a log it calls void.
//
// Ledger, Documents and Replay do the same for tests that keep no history.
package model
