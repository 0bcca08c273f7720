package core

import (
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
	fsm.BrokerRegistered: v1.EventBrokerRegistered,
	fsm.WorkerRegistered: v1.EventWorkerRegistered,
	fsm.WorkerDied:       v1.EventWorkerDead,
	fsm.WorkerSet:        v1.EventWorkerSet,
	fsm.QueueSet:         v1.EventQueueSet,
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

// EventKind returns the event's name on the wire.
func EventKind(e *notify.Event) string {
	if e.Kind != fsm.JobChanged {
		return kindNames[e.Kind]
	}
	if e.From == 0 {
		return v1.EventEnqueued
	}
	switch e.Status {
	case fsm.InProgress:
		return v1.EventClaimed
	case fsm.Completed:
		return v1.EventCompleted
	case fsm.Dead:
		return v1.EventDead
	case fsm.Cancelled:
		return v1.EventCancelled
	default:
		return waitsAgain(e)
	}
}

// waitsAgain returns why an existing job waits now, for a worker or for its time.
func waitsAgain(e *notify.Event) string {
	switch e.From {
	case fsm.Scheduled:
		return v1.EventDue
	case fsm.Blocked:
		return v1.EventUnblocked
	case fsm.InProgress:
	default:
		return v1.EventRetried
	}
	switch e.End {
	case fsm.EndFail:
		return v1.EventFailed
	case fsm.EndLease:
		return v1.EventExpired
	case fsm.EndTimeout:
		return v1.EventTimedOut
	default:
		return v1.EventReleased
	}
}
