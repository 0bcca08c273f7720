package fsm_test

import (
	"math"
	"math/big"
	"slices"
	"unicode/utf8"

	"osqueue/fsm"
	"osqueue/fsm/backoff"
	"osqueue/fsm/fsmpb"
)

// Bounds of a job's history.
const (
	historyMax      = 20
	historyErrorMax = 1024
)

// verdict is whether a report of the attempt's end counts.
func verdict(j *fsm.Job, worker string, owner, token uint64, end fsm.End) fsm.Code {
	running := j != nil && j.Status == fsm.InProgress
	switch {
	case j == nil:
		return fsm.NotFound
	case token != 0 && token != j.Execution().Token:
		return fsm.StaleToken
	case running && (token != 0 || j.Execution().Worker == worker) && foreign(j, owner):
		return fsm.WrongWorker
	case token != 0 && running:
		return fsm.OK
	case token != 0 && end != fsm.NoEnd && j.AttemptEnd == end:
		return fsm.Duplicate
	case token != 0 && j.AttemptEnd == fsm.EndLease:
		return fsm.LeaseExpired
	case token != 0 && j.AttemptEnd == fsm.EndTimeout:
		return fsm.TimedOut
	case !running:
		return fsm.NotRunning
	case j.Execution().Worker != worker:
		return fsm.WrongWorker
	}
	return fsm.OK
}

// foreign reports whether a job was claimed by an owner other than this one.
func foreign(j *fsm.Job, owner uint64) bool {
	return j.Details().Owner != 0 && owner != 0 && j.Details().Owner != owner
}

func (m *model) report(worker string, owner uint64, l *fsmpb.Lease, end fsm.End, effect func(*fsm.Job)) fsm.Result {
	m.seen(worker)
	j := m.job(l.JobId)
	res := fsm.Result{Code: verdict(j, worker, owner, l.Token, end)}
	if old, _ := m.removed(l.JobId); j == nil && old != nil && l.Token == old.Execution().Token && end == old.AttemptEnd && l.Token != 0 && end != fsm.NoEnd {
		j, res.Code = old, fsm.Duplicate
	}
	if res.Code == fsm.OK {
		j = m.change(j, effect)
	}
	if j != nil {
		res.Jobs = []*fsm.Job{j}
	}
	return res
}

func (m *model) complete(op *fsmpb.Complete) fsm.Result {
	return m.report(op.Worker, op.Owner, op.Lease, fsm.EndOK, func(j *fsm.Job) {
		m.finish(j, fsm.Completed, fsm.EndOK)
		j.Exec.Result = op.Result
		details(j, func(d *fsm.Details) { d.Log = op.Log })
	})
}

func (m *model) forceComplete(op *fsmpb.ForceComplete) fsm.Result {
	old := m.job(op.JobId)
	if old == nil || op.Seq != 0 && op.Seq != old.Seq {
		return fsm.Result{Code: fsm.NotFound}
	}
	j := m.change(old, func(j *fsm.Job) {
		end := j.AttemptEnd
		if j.Status == fsm.InProgress {
			end = fsm.EndOK
		}
		m.finish(j, fsm.Completed, end)
		j.Exec.Result = op.Result
	})
	if old.Status == fsm.Completed {
		m.events = append(m.events, event{kind: fsm.JobChanged, id: j.ID, from: fsm.Completed, to: fsm.Completed})
	}
	return fsm.Result{Jobs: []*fsm.Job{j}}
}

func (m *model) fail(op *fsmpb.Fail) fsm.Result {
	return m.report(op.Worker, op.Owner, op.Lease, fsm.EndFail, func(j *fsm.Job) {
		delay, dead := op.RetryDelayMs, op.Permanent
		for _, r := range slices.Backward(j.Options().OnError) {
			if op.RetryDelayMs == nil && !op.Permanent && (r.Class == "*" || r.Class == op.Class) {
				delay, dead = &r.DelayMs, r.Dead
			}
		}
		m.failed(j, fsm.EndFail, op.Error, delay, dead)
		details(j, func(d *fsm.Details) { d.History[len(d.History)-1].Class = op.Class })
	})
}

func (m *model) release(op *fsmpb.Release) fsm.Result {
	return m.report(op.Worker, op.Owner, op.Lease, fsm.EndReleased, func(j *fsm.Job) {
		j.Attempts = max(j.Attempts-1, 0)
		if j.Details().CancelAt != 0 {
			m.finish(j, fsm.Cancelled, fsm.EndReleased)
			j.Exec.LastError = ""
			return
		}
		m.back(j, fsm.EndReleased, op.DelayMs)
	})
}

func (m *model) heartbeat(op *fsmpb.Heartbeat) fsm.Result {
	m.seen(op.Worker)
	var res fsm.Result
	for _, l := range op.Leases {
		j := m.job(l.JobId)
		code := verdict(j, op.Worker, op.Owner, l.Token, fsm.NoEnd)
		if code == fsm.OK {
			j = m.change(j, func(j *fsm.Job) {
				j.Exec.Heartbeat, j.Exec.Unconfirmed = m.meta.NowMs, false
				if p := l.Progress; p != nil {
					details(j, func(d *fsm.Details) {
						d.Progress = fsm.Progress{Percent: uint8(p.Percent), Message: p.Message}
						d.ProgressAt = m.meta.NowMs
					})
				}
			})
			if l.Progress != nil {
				m.events = append(m.events, event{kind: fsm.JobProgress, id: j.ID, from: j.Status, to: j.Status})
			}
		}
		res.Jobs, res.Codes = append(res.Jobs, j), append(res.Codes, code)
	}
	return res
}

// lost ends an attempt that its worker did not end. A last one that the worker was to
// confirm, and did not, does not count.
func (m *model) lost(j *fsm.Job, end fsm.End, why string) {
	if j.Execution().Unconfirmed && j.Details().CancelAt == 0 {
		m.change(j, func(j *fsm.Job) {
			j.Attempts = max(j.Attempts-1, 0)
			j.Exec.LastError = why
			details(j, func(d *fsm.Details) { d.GivenBack++ })
			m.back(j, end, 0)
		})
		return
	}
	m.change(j, func(j *fsm.Job) { m.failed(j, end, why, nil, false) })
}

// back makes a job wait again, at its old place, after a wait.
func (m *model) back(j *fsm.Job, end fsm.End, wait int64) {
	j.Status, j.AttemptEnd, j.Exec.Worker, j.Exec.Heartbeat = fsm.Unclaimed, end, "", 0
	if wait > 0 {
		j.Status, j.RunAt = fsm.Scheduled, sum(m.meta.NowMs, wait)
	}
}

// failed ends an attempt badly.
func (m *model) failed(j *fsm.Job, end fsm.End, why string, delay *int64, permanent bool) {
	details(j, func(d *fsm.Details) {
		d.History = append(d.History, fsm.Attempt{
			Number: j.Attempts, StartedAt: j.Execution().ClaimedAt, EndedAt: m.meta.NowMs,
			Worker: j.Execution().Worker, Error: shortened(why), End: end,
		})
		d.History = d.History[max(0, len(d.History)-historyMax):]
	})
	j.Exec.LastError = why
	switch {
	case j.Details().CancelAt != 0:
		m.finish(j, fsm.Cancelled, end)
		return
	case permanent || j.Attempts >= m.maxAttempts(j):
		m.finish(j, fsm.Dead, end)
		return
	}
	wait := m.backoff(j)
	if delay != nil {
		wait = *delay
	}
	m.back(j, end, wait)
}

// shortened is text cut at the start of a character.
func shortened(text string) string {
	if len(text) <= historyErrorMax {
		return text
	}
	end := historyErrorMax
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

func (m *model) maxAttempts(j *fsm.Job) int32 {
	if j.MaxAttempts != fsm.MaxAttemptsUnset {
		return j.MaxAttempts
	}
	if q := m.settingsOf(j.Type); q.MaxAttempts != fsm.Unset {
		return int32(min(q.MaxAttempts, math.MaxInt32))
	}
	return m.meta.Settings.MaxAttempts
}

// backoff is how long a job waits after the attempt that has just ended.
func (m *model) backoff(j *fsm.Job) int64 {
	b := j.Options().Backoff
	if b.Kind == backoff.Unset {
		b = backoff.FromPB(m.settingsOf(j.Type).Backoff)
	}
	delay := big.NewInt(b.BaseMs)
	switch n := int64(j.Attempts); b.Kind {
	case backoff.Fixed:
	case backoff.Linear:
		delay.Mul(delay, big.NewInt(n))
	case backoff.Exponential:
		delay.Lsh(delay, uint(min(max(n-1, 0), 64)))
	default:
		return 0
	}
	ms := clamped(delay)
	if b.CapMs > 0 {
		ms = min(ms, b.CapMs)
	}
	if ms <= 0 {
		return 0
	}
	return ms - off(ms, b.Jitter, mix(m.random, j.Execution().Token))
}

// off returns the jitter, which is taken from a delay.
func off(ms int64, percent uint8, random uint64) int64 {
	n := new(big.Int).Mul(big.NewInt(ms), big.NewInt(int64(percent)))
	n.Mul(n, new(big.Int).SetUint64(random>>32))
	n.Rsh(n.Div(n, big.NewInt(100)), 32)
	return n.Int64()
}

// mix is the finaliser of splitmix64.
func mix(random, token uint64) uint64 {
	x := random + token*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
