package v1

// Event is the data of one server-sent event of GET /v1/events. The event's id
// is ID, its name is Kind.
type Event struct {
	// ID is the LSN of the log entry and the event's number in it:
	// "term-index.number". It is the same on all nodes.
	ID   string `json:"id"`
	LSN  string `json:"lsn"`
	Kind string `json:"kind"`
	At   int64  `json:"at"` // the queue's clock, ms
	// Of jobs:
	JobID    string  `json:"jobId,omitzero"`
	Type     string  `json:"type,omitzero"`
	From     string  `json:"from,omitzero"`   // the status before; absent for a new job
	Status   string  `json:"status,omitzero"` // the status now, or before the removal
	WorkerID *string `json:"workerId,omitzero"`
	Attempts int32   `json:"attempts,omitzero"`
	Error    string  `json:"error,omitzero"`
	Percent  uint8   `json:"percent,omitzero"`
	Message  string  `json:"message,omitzero"` // of progress; why, of the bucket's and the writes'
	// Name is the worker, type, schedule, batch or node that other kinds are
	// about.
	Name string `json:"name,omitzero"`
	// Actor is the identity whose request made the change, such as "token 3gp7xgvi6bhwziqx".
	// It is empty for what the queue does by itself, and without identities of clients.
	Actor string `json:"actor,omitzero"`
}

// The kinds of events.
const (
	EventEnqueued   = "job.enqueued"
	EventDue        = "job.due"       // scheduled, and its time has come
	EventUnblocked  = "job.unblocked" // what it waited for is over
	EventClaimed    = "job.claimed"
	EventCompleted  = "job.completed"
	EventFailed     = "job.failed"    // and is tried again
	EventExpired    = "job.expired"   // its lease, and is tried again
	EventTimedOut   = "job.timed_out" // and is tried again
	EventReleased   = "job.released"
	EventDead       = "job.dead"
	EventCancelling = "job.cancelling" // requested while it runs
	EventCancelled  = "job.cancelled"
	EventRetried    = "job.retried"
	EventProgress   = "job.progress"
	EventRemoved    = "job.removed"

	EventBroker           = "broker.registered"
	EventWorkerRegistered = "worker.registered"
	EventWorkerDead       = "worker.dead"
	EventWorkerSet        = "worker.set" // it is quiet, or gets jobs again: see Message
	EventQueueSet         = "queue.set"
	EventCronPut          = "cron.put"
	EventCronDeleted      = "cron.deleted"
	EventCronFired        = "cron.fired"
	EventCronSkipped      = "cron.skipped"
	EventBatchEnded       = "batch.ended"

	// EventBucketAway and EventBucketBack: flushes fail, and succeed again.
	// EventWritesRefused and EventWritesAccepted: writes are refused because the
	// bucket is too far behind, and accepted again.
	EventBucketAway     = "bucket.away"
	EventBucketBack     = "bucket.back"
	EventWritesRefused  = "writes.refused"
	EventWritesAccepted = "writes.accepted"

	// EventBucketDamaged and EventBucketHealed: an object that the document needs is
	// missing or damaged, and a new checkpoint has replaced it.
	EventBucketDamaged = "bucket.damaged"
	EventBucketHealed  = "bucket.healed"

	// EventGap says that events before the next one are not held any more by
	// the node that was asked. It has no id.
	EventGap = "gap"
)
