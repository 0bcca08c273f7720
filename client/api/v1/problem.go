package v1

// MediaTypeProblem is the content type of every answer that is not 2xx.
const MediaTypeProblem = "application/problem+json"

// ProblemTypePrefix and a Problem's Tag make its Type.
const ProblemTypePrefix = "urn:osqueue:problem:"

// The Status of a ReportedItem that was accepted.
const (
	ItemOK        = "ok"
	ItemDuplicate = "duplicate"
)

// The values of Problem.Tag. Those up to TagNoID are decisions of the queue and
// also occur as ReportedItem.Status.
const (
	TagNotFound     = "not_found"     // 404: no such job or worker
	TagNotRunning   = "not_running"   // 409: the job is not in progress
	TagWrongWorker  = "wrong_worker"  // 409: another worker has the lease of the job
	TagStaleToken   = "stale_token"   // 409: the job was claimed again since
	TagLeaseExpired = "lease_expired" // 409: the lease expired and the job returned to the queue
	TagIDTaken      = "id_taken"      // 409: the id belongs to another job
	TagNoID         = "no_id"         // 400

	TagTimedOut        = "timed_out"         // 409: the attempt ran longer than its timeout
	TagWrongStatus     = "wrong_status"      // 409: the job's status does not allow this
	TagUniqueTaken     = "unique_taken"      // 409: another job has the unique key
	TagNoSuchJob       = "no_such_job"       // 409: a job to wait for does not exist
	TagCycle           = "cycle"             // 400: jobs would wait for each other
	TagTooManyWaiters  = "too_many_waiters"  // 409: too many jobs wait for one
	TagNoSuchBatch     = "no_such_batch"     // 409: the batch does not exist, or has ended
	TagPayloadTooLarge = "payload_too_large" // 413: over the quota of one payload
	TagTooManyJobs     = "too_many_jobs"     // 429: over the quota of jobs
	TagTooManyBytes    = "too_many_bytes"    // 507: over the quota of bytes
	TagTooManyQueues   = "too_many_queues"   // 507: too many types have settings
	TagTooManyCrons    = "too_many_crons"    // 507: too many schedules
	TagNotDue          = "not_due"           // 409: not seen outside
	TagRequestConflict = "request_conflict"  // 409: the idempotency key was used for another request

	TagTokenExpired  = "token_expired"   // 400: the token would have expired already
	TagTooManyTokens = "too_many_tokens" // 507: too many tokens

	TagTooManyHooks      = "too_many_hooks"       // 507: too many hooks, or too large buffers
	TagTooManyTokenJobs  = "too_many_token_jobs"  //nolint:gosec // 429: over the token's quota of jobs
	TagTooManyTokenBytes = "too_many_token_bytes" //nolint:gosec // 429: over the token's quota of bytes

	TagUnauthorized = "unauthorized"  // 401: no token, or one that is not valid
	TagForbidden    = "forbidden"     // 403: the token does not allow it
	TagRateLimited  = "rate_limited"  // 429: the token makes too many requests, or follows too many logs
	TagLevel        = "feature_level" // 409: not all nodes know the request yet

	TagBadRequest     = "bad_request"        // 400: the body or the query is wrong; detail says where
	TagUnknownMember  = "unknown_member"     // 400: a field or parameter that is not known
	TagTooLarge       = "too_large"          // 413
	TagMediaType      = "unsupported_media"  // 415
	TagNotKept        = "not_kept"           // 404: the bucket does not have that earlier state
	TagStateTooLarge  = "state_too_large"    // 507: an earlier state needs more memory than the node may use
	TagRebuilding     = "rebuilding"         // 503: the earlier state is being read from the bucket; ask again
	TagPastOff        = "past_off"           // 501: the node does not rebuild earlier states
	TagBucket         = "bucket"             // 502: the bucket did not answer, or its archive is damaged
	TagNoRoute        = "route_not_found"    // 404
	TagMethod         = "method_not_allowed" // 405
	TagUpgrade        = "upgrade_required"   // 426: the route opens a stream
	TagNoLeader       = "no_leader"          // 503: no active leader is known
	TagNotLeader      = "not_leader"         // 503: the node is not the leader any more
	TagLeaderGone     = "leader_unreachable" // 503: the leader did not answer the node that was asked
	TagOverloaded     = "overloaded"         // 503: too many writes are waiting
	TagArchive        = "archive_damaged"    // 503: the bucket lacks an object that it needs, so ack=object is not answered
	TagFlushLag       = "flush_lag"          // 503: the bucket is too far behind, so no writes are taken
	TagUnknownOutcome = "outcome_unknown"    // 503
	TagClosing        = "shutting_down"      // 503
	TagHistoryGone    = "history_gone"       // 410: the events after Last-Event-ID are not held any more
	TagLSNGone        = "lsn_gone"           // 410: the LSN is from before the cluster adopted the document
	TagTimeout        = "timeout"            // 504: the state that was asked for did not come in time
	TagInternal       = "internal_error"     // 500
)
