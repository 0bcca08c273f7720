// Package notify lets callers wait for changes of the state that a node applies.
//
// # Problem
//
// Thousands of claims, readers and event streams wait on one node. Each applied entry must
// wake the callers that it concerns, and only those, without delaying the entry when no
// caller waits.
//
// # Parts
//
//	Ready    claims that wait for an available job; each new job wakes one
//	Ended    readers that wait for the end of a job
//	History  the newest events, in memory, under ids that are the same on all nodes
//
// # Locks
//
// The node calls Applied, Restored and Rescan while it holds the lock that guards its
// machine. Each of them takes the lock of its own part inside, and waits for nothing else.
// The part never takes the machine's lock while it holds its own.
//
// A caller first registers (Ready.Sleep, Ended.Wait), then looks at the state, and then
// waits. A change between the look and the wait is therefore not missed.
//
// # Failure stance
//
// A caller ends its wait by itself, when its context or the node ends. A wake-up says only
// that a look is worth it: another caller may have taken the job. A History that no longer
// has an event reports the gap, and the reader reads the state instead.
package notify
