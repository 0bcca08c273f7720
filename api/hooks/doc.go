// Package hooks delivers webhooks: it sends the events that happen to jobs, and the alerts of
// a few rules, to the URLs of an operator.
//
// # Problem
//
// An operator wants to learn that a job died, or that a queue stands still, without a program
// that polls. The leader knows it, but the leader changes, receivers are slow or away, and a
// URL that a user may choose reaches into the network of the nodes.
//
// DESIGN.md has the outbox, the ids, the delivery, the signature, the secrets, the addresses and the rules.
//
// # Failure stance
//
// Deliveries never delay a write: Apply appends, and nothing waits for a receiver. If the
// machine refuses a report, or if the node stops leading, the sender ends; the events are
// still in the outbox. A secret that this node cannot unseal is a failure of the hook, which
// "hook ls" shows.
package hooks
