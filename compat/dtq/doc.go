// Package dtq lets the clients of dtq, a task queue written in Python, work
// against a cluster of ours without a change: its routes for submitters and
// workers, and its part of GET /status.
//
// # Problem
//
// dtq calls a job a task, knows neither leases nor tokens, gives a task out as it
// was before, and answers 200 to whatever a worker says. Its clients look for the
// leader themselves: everybody else answers 503 with the leader's name and
// address.
//
// # The way of a call
//
//	submit, get, complete ──▶ this node leads? ── no ──▶ 503, leader, redirect_to
//	                             │ yes
//	register, heartbeat, task ───┴─▶ translated to calls of the node's HTTP API, in
//	                                 the process, which passes them on to the leader
//
// Leadership is looked at before the body, as the original does it. A task is a
// job: its type the task_type, its payload the payload; what is absent is null.
// Tasks and jobs of other clients are one queue: dtq's workers get the oldest job
// of any type. Types and workers can be any JSON in dtq; name.go says how they are
// written as the text that they are in the queue.
//
// A task that waits, for whatever reason, is pending. One that is out of attempts
// is dead, and one that was cancelled is cancelled: statuses that dtq does not
// have, and that its clients cannot bring about.
//
// # Leases
//
// A task is claimed with the queue's lease. A worker's heartbeat renews what it
// works on, through any node; a worker that is silent for as long as a lease loses
// its tasks to others. handouts.go says what "works on" means, as a heartbeat
// names no task.
//
// A result is taken from anybody at any time: the task is completed by force, as
// the HTTP API calls it. So a worker that comes too late has not worked for
// nothing, and the second result overwrites the first.
//
// # Where it is better than the original
//
// A task goes to one worker. Acknowledged tasks survive: the answer is given when a
// majority has them. A task is read as the leader has it, as long as there is one.
//
// # Where it is not the original
//
// Faults of the client that are 500 there (JSON that is no object) are 400. The
// limits of the HTTP API count: the size of a body, the length of names. A completed
// task is kept for as long as the queue keeps completed jobs, a day by default, and
// a task whose workers were silent as often as a job has attempts is dead. Errors are
// JSON, where the original has pages. POST /raft_message, of its brokers, is taken
// and has no effect: raft.go says why.
//
// # Failure stance
//
// Nothing here keeps tasks, retries writes, or runs by itself. What was not
// answered may have taken place: the client polls on, and what it was given in an
// answer that got lost goes back when the lease ends.
package dtq
