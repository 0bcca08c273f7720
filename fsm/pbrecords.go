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

// narrow converts v to T. A value that does not fit becomes the largest one, which the
// builder refuses as unknown.
func narrow[T ~uint8](v uint32) T { return T(min(v, math.MaxUint8)) }
