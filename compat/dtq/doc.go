// Package dtq lets the clients of dtq, a task queue written in Python, work
// against an osqueue cluster without a change: it serves dtq's routes for
// submitters and workers, and dtq's part of GET /status.
//
// # Problem
//
// dtq calls a job a task. It has neither leases nor tokens, it returns a claimed task
// in the state from before the claim, and it answers 200 to every report of a worker.
// Its clients find the leader themselves: every other node answers 503 with the
// leader's name and address.
//
// # The path of a call
//
//	submit, get, complete ──▶ this node leads? ── no ──▶ 503, leader, redirect_to
//	                             │ yes
//	register, heartbeat, task ───┴─▶ translated to calls of the node, which forwards
//	                                 them to the leader
//
// The handler checks leadership before it reads the body, as dtq does. A task is a
// job: the job's type is the task_type, its payload the payload, and an absent field
// is null. Tasks and jobs of other clients share one queue: dtq's workers get the
// oldest job of any type. In dtq a type or a worker's name can be any JSON; name.go
// describes how the handler encodes them as text.
//
// A task that waits for any reason is pending. A task without attempts left is dead,
// and a cancelled or expired task is cancelled: dtq does not have these two statuses, and its
// clients cannot cause them.
//
// # Leases
//
// A task is claimed with the queue's lease. A worker's heartbeat, sent to any node,
// renews the leases of the tasks that the worker runs; if a worker is silent for one
// lease, its tasks return to the queue. A heartbeat names no task: handouts.go decides
// which tasks the worker runs.
//
// The handler accepts a result from any client at any time and completes the task by
// force (ActionForceComplete of the HTTP API). The result of a late worker is not
// lost, and a second result overwrites the first.
//
// # Where it is better than dtq
//
// A task goes to one worker. An acknowledged task survives: the handler answers after
// a majority has stored it. Reads show the leader's state while a leader exists.
//
// # Where it differs from dtq
//
// Client errors that dtq answers with 500 (JSON that is not an object) are 400. The
// limits of the HTTP API apply: the size of a body, the length of names. The queue
// keeps a completed task as long as a completed job, one day by default, and a task
// that was lost by as many workers as a job has attempts is dead. Errors are JSON,
// where dtq sends HTML pages. POST /raft_message, which dtq's brokers send, is
// accepted and has no effect (raftMessage explains why).
//
// # Failure stance
//
// This package stores no task, retries no write and starts no goroutine. A call
// without an answer may have taken effect: the client polls again, and a task that was
// claimed in a lost answer returns to the queue when its lease expires.
package dtq
