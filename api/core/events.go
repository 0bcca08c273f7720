package core

import (
	"cmp"
	"net/http"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/cluster/notify"
	"osqueue/fsm"
)

var (
	TooManyStreams = Kind{Status: http.StatusServiceUnavailable, Tag: v1.TagOverloaded, Title: "The node is busy", Retry: 5 * time.Second}
	HistoryGone    = Kind{Status: http.StatusGone, Tag: v1.TagHistoryGone, Title: "The events are not held any more"}
)

// kindNames are the events whose kind alone says what happened.
var kindNames = map[fsm.EventKind]string{
	fsm.JobProgress:      v1.EventProgress,
	fsm.JobCancelled:     v1.EventCancelling,
	fsm.JobRemoved:       v1.EventRemoved,
	fsm.JobEdited:        v1.EventEdited,
	fsm.JobSignalled:     v1.EventSignalled,
	fsm.BrokerRegistered: v1.EventBrokerRegistered,
	fsm.WorkerRegistered: v1.EventWorkerRegistered,
	fsm.WorkerDied:       v1.EventWorkerDead,
	fsm.WorkerSet:        v1.EventWorkerSet,
	fsm.QueueSet:         v1.EventQueueSet,
	fsm.LimitSet:         v1.EventLimitSet,
	fsm.CronPut:          v1.EventCronPut,
	fsm.CronDeleted:      v1.EventCronDeleted,
	fsm.CronFired:        v1.EventCronFired,
	fsm.CronSkipped:      v1.EventCronSkipped,
	fsm.BatchEnded:       v1.EventBatchEnded,
	fsm.BucketAway:       v1.EventBucketAway,
	fsm.BucketBack:       v1.EventBucketBack,
	fsm.WritesRefused:    v1.EventWritesRefused,
	fsm.WritesAccepted:   v1.EventWritesAccepted,
	fsm.BucketDamaged:    v1.EventBucketDamaged,
	fsm.BucketHealed:     v1.EventBucketHealed,
}

// statusNames are the events of an existing job whose new status alone says what happened.
var statusNames = map[fsm.Status]string{
	fsm.InProgress: v1.EventClaimed,
	fsm.Completed:  v1.EventCompleted,
	fsm.Dead:       v1.EventDead,
	fsm.Cancelled:  v1.EventCancelled,
	fsm.Expired:    v1.EventExpired,
}

// endNames are the events of a job that waits again after an attempt, by the end of the attempt.
var endNames = map[fsm.End]string{
	fsm.EndFail:      v1.EventFailed,
	fsm.EndLease:     v1.EventLeaseExpired,
	fsm.EndTimeout:   v1.EventTimedOut,
	fsm.EndSuspended: v1.EventSuspended,
}

// EventKind returns the event's name on the wire.
func EventKind(e *notify.Event) string {
	switch status := statusNames[e.Status]; {
	case e.Kind != fsm.JobChanged:
		return kindNames[e.Kind]
	case e.From == 0:
		return v1.EventEnqueued
	case status != "":
		return status
	case e.From == fsm.Scheduled:
		return v1.EventDue
	case e.From == fsm.Blocked:
		return v1.EventUnblocked
	case e.From != fsm.InProgress:
		return v1.EventRetried
	}
	return cmp.Or(endNames[e.End], v1.EventReleased)
}
