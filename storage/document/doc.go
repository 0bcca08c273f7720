// Package document reads and writes the document queue.json: it encodes a state of the
// machine into a document, and decodes a document into a machine.
//
// # Problem
//
// The document is the last copy of the queue when every node is lost, so a state must come
// back from it exactly. People also open the file, edit it by hand, and share it with
// legacy brokers, which know four of its fields and keep the rest unchanged.
//
// # Form
//
//	{"broker":"10.0.0.1:8080","brokerHeartbeat":1706000000000,
//	 "jobs":[…],"completedTotal":42,           the fields of the legacy broker
//	 "osqueue":{"format":1, …, "state":{…}},   the header of the fence, the scalars
//	 "scheduled":[…],"blocked":[…],"finished":[…],"dead":[…],
//	 "workers":[…],"claims":[…],
//	 "queues":[…],"turns":[…],"crons":[…],"batches":[…],"holds":[…],"requests":[…]}
//
// The list jobs has the available and the running jobs in FIFO order. In each job the
// fields of the legacy broker come first. A field whose value is absent, empty or the
// default is left out and is never null. The document is readable whatever the machine
// contains: text that is not UTF-8 is written with replacement characters, and a payload or
// result that is not JSON is left out. In both cases a second field, with the suffix Base64
// in its name, has the exact bytes. An integer in a field of this package that JavaScript
// cannot represent (beyond 2^53) is quoted.
//
// A running, completed or dead job without workerId belongs to the anonymous worker, and so
// does an attempt of a history.
//
// # Fields of this package
//
// All of the following fields of a job are optional. The producer sets: priority, runAt,
// leaseMs, backoff {kind, baseMs, capMs, jitter}, timeoutMs, group, tags, uniqueKey,
// uniqueScope, uniqueMs, after, afterFailure, batchId. The field cron is the schedule that
// enqueued the job. The outcome so far is in: seq; token, claimedAt, heldMs and
// attemptTimeoutMs of the last claim; attemptEnd, finishedAt, result, lastError; waitsFor
// (the part of after that has not ended); cancelAt; progress {percent, message, at};
// history, the attempts that did not succeed {number, startedAt, endedAt, workerId, error,
// end}; and attemptLog, the log of the attempt that succeeded.
//
// The list blocked has the jobs that wait for other jobs. queues has the settings of job
// types: rateMilli is in claims per 1000 s, level is the permits left at levelAt in
// millionths, and an absent maxAttempts, retainMs or retainCount is the default. turns has
// the positions of groups in the rotation of their type. crons has the schedules, each with
// a job that is not enqueued yet. batches has counts of jobs, and optionally such a job as
// callback. holds has the unique-key reservations with a period. requests has the answers
// that belong to request keys, with the Base64 of the fingerprints.
//
// # Unknown fields
//
// A legacy broker writes back the fields that it does not know, and so does this package.
// Fields of the document and of jobs that this package does not name follow its own fields,
// at the same level, byte for byte except for white space. They are part of the state
// (fsm.Meta.Extra, fsm.Details.Extra); each text has at most fsm.ExtraMax bytes. Of equal
// names the last value counts, at the position of the first. Only this package's fields
// count in objects within the header, in the lists other than jobs, and in objects within a
// job (such as backoff): unknown fields there are skipped.
//
// The names of this package take precedence. If a legacy document uses one of them at the
// top, or in an available or running job, that value is not kept; a field beyond the bound
// is not kept either. File.Lost counts both. The unknown fields count as the last
// writer left them, whatever kind of writer it was. A large document has only those at its
// top; a cluster that takes it over must put them into the state, because the archive has
// those of an earlier time. An unknown field of the state that has a name of this
// package is not written.
//
// # Checksums
//
// The header of an inline document ends with "sums":{"state":…,"document":…}, in hex: the
// checksum of the state (fsm.StateSum), and the SHA-256 of the document without the digits
// of this checksum itself. Machine compares the state with its checksum if the document has
// the bytes that its writer gave it. A difference then means that this version reads the
// same bytes as another state than the writer had (fsm.ErrDiverged), as with the manifest
// of a checkpoint. An editor and a legacy broker change the bytes and not the checksums, so
// that their document is not compared: they may change the state. This includes white
// space, so that "jq ." accepts what this version reads.
//
// Both checksums cost a third of the encoding (0.8 ms at 256 KiB), and the encoding is
// bounded by InlineMax. A large document has no checksums, because that of its state would
// cost time proportional to the queue: its checkpoint and its log have their own. The
// field is left out if the document lacks a part of the state: an unknown field with a name
// of this package.
//
// # Handovers
//
// When a cluster takes over the document of another one, the header records where the other
// cluster's part of the history ends:
// "handovers":[{"cluster","epoch","term","index","lastSeq","lastToken","now"},…]. If a
// cluster adopts the document later and finds its own entry there, it knows which of its
// jobs the document never had: those with a seq above lastSeq. The entry of a cluster is
// removed when that cluster owns the document again.
//
// # Archive
//
// After the lists, the document can name the objects from which states can be rebuilt, and
// contain the newest log entries itself (package archive):
//
//	"base":{"key","lsn","prev","at","raw","stored","sha256"},
//	"log":[{"key","after","last","from","until","entries","raw","stored","sha256"},…],
//	"tail":{"after","last","from","until","entries","raw","sha256","zstd"}
//
// The field base is the checkpoint. LSNs are text in the form term-index, and checksums are
// in hex; a zero or empty value is left out. Each part continues where the previous one
// ends. zstd is the Base64 of one frame, and the checksum of the tail covers the
// uncompressed content.
//
// A state is written inline as long as it takes no more bytes than the writer allows. The
// archive is then its past and may end before it. A larger state is left out if the archive reaches it:
//
//	{"broker":…,"brokerHeartbeat":…,"completedTotal":42,
//	 "osqueue":{"format":2, …, "state":{…}},
//	 "counts":{"unclaimed":900000, …},         jobs by status, for people
//	 "liveJobs":[…],                           jobs that have not ended, for people
//	 "base":{…},"log":[…],"tail":{…}}
//
// Because it has no list of jobs, a legacy broker fails on it and does not take it for an empty queue. If no
// archive reaches the state, the state is written inline whatever its size.
//
// A queue with few live jobs can be large because of its finished jobs. So that people still
// see the live jobs, a large document lists them in FIFO order if they take at most 64 KiB;
// otherwise it has no list. The work to encode it has the same bound. No reader uses the
// list, and it is not called jobs: a legacy broker must not take it for the queue. After a
// takeover the list is missing until the first flush. Keeping the live jobs inline and only
// the finished ones in the archive would divide the state: an edit or a legacy broker could
// change one part without the other.
//
// # Feature levels
//
// The feature level (package fsm) is a scalar of the state. A version refuses a level that it
// does not know.
//
// # Three writers
//
// A document comes from one of three writers:
//
//   - An active leader of this program: the header is present, and its heartbeat and
//     address equal the fields of the legacy broker. Everything counts.
//   - A legacy broker on a legacy document: there is no header. The jobs get their
//     positions from the order of the array, the clock is the latest time in the document,
//     settings are the defaults, and tokens start at zero. Fields that only this package
//     writes have no meaning in available and running jobs, and the lists of other records
//     have none either; jobs in the lists of this package are kept.
//   - A legacy broker on a document of this program (File.Overtaken): the header
//     survives as an unknown field, but broker and brokerHeartbeat have changed. The legacy
//     fields of the jobs, their order and completedTotal count; jobs that are missing were
//     completed. The legacy broker gave out claims without tokens, so all tokens of these
//     jobs are void. The worker registry and the remembered claims are void too, because
//     the legacy broker does not maintain them. The parts that a legacy broker does not see
//     are unchanged: scheduled, blocked, finished and dead jobs, and all other records. The
//     section on the traces of a legacy broker lists the exceptions.
//
// In a large document (format 2) the jobs cannot have changed. Even if another broker has
// registered in it, the archive counts, and tokens, workers and claims stay valid. If an
// inline document was overtaken, the state in it counts, and its archive is an earlier
// state.
//
// The same rules apply to an edit by a person: a job without seq gets a new one, and if the
// order of jobs was changed, the order of the array counts. Unique-key reservations follow
// their jobs to new positions, and turns follow the groups with available jobs.
//
// Jobs in a large document were added by hand (or by a broker that made a list of its own).
// They are not part of the state; they must be enqueued. File.Jobs has them without
// positions, claims or workers. A running one counts as available. Other lists have no
// meaning there. A cluster that takes the document over writes these jobs into it again,
// and leaves them out once they are in the queue.
//
// # Traces of a legacy broker
//
// A legacy broker does not know options, details and the records other than jobs, but its
// changes to jobs affect them. After a legacy broker, Decode keeps the values that are
// still valid and corrects the others:
//
//   - The options of the producer and the history stay with the job. Nothing remains of the
//     last claim: no progress, and no timeout of the attempt.
//   - A running job with a cancellation request is still to be cancelled. If it was put
//     back since, its attempt has ended, and it is cancelled now.
//   - A missing job has completed; a job without attempts left cannot be distinguished from
//     a completed one. The missing job is removed from the lists of jobs that blocked jobs
//     wait for. A blocked job whose list is then empty becomes available or scheduled. A
//     missing job counts as completed in its batch. A batch that ends by this gets its
//     callback, because the machine only enqueues a callback when a job ends. If there are
//     more jobs than the batch knows of, the batch is open and counts them.
//   - A group without available jobs loses its turn; a group that has got available jobs
//     follows at the end of the rotation.
//   - Unique-key reservations and the answers to requests stay: the jobs were enqueued. A
//     claim that is repeated by its request key gets none of its jobs, whose tokens are
//     void.
//   - Settings of types, their levels, and schedules stay. A schedule treats the runs that
//     it missed by its policy.
//
// Blocked jobs in a legacy document are treated in the same way; there are no batches then.
//
// # Failure stance
//
// In a document of this program, a field with the wrong type is an error that names its
// position. A duplicate field at the top is an error in the document of any writer; within
// a job the last of equal names counts, as in the legacy broker. Decode trusts no value to
// be consistent: Machine checks everything. Decode checks that the parts of an archive are
// linked, named and encoded correctly, and that the archive reaches the LSN of the header.
// Package archive checks the named objects and the content of the tail.
//
// # Odd values
//
// A legacy broker keeps whatever clients and people gave it, and a queue must not be lost
// because of a job type that is a number. A document without a header is unreadable only if
// it is not JSON, is not an object, has a jobs field that is not an array, or has a field
// osqueue that is neither null nor a header. The following rules apply to everything else,
// and to the list jobs of an overtaken document; no job is left out. Fields with the names
// of the archive have no meaning without a header, and are never read loosely.
//
//   - Text (id, type, workerId, broker) with another type is the JSON of the value: 5
//     becomes "5". Invalid Unicode becomes the replacement character.
//   - A number may be text, loses its fraction, and is clamped to the range of its kind:
//     natural for attempts and completedTotal. A value that is not a number counts as
//     absent, as does null.
//   - A time before 1970 is 0. A time after the year 9999 (for example in microseconds)
//     becomes the latest other time of the document: the clock of the machine never goes
//     back, and must not be set that far ahead.
//   - A job without a known status, which no broker would hand out, and an element that is
//     not an object become dead jobs with the reason in lastError. The element is the
//     payload.
//   - Of jobs with the same id the first keeps it; the others get a numeric suffix. Jobs
//     without an id become unnamed-1 and so on.
//   - Of options and details, a list of texts takes the text of its elements. An unknown
//     word, and a value of another type in place of an object or a list, count as absent.
//   - A payload is kept byte for byte, whatever it is. A running job without a heartbeat
//     gets one lease from the takeover.
//
// A brokerHeartbeat that is not a number counts as expired.
package document
