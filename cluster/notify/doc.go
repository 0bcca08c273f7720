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
//	Ready    claims that wait for an available job; each new job takes or wakes one
//	Ended    readers that wait for the end of a job
//	History  the newest events, in memory, under ids that are the same on all nodes
//	JobHistory  the progress that jobs have reported, and who changed them, in memory
//
// # States of a waiting claim
//
//	            Take                     Deliver, with jobs
//	listed ──────────────▶ taken ─────────────────────────▶ answered
//	 │  ▲                    │ Deliver, empty; Resume
//	 │  └────────────────────┘
//	 │ Applied, Rescan
//	 ▼
//	woken: the caller proposes the claim
//
// The leader takes a claim before it hands the entry that makes a job available to raft,
// and the claim is part of that entry. So one commit makes the job available and leases it.
// Take needs an estimate only: an empty answer sends the claim back to its old place, and a
// job that no taken claim got wakes another claim when the entry is applied.
//
// A taken claim cannot be withdrawn: its entry may be committed. Its caller waits for the
// answer, or reports that the outcome is unknown.
//
// # Locks
//
// The node calls Take, Applied, Restored and Rescan while it holds the lock that guards
// its machine. Each of them takes the lock of its own part inside, and waits for nothing else.
// The part never takes the machine's lock while it holds its own.
//
// A caller first registers (Ready.Sleep, Ready.Resume, Ended.Wait), then looks at the state, and then
// waits. A change between the look and the wait is therefore not missed.
//
// # Failure stance
//
// A caller ends its wait by itself, when its context or the node ends. A wake-up says only
// that a look is worth it: another caller may have taken the job. A History that no longer
// has an event reports the gap, and the reader reads the state instead.
package notify
