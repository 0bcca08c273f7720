package fsm

import (
	"math"

	"osqueue/fsm/backoff"
	"osqueue/fsm/fsmpb"
)

// This file converts the records other than jobs. A value that is
// nil or zero on one side is nil or zero on the other, so that the encoding of a state
// is unique.

func queueToPB(q *QueueSettings) *fsmpb.Queue {
	return &fsmpb.Queue{
		Settings: &fsmpb.SetQueue{
			Name: q.Name, Paused: &q.Paused, MaxRunning: &q.MaxRunning, MaxRunningPerGroup: &q.MaxRunningPerGroup,
			RateMilli: &q.RateMilli, Burst: &q.Burst, LeaseMs: &q.LeaseMs, TimeoutMs: &q.TimeoutMs,
			MaxAttempts: &q.MaxAttempts, Backoff: q.Backoff.ToPB(), RetainMs: &q.RetainMs,
			RetainCount: &q.RetainCount, MaxJobs: &q.MaxJobs, MaxBytes: &q.MaxBytes, MaxPayload: &q.MaxPayload,
			Pause: pauseToPB(q.Pause),
		},
		Level: q.Level, LevelAtMs: q.LevelAt,
	}
}

func queueFromPB(p *fsmpb.Queue) *QueueSettings {
	s := p.GetSettings()
	return &QueueSettings{
		Name: s.GetName(), Paused: s.GetPaused(), Pause: pauseFromPB(s.GetPause()),
		MaxRunning: s.GetMaxRunning(), MaxRunningPerGroup: s.GetMaxRunningPerGroup(),
		RateMilli: s.GetRateMilli(), Burst: s.GetBurst(), LeaseMs: s.GetLeaseMs(), TimeoutMs: s.GetTimeoutMs(),
		MaxAttempts: s.GetMaxAttempts(), Backoff: backoff.FromPB(s.GetBackoff()),
		RetainMs: s.GetRetainMs(), RetainCount: s.GetRetainCount(),
		MaxJobs: s.GetMaxJobs(), MaxBytes: s.GetMaxBytes(), MaxPayload: s.GetMaxPayload(),
		Level: p.Level, LevelAt: p.LevelAtMs,
	}
}

func cronToPB(c *Cron) *fsmpb.Cron {
	return &fsmpb.Cron{
		Cron: &fsmpb.PutCron{
			Name: c.Name, Spec: c.Spec, TimeZone: c.TimeZone, Job: c.Job,
			Overlap: uint32(c.Overlap), Missed: uint32(c.Missed), Paused: c.Paused, NextMs: c.NextAt,
		},
		CreatedAtMs: c.CreatedAt, UpdatedAtMs: c.UpdatedAt, LastAtMs: c.LastAt, LastJobId: c.LastJobID,
		LastError: c.LastError, Fired: c.Fired, Skipped: c.Skipped, Missed: c.MissedCount,
	}
}

func cronFromPB(p *fsmpb.Cron) *Cron {
	c := p.GetCron()
	return &Cron{
		Name: c.GetName(), Spec: c.GetSpec(), TimeZone: c.GetTimeZone(), Job: c.GetJob(),
		Overlap: narrow[OverlapPolicy](c.GetOverlap()), Missed: narrow[MissedPolicy](c.GetMissed()),
		Paused: c.GetPaused(), NextAt: c.GetNextMs(),
		CreatedAt: p.CreatedAtMs, UpdatedAt: p.UpdatedAtMs, LastAt: p.LastAtMs, LastJobID: p.LastJobId,
		LastError: p.LastError, Fired: p.Fired, Skipped: p.Skipped, MissedCount: p.Missed,
	}
}

// narrow converts v to T. A value that does not fit becomes the largest one, which the
// builder refuses as unknown.
func narrow[T ~uint8](v uint32) T { return T(min(v, math.MaxUint8)) }
