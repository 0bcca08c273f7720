// Package fault is a decorator for tests that makes a bucket misbehave in the
// ways that networks and stores do, on command.
//
// A test injects rules; each operation is matched against them in the order
// of injection and suffers from the first one that fires. Rules count: how many
// operations to let pass, how many to hit, or hit each with a probability drawn
// from the bucket's seed. A test can wait for a rule's hits, and should
// check them in the end, because a fault that never fired has tested nothing.
//
// What happens in which order for a write that is hit by
//
//	LoseRequest  not applied; Unknown
//	LoseAnswer   applied; then Unknown, whatever the store answered
//	DeliverLate  Unknown; applied on Release or after a delay, if its condition
//	             still holds by then
//	Reject       not applied; Conflict
//	Throttle     not applied; Unknown with ErrThrottled
//	Stall        waits until Release, then is applied as usual; if its context
//	             ends first, not applied and Unknown
//	Slow         waits for the delay, or for its turn on a narrow line, then is
//	             applied as usual
//
// Reads and deletes that are hit by LoseRequest or Throttle return an error,
// and by Stall or Slow wait. Garble and Truncate change what a Get returns: a
// version with the wrong bytes, which is what a broken proxy would send. A range
// that is truncated ends with an error, as the contract demands.
//
// With no rule the decorator is transparent, which the conformance suite checks.
package fault
