// Package v1 is the wire format of osqueue's HTTP API: the JSON bodies of its
// requests and answers, its paths and its headers. Server and client share it.
// wire.gen.go has the bodies: they are generated from api/openapi.yaml, the
// contract, whose descriptions are their comments. The rest is written by hand.
//
// Names are lowerCamel, except in /status, which is snake_case because older tools
// read it in that form. Times are milliseconds since 1970. Durations are
// milliseconds, and their names end in Ms. An LSN is a text of the form
// "term-index".
//
// An absent field differs from null only in payloads and results, which are opaque
// JSON: absent is nil here, null is the four bytes "null". Elsewhere null counts as
// absent.
//
// The server refuses requests with unknown fields. Four routes of older contracts
// (enqueue, claim, complete, heartbeat and release of one job) ignore such fields,
// unless the request has the header "Prefer: handling=strict". Answers may get more
// fields over time: readers must ignore unknown ones.
package v1

// Paths of the API. A path with a trailing {id} or {name} in the documentation
// is one of these plus a segment, which must be escaped.
const (
	PathJobs      = "/v1/jobs"           // POST a NewJob, GET a JobList
	PathJobsBatch = "/v1/jobs/batch"     // POST a Batch
	PathClaim     = "/v1/jobs/claim"     // POST a Claim
	PathHeartbeat = "/v1/jobs/heartbeat" // POST a HeartbeatBatch
	PathComplete  = "/v1/jobs/complete"  // POST a CompleteBatch
	PathFail      = "/v1/jobs/fail"      // POST a FailBatch
	PathRelease   = "/v1/jobs/release"   // POST a ReleaseBatch
	PathLogs      = "/v1/jobs/logs"      // POST a SendLogs
	PathCancel    = "/v1/jobs/cancel"    // POST a ChangeJobs
	PathRetry     = "/v1/jobs/retry"     // POST a ChangeJobs
	PathDelete    = "/v1/jobs/delete"    // POST a ChangeJobs
	PathBatches   = "/v1/batches"        // POST a NewBatch, GET a BatchList
	PathQueues    = "/v1/queues"         // GET a QueueList
	PathCrons     = "/v1/crons"          // GET a CronList
	PathEvents    = "/v1/events"         // GET server-sent events
	PathSelf      = "/v1/self"           // GET a Self
	PathHooks     = "/v1/hooks"          // GET a HookList
	PathAudit     = "/v1/audit"          // GET an AuditPage of the asked node
	PathTokens    = "/v1/tokens"         // POST a NewToken, GET a TokenList
	PathWorkers   = "/v1/workers"        // POST a WorkerInfo, GET a WorkerList
	PathLSN       = "/v1/lsn"            // with /{lsn}/wait: GET an LSNReached
	PathOpenAPI   = "/openapi.yaml"
	PathStats     = "/v1/stats"
	PathHistory   = "/v1/stats/history"  // GET a History
	PathCount     = "/v1/stats/jobs"     // GET a JobCount
	PathPast      = "/v1/past"           // GET a Past
	PathThrottle  = "/v1/throttle-stats" // GET ThrottleStats or NoThrottle
	PathState     = "/state"
	PathStatus    = "/status"
	PathHealthz   = "/healthz"
	PathReadyz    = "/readyz"
	PathMetrics   = "/metrics"
)

// The last segments of /v1/jobs/{id}/… for reports on one job.
const (
	ActionHeartbeat = "heartbeat" // POST a Heartbeat
	ActionComplete  = "complete"  // POST a Complete
	ActionFail      = "fail"      // POST a Fail
	ActionRelease   = "release"   // POST a Release
	ActionProgress  = "progress"  // POST a Heartbeat with progress
	ActionCancel    = "cancel"    // POST, no body
	ActionRetry     = "retry"     // POST, no body
	// ActionForceComplete ends a job well whatever has become of it.
	ActionForceComplete = "force-complete" // POST a ForceComplete
	ActionGraph         = "graph"          // GET a Graph
	ActionLogs          = "logs"           // GET a JobLogs
)

// The last segments of /v1/queues/{type}/… and /v1/crons/{name}/….
const (
	ActionPause      = "pause"      // POST, of types with a NewPause or no body
	ActionResume     = "resume"     // POST, no body
	ActionTrigger    = "trigger"    // POST, no body; of crons
	ActionRotate     = "rotate"     // POST a RotateToken; of tokens
	ActionTest       = "test"       // POST, no body; of hooks
	ActionDeliveries = "deliveries" // GET a HookDeliveries; of hooks
	ActionQuiet      = "quiet"      // POST, no body; of workers
	ActionUnquiet    = "unquiet"    // POST, no body; of workers
)

// ActionWait is the last segment of /v1/lsn/{lsn}/wait.
const ActionWait = "wait"

// The ack levels: what a write survives that was answered. They are the values
// of ParamAck, ParamLevel and HeaderCommitted.
const (
	AckQuorum = "quorum" // a majority of the nodes has it on disk: a minority of the disks may be lost
	AckObject = "object" // the document in the bucket has it: every node and disk may be lost
)

// Query parameters of writes.
const (
	// ParamAck is the ack level that a write is to reach before it is answered.
	// The default is the server's, which is AckQuorum unless it was set
	// otherwise.
	ParamAck = "ack"
	// ParamAckWaitMs bounds the wait for AckObject. When it is over, the server
	// answers with success: the write is committed, and HeaderCommitted says that
	// it is not in the bucket yet. The default is the wait= of the header Prefer,
	// in seconds, or else 10000.
	ParamAckWaitMs = "ackWaitMs"
)

// Headers of the API's own.
const (
	// HeaderLSN is on every answer to a write: the LSN of the log entry that
	// it is in. Reads carry the LSN of the state that they show.
	HeaderLSN = "Osqueue-Lsn"
	// HeaderCommitted is on every answer to a write that took place: the ack
	// level that it has reached for certain.
	HeaderCommitted = "Osqueue-Committed"
	// HeaderForwarded is on requests that one node forwarded to another: the name of the
	// forwarding node. It counts on the port for nodes only.
	HeaderForwarded = "Osqueue-Forwarded"
	// HeaderCertificate is on requests that one node forwarded to another: the client
	// certificate that the first has verified. It counts on connections with a
	// node's certificate only.
	HeaderCertificate = "Osqueue-Client-Certificate"
	// HeaderPrincipal is on forwarded requests without a token: the principal that the
	// forwarding node has given them. It counts on connections with a node's certificate only.
	HeaderPrincipal = "Osqueue-Principal"
	// HeaderIdempotencyKey makes a write take effect once: for 24 h the same
	// request with the same key gets the same answer, another one with the key
	// a problem. 1 to 256 visible characters.
	HeaderIdempotencyKey = "Idempotency-Key"
	// HeaderReplayed is "true" on an answer that repeats the first.
	HeaderReplayed = "Idempotency-Replayed"
	// HeaderLastEventID resumes a stream of events behind that one.
	HeaderLastEventID = "Last-Event-ID"
)

// Query parameters of reads.
const (
	// ParamConsistency is "leader" (default: what the active leader has, with
	// every write that was answered before) or "local" (what the asked node
	// has applied, at once).
	ParamConsistency  = "consistency"
	ConsistencyLeader = "leader"
	ConsistencyLocal  = "local"
	ConsistencyLegacy = "legacy" // among nodes: as leader, and also while the bucket takes no writes
	// ParamMinLSN reads the asked node's state as soon as it has applied this
	// LSN.
	ParamMinLSN = "minLsn"
	// ParamWaitMs bounds that wait; the default is 5000. Of GET /v1/jobs/{id}
	// it is how long to wait for the job's end; the wait for minLsn has its
	// default there.
	ParamWaitMs = "waitMs"

	// ParamInstance is the instance of a worker that DELETE /v1/workers/{name} ends.
	ParamInstance = "instance"
	// ParamOverlapMs is how long a revoked token stays valid.
	ParamOverlapMs = "overlapMs"
	// ParamLevel is the ack level to wait for, of GET /v1/lsn/{lsn}/wait, where
	// ParamWaitMs is how long; the default is 10000.
	ParamLevel = "level"
	// ParamStatus, ParamType, ParamLimit and ParamCursor shape the list of
	// jobs. ParamStatus takes several names with commas between, or "all"; the
	// default is every status that is not an end.
	ParamStatus = "status"
	ParamType   = "type"
	ParamLimit  = "limit"
	LimitAll    = "all" // nodes ask each other so for all pages in one answer, for clients of the legacy broker
	ParamCursor = "cursor"
	// ParamTag, ParamGroup, ParamWorker, ParamBatch, ParamCron and the times, in
	// ms, narrow the list of jobs. ParamWorker is who holds the job, or ended
	// it. ParamCreatedFrom is inclusive, ParamCreatedBefore is not.
	ParamTag           = "tag"
	ParamGroup         = "group"
	ParamWorker        = "worker"
	ParamBatch         = "batch"
	ParamCron          = "cron"
	ParamCreatedFrom   = "createdFrom"
	ParamCreatedBefore = "createdBefore"
	// ParamFinishedFrom and ParamFinishedBefore select jobs that have ended, by when.
	ParamFinishedFrom   = "finishedFrom"
	ParamFinishedBefore = "finishedBefore"
	// ParamSearch is a text that the id, the type, a tag, the last error or the payload
	// of a job contains; letters of ASCII match in either case.
	ParamSearch = "search"
	// ParamSort is the order of a list of jobs: SortOldest (default) or SortNewest. A
	// cursor is valid in lists of the same order.
	ParamSort  = "sort"
	SortOldest = "created"
	SortNewest = "-created"
	// SortType (default), SortOldestAt and SortMostUnclaimed are the orders of the list of types.
	SortType          = "type"       // by name
	SortOldestAt      = "oldestAt"   // the type with the oldest available job first, those without one last
	SortMostUnclaimed = "-unclaimed" // the type with most available jobs first
	// ParamJob, ParamKind narrow the stream of events, with ParamType.
	ParamJob  = "job"
	ParamKind = "kind"
	// ParamLastEventID stands for HeaderLastEventID where a client cannot set
	// headers.
	ParamLastEventID = "lastEventId"
	// ParamTypes set to true adds the counts by type to /v1/stats.
	ParamTypes = "types"
	// ParamAt selects an earlier state, which the asked node rebuilds from the bucket: the
	// newest one whose clock is not past that time, in ms, or the one of an LSN.
	ParamAt = "at"
	// ParamToken and ParamOffset are the position after which a JobLogs begins.
	ParamToken  = "token"
	ParamOffset = "offset"
	// ParamMinutes is the number of minutes of a History, up to 1440; the default
	// is 60. ParamType is there the name of a queue in paths.
	ParamMinutes = "minutes"
)

// PreferStrict is the value of the header Prefer that turns unknown members
// into errors.
const PreferStrict = "handling=strict"
