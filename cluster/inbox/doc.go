// Package inbox is the drop box: jobs that reach the queue through the bucket.
//
// # Problem
//
// A producer may be allowed to write to the bucket and not to reach a broker. It
// puts a job, as it would send it to POST /v1/jobs, under inbox/<id>.json, with
// If-None-Match; the active leader takes it into the queue exactly once, through
// the log, and removes the file.
//
//	        ┌──────────────── refused for now ────────────────┐
//	        ▼                                                 │
//	listed ─▶ read ─▶ proposed ─▶ in the machine ─▶ flushed ─▶ removed
//	           │         │
//	           └─────────┴─▶ bad ─▶ copied to inbox-rejected/ ─▶ removed
//
// # Exactly once
//
// The id of the file is that of the job, and the mutation has the request key
// "inbox <id>" with a fingerprint of the bytes. So a file that is seen twice, by the
// same leader or by its successor, is recognised by the machine. It is removed only
// after the flush that holds its job: if every node is lost in between, the file is
// still there and the job is not, or both are.
//
// What a leader remembers (which files are in the machine and not yet removed, and
// which were refused for now) lives as long as its reign; a new one looks at the
// files again. A leader that was replaced and does not know it cannot propose; what
// it still removes is in a flushed document, or in inbox-rejected.
//
// A file that is in the queue and cannot be removed is remembered, by a mark in the bucket
// also for later leaders, and shown in Stats; 10 000 of them at most, then the box takes no more.
//
// # An id is used once
//
// A removal may reach the bucket late. A file that is put under a used id could be
// removed by it, unseen. So a producer takes a fresh id for everything that it puts
// into the box, also for what replaces a rejected file. If an id is used again all
// the same: the same bytes are recognised as a repetition while the request key is
// remembered (--idempotency-window) or the job is there, and the file is removed;
// other bytes are rejected. After that time it is a new job.
//
// # Rejection
//
// What will not get better is moved, not dropped: bad JSON, an id that is none, a
// job that the machine refuses. inbox-rejected/<id>.json has the bytes,
// <id>.reason.json the reason. If that name holds other bytes already, <id> gets a
// suffix that depends on the bytes only, so that a crash half-way leaves no second
// copy. A full queue, and writes that are refused as a whole, are no reason to
// reject: such files stay, and are tried again. A job that waits for another one
// which is not there is given a minute, for files that come in another order than
// they were put.
//
// Names that are not of the form inbox/<id>.json are left alone and logged once.
//
// # Cost
//
// One listing every interval, and one read a file. While no file arrives the rest between
// two listings is an eighth of the time since the last one did, up to IdleInterval; a new
// file, or a new leader, brings it back to the interval. A listing of several pages is
// followed by as many intervals of rest, so that a box full of what cannot be taken
// does not cost more. Of files that were refused for now only a few are read in each
// round, and more as soon as these are taken. A full box is taken in round after
// round without rest.
//
// # Failure stance
//
// Trouble of the bucket or of the log ends a round; the next one comes after a pause
// that grows to a minute. It shows in Stats and, at its beginning and end, in the
// log.
package inbox
