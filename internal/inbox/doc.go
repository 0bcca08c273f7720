// Package inbox takes jobs that producers put into the bucket into the queue.
//
// # Problem
//
// A producer may have access to the bucket but not to a broker. It puts a job, in the form
// of POST /v1/jobs, under inbox/<id>.json with If-None-Match. The active leader takes the
// job into the queue exactly once, through the log, and removes the file.
//
//	        ┌──────────────── refused for now ────────────────┐
//	        ▼                                                 │
//	listed ─▶ read ─▶ enqueued ─▶ in the machine ─▶ flushed ─▶ removed
//	           │         │
//	           └─────────┴─▶ bad ─▶ copied to inbox-rejected/ ─▶ removed
//
// # Composition
//
// The box knows the bucket, and the node as a Queue only: the user of this package decides
// which bytes are a job, enqueues it with the request that the box gives it, and calls Run
// in every leader term. cmd/osqueue/serve does so with the rules of the API.
//
// # Exactly once
//
// The id of the file is the id of the job, and the mutation has the request key "inbox
// <id>" with a fingerprint of the bytes. If the same leader or its successor sees a file
// twice, the machine recognizes it. The leader removes a file only after the flush that
// contains its job. If every node is lost before the removal, either the file exists and
// the job does not, or both exist.
//
// A leader remembers for its leader term which files are in the machine and not yet
// removed, and which were refused for now; the next leader looks at the files again. A
// replaced leader that does not know of its replacement cannot propose; any file that it
// still removes has its job in a flushed document or a copy in inbox-rejected.
//
// If a file is in the queue and cannot be removed, the leader remembers it and puts a mark
// into the bucket for later leaders. Stats shows such files. If there are 10 000 of them,
// the inbox takes no more files.
//
// # An id is used once
//
// A removal may reach the bucket late. It could then remove another file that a producer
// has put under the same id, unnoticed. So a producer must use a new id for everything that
// it puts into the inbox, including a replacement of a rejected file. If a producer reuses
// an id anyway, the outcome depends on the bytes. While the machine remembers the request
// key (--idempotency-window) or the job exists, the same bytes are a repetition, and the
// leader removes the file; other bytes are rejected. After that time the file is a new job.
//
// # Rejection
//
// The leader moves a file that can never be accepted, and does not drop it: invalid JSON,
// an invalid id, or a job that the machine refuses. inbox-rejected/<id>.json has the bytes,
// and <id>.reason.json the reason. If that name already has other bytes, <id> gets a suffix
// that depends on the id and the bytes only, so that a crash in the middle leaves no second
// copy. A full queue and a refusal of all writes are no reason to reject: such files stay,
// and the leader tries them again. A job that depends on a missing job may wait for a
// minute, because files may arrive in another order.
//
// The leader ignores names that are not of the form inbox/<id>.json, and logs them once.
//
// # Cost
//
// Each round lists the inbox once, and reads each file once. While no file arrives, the
// rest between two listings is an eighth of the time since the last arrival, up to
// IdleInterval; a new file, or a new leader, resets it to the interval. After a listing of
// several pages the rest is as many intervals, so that an inbox full of files that cannot
// be taken does not cost more. Of the files that were refused for now, the leader reads
// only a few in each round, and more once these are taken. While the inbox has more
// acceptable files than a round takes, rounds follow without rest.
//
// # Failure stance
//
// An error of the bucket or of the log ends a round; the next one follows after a pause
// that grows to a minute. Stats shows the error, and the leader logs its first occurrence
// and the recovery.
package inbox
