// Package queuefile is the document queue.json: what stands in it, how a state
// of the machine becomes one, and how one becomes a machine again.
//
// # Problem
//
// The document is the last copy of the queue when every node is lost, so a
// state has to come back from it exactly. It also is a file that people open,
// edit by hand, and share with brokers of the older generation, which know four
// members of it and keep the rest as it is.
//
// # Form
//
//	{"broker":"10.0.0.1:8080","brokerHeartbeat":1706000000000,
//	 "jobs":[…],"completedTotal":42,           what the original has
//	 "osqueue":{"format":1, …, "state":{…}},   the header of the fence, the scalars
//	 "scheduled":[…],"blocked":[…],"finished":[…],"dead":[…],
//	 "workers":[…],"claims":[…],
//	 "queues":[…],"turns":[…],"crons":[…],"batches":[…],"holds":[…],"requests":[…]}
//
// jobs holds what waits or runs, in FIFO order, each job with the original's
// members first. A member whose value is absent, empty or the default is left
// out and never null. Whatever the machine holds, the document can be read: text
// that is not UTF-8 stands there with replacement characters, a payload or
// result that is not JSON not at all, and a twin under the member's name with
// Base64 behind it has the exact bytes. An integer of ours that JavaScript could
// not hold (beyond 2^53) is quoted.
//
// An in-progress, completed or dead job without workerId belongs to the
// anonymous worker, and so does an attempt of a history.
//
// # Members of ours
//
// Of a job, all optional: what its producer asked for (priority, runAt,
// leaseMs, backoff {kind, baseMs, capMs, jitter}, timeoutMs, group, tags,
// uniqueKey, uniqueScope, uniqueMs, after, afterFailure, batchId), the schedule
// that enqueued it (cron), and what became of it: seq, token, claimedAt, heldMs
// and attemptTimeoutMs of the last claim, attemptEnd, finishedAt, result,
// lastError, waitsFor (what is left of after), cancelAt, progress {percent,
// message, at}, history, the attempts that ended badly {number, startedAt,
// endedAt, workerId, error, end}, and attemptLog, the log of the attempt that
// ended well.
//
// blocked has the jobs that wait for others. queues has the settings of types,
// with rateMilli in claims per 1000 s and the permits left at levelAt, in
// millionths; an absent maxAttempts, retainMs or retainCount is the default.
// turns are the places of groups in the rotation of their type; crons the
// schedules, whose job is a job that is yet to be enqueued; batches count jobs,
// and may have such a job as callback; holds are the unique keys that are held
// for a period; requests are the answers that belong to request keys, with only
// the Base64 of their fingerprints.
//
// # Members that are not ours
//
// An original broker writes back what it does not know, and so do we: members of the
// document and of jobs that are not named in this package stand behind ours, at the same
// level, with the white space gone and else byte for byte. They are part of the state
// (fsm.Meta.Extra, fsm.Details.Extra), each text of at most fsm.ExtraMax bytes. Of equal
// names the last one counts, at the place of the first. Objects within the header, the
// lists beside jobs, and the members of a job are ours: what is not known in these is
// skipped.
//
// Names of ours win. What an original's document has under one of them, in jobs that
// wait or run and at the top, is not kept; nor is what is past the bound. Document.Lost
// counts both. They count as they stand in the document, whoever wrote it last; in a large
// one only those at its top are there, and who takes it over has to put them into the state,
// as the archive has those of before. A name that a later version gives a meaning to is not written from an older
// one's state.
//
// A version that adds members names them in its header ("members"), unless they only
// stand within others: older versions then skip them, as they always did. They would
// otherwise carry them along as somebody else's, and bring them back grown old.
//
// # Handovers
//
// When a cluster takes over the document of another one, its header says where the
// other's part of the history ends: "handovers":[{"cluster","epoch","term","index",
// "lastSeq","lastToken","now"},…]. A cluster that adopts the document later finds its own
// entry there, and knows which of its jobs the document has never had: those with a seq
// above lastSeq. The entry of a cluster is removed when it has the document again. Earlier
// releases skip the list, and do not write it again.
//
// # Archive
//
// Behind all that, and beside it, can stand the names of objects from which
// states can be rebuilt, and the newest entries themselves (package archive):
//
//	"base":{"key","lsn","prev","at","raw","stored","sha256"},
//	"log":[{"key","after","last","from","until","entries","raw","stored","sha256"},…],
//	"tail":{"after","last","from","until","entries","raw","sha256","zstd"}
//
// LSNs are text, term-index, and sums are in hex; what is zero or empty is left
// out. Each part goes on from where the one before it ends. zstd is the Base64 of
// one frame, and the tail's sum is of what is in it.
//
// A state is written inline as long as it takes no more bytes than the writer
// allows; then the archive is its past, may end before it, and older versions of
// this program, which do not know it, skip it. A larger state is left out, if
// the archive reaches it:
//
//	{"broker":…,"brokerHeartbeat":…,"completedTotal":42,
//	 "osqueue":{"format":2, …, "state":{…}},
//	 "counts":{"unclaimed":900000, …},         jobs by status, for people
//	 "base":{…},"log":[…],"tail":{…}}
//
// The number of the format keeps older versions from reading that, and since there
// is no list of jobs an original broker fails, rather than to take it for
// an empty queue. If no archive reaches the state, it is written inline whatever
// its size.
//
// # Feature levels
//
// A state whose feature level (package fsm) is above fsm.BaseLevel has the format 3 in
// place of 1, and 4 in place of 2, so that versions that know no levels refuse it. The
// level is a scalar of the state. A version refuses a level that it does not know.
//
// # Three writers
//
// A document comes from one of three hands:
//
//   - An active leader of ours: the header is there, and its heartbeat and
//     address are those of the original's members. Everything counts.
//   - An original broker on a document of its own: there is no header. The
//     jobs get their places by the order of the array, the clock is the latest
//     time found, settings are the defaults, tokens start at zero. Members that
//     only we write mean nothing in jobs that wait or run, nor do the lists
//     that are not of jobs; jobs in lists of ours are kept.
//   - An original broker on a document that was ours (Document.Overtaken): the
//     header survives as a member that it does not know, but broker and
//     brokerHeartbeat have moved on. The original's members of the jobs, their
//     order and completedTotal are the truth; jobs that are missing were
//     completed. Claims were given without tokens in between, so all tokens of
//     these jobs are void; and so are the worker registry and the remembered
//     claims, which nobody has kept up. What the original does not see is as we
//     left it: scheduled, blocked, finished and dead jobs, and all that stands
//     beside jobs. The next section has the exceptions.
//
// In a large document (format 2) nothing can have happened to the jobs. So even
// if another broker has registered in it, the archive is the truth, and tokens,
// workers and claims stay as they are. An inline document that was overtaken is
// its own truth; its archive is what was before.
//
// A person's edit is read by the same rules: a job without seq gets a new one,
// and if the order of jobs was changed, the order of the array counts. Holds
// follow their jobs to new places, and turns the groups that wait.
//
// Jobs in a large document were added by hand (or by a broker that made a list
// of its own). They are no part of the state, but are to be enqueued: in
// Document.Jobs, without places, claims or workers. One that is in progress
// counts as unclaimed. Other lists have no meaning there. Who takes the document over
// writes them into it again, and leaves them out once they are in the queue.
//
// # What an original broker leaves behind
//
// It knows nothing of options, details and the lists beside jobs, but what it
// does to jobs bears on them. So, after it, what is still true is kept, and what
// is not is put right:
//
//   - What a producer asked for, and the history, stay with the job. Of the last
//     claim nothing is left: no progress, and no timeout of the attempt.
//   - A running job whose cancellation was requested is still to be cancelled. If
//     it was put back since, its attempt has ended, and it is cancelled now.
//   - A job that is missing has completed; one that ran out of attempts cannot
//     be told from these. It is taken off those that blocked
//     jobs wait for; one with nothing left to wait for goes on. It counts as
//     completed in its batch. A batch that has ended by that gets its callback,
//     which the machine only enqueues when a job ends. If there are more jobs
//     than a batch knows of it is open, and counts them.
//   - A group that does not wait any more has no turn; one that began to follows
//     at the end of the rotation.
//   - Holds, and the answers to requests, stay: the jobs were enqueued. A claim
//     repeated by its request key gets none of its jobs, whose tokens are void.
//   - Settings of types, their levels, and schedules stay. What a schedule missed
//     it treats by its policy.
//
// Blocked jobs in a document of an original's own are treated in the same way;
// there are no batches then.
//
// # Failure stance
//
// In what we wrote, a member that has the wrong type is an error with its
// place. A top-level member that occurs
// twice is an error, whoever wrote it; within a job the last of equal names
// counts, as in the original. Nothing that was read is trusted to be consistent:
// Machine checks it in full. Decode checks that an archive is linked, named and
// encoded right, and goes up to the LSN of the header; what is behind the names,
// and in the tail, is for package archive to check.
//
// # Odd values
//
// An original broker keeps whatever clients and people gave it, and a queue must
// not be lost over a type that is a number. A document without a header cannot
// be read only if it is no JSON, no object, or has jobs that are no array, or
// a member osqueue that is neither null nor a header. For the rest, and for the
// list jobs of a document that was overtaken, these rules hold; no job is left
// out. Members that are named like those of the archive mean nothing without a
// header, and are never read loosely.
//
//   - Text (id, type, workerId, broker) that is something else is the JSON of
//     it: 5 becomes "5". What is not Unicode becomes the replacement character.
//   - A number may be text, loses its fraction, and is brought into the range of
//     its kind: natural for attempts and completedTotal. What is no number counts
//     as absent, as does null.
//   - A time before 1970 is 0. One after the year 9999 (somebody's
//     microseconds) is the document's latest other time: the machine's clock
//     never goes back, and must not be sent there.
//   - A job without a status that is known, which no broker would hand out, and
//     an element that is no object, are dead jobs, and lastError says why. The
//     element is the payload.
//   - Of jobs with the same id the first keeps it; the others get a number behind
//     it. Jobs without an id are unnamed-1 and so on.
//   - Of options and details, a list of texts takes the text of its elements; a
//     word that is not known, and an object or a list that is none, count as
//     absent.
//   - A payload is kept byte for byte, whatever it is. A job in progress without
//     a heartbeat has one lease's length from the takeover.
//
// A brokerHeartbeat that is no number at all counts as one that is over.
package queuefile
