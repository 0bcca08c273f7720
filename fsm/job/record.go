package job

import (
	"strings"

	"osqueue/fsm/backoff"
	"osqueue/fsm/fsmpb"
)

// This file converts between the jobs of the machine, which are packed because there are many, and their
// snapshot records. A value that is nil or zero on one side is nil or zero on the other, so that the
// encoding of a state is unique.

func ToRecord(j *Job, p *fsmpb.Job) {
	p.Seq, p.Id, p.Type, p.Payload = j.Seq, j.ID, j.Type, j.Payload()
	p.Status, p.Priority = uint32(j.Status), j.Priority
	p.CreatedAtMs, p.RunAtMs = j.CreatedAt, j.RunAt
	p.Attempts, p.MaxAttempts = j.Attempts, nil
	if j.MaxAttempts != MaxAttemptsUnset {
		p.MaxAttempts = &j.MaxAttempts
	}
	e := j.Execution()
	p.LeaseMs, p.Worker, p.ClaimedAtMs, p.HeartbeatMs = e.LeaseMs, e.Worker, e.ClaimedAt, e.Heartbeat
	p.HeldMs, p.Token, p.AttemptEnd = e.HeldMs, e.Token, uint32(j.AttemptEnd)
	p.FinishedAtMs, p.Result, p.LastError = e.FinishedAt, e.Result, e.LastError
	p.Instance, p.Unconfirmed = e.Instance, e.Unconfirmed
	p.Options, p.Details = optionsToPB(j.Opt), detailsToPB(j.Det)
}

func FromRecord(p *fsmpb.Job) *Job {
	j := &Job{
		Seq: p.Seq, Type: p.Type,
		Status: Narrow[Status](p.Status), Priority: p.Priority,
		CreatedAt: p.CreatedAtMs, RunAt: p.RunAtMs,
		Attempts: p.Attempts, MaxAttempts: AttemptsOf(p.MaxAttempts),
		AttemptEnd: Narrow[End](p.AttemptEnd), Exec: executionFromPB(p),
		Opt: optionsFromPB(p.Options), Det: detailsFromPB(p.Details),
	}
	if j.Exec == nil && j.Det == nil { // nothing else keeps the record in memory
		j.Hold(p.Id, p.Payload)
	} else {
		j.ID = strings.Clone(p.Id) // other records have it longer than the job
		j.SetPayload(p.Payload)
	}
	return j
}

// executionFromPB returns the execution of a stored job, or nil if it has none.
func executionFromPB(p *fsmpb.Job) *Execution {
	e := ExecutionOf(p)
	if e.Zero() {
		return nil
	}
	e.Worker, e.LastError = strings.Clone(e.Worker), strings.Clone(e.LastError)
	return &e
}

// ExecutionOf returns the execution of a stored job, in the memory of the record.
func ExecutionOf(p *fsmpb.Job) Execution {
	return Execution{
		LeaseMs: p.LeaseMs, Worker: p.Worker, ClaimedAt: p.ClaimedAtMs, Heartbeat: p.HeartbeatMs,
		HeldMs: p.HeldMs, Token: p.Token, FinishedAt: p.FinishedAtMs, Result: p.Result, LastError: p.LastError,
		Instance: p.Instance, Unconfirmed: p.Unconfirmed,
	}
}

func optionsToPB(o *Options) *fsmpb.Options {
	if o == nil {
		return nil
	}
	return &fsmpb.Options{
		Backoff: o.Backoff.ToPB(), TimeoutMs: o.TimeoutMs, Group: o.Group, Tags: o.Tags,
		Unique: uniqueToPB(o.Unique), After: o.After, AfterFailure: uint32(o.AfterFailure), Batch: o.Batch, Cron: o.Cron,
		Headers: o.Headers, Account: o.Account, Limits: o.Limits, Sequence: o.Sequence,
		StartBeforeMs: o.StartBefore, RetainMs: o.RetainMs, OnError: o.OnError, AfterNames: o.AfterNames, AfterBatches: o.AfterBatches, Step: o.Step,
	}
}

func optionsFromPB(p *fsmpb.Options) *Options {
	if p == nil {
		return nil
	}
	return &Options{
		Backoff: backoff.FromPB(p.Backoff), TimeoutMs: p.TimeoutMs, Group: p.Group, Tags: p.Tags,
		Unique: UniqueFromPB(p.Unique), After: p.After, AfterFailure: Narrow[AfterFailure](p.AfterFailure),
		Batch: p.Batch, Cron: p.Cron, Headers: p.Headers, Account: p.Account, Limits: p.Limits, Sequence: p.Sequence,
		StartBefore: p.StartBeforeMs, RetainMs: p.RetainMs, OnError: p.OnError, AfterNames: p.AfterNames, AfterBatches: p.AfterBatches, Step: p.Step,
	}
}

func uniqueToPB(u Unique) *fsmpb.Unique {
	if u == (Unique{}) {
		return nil
	}
	return &fsmpb.Unique{Key: u.Key, Scope: uint32(u.Scope), PeriodMs: u.PeriodMs}
}

func UniqueFromPB(p *fsmpb.Unique) Unique {
	return Unique{Key: p.GetKey(), Scope: Narrow[UniqueScope](p.GetScope()), PeriodMs: p.GetPeriodMs()}
}

func detailsToPB(d *Details) *fsmpb.Details {
	if d == nil {
		return nil
	}
	p := &fsmpb.Details{
		ProgressAtMs: d.ProgressAt, Waits: d.Waits, CancelAtMs: d.CancelAt, TimeoutMs: d.TimeoutMs, Log: d.Log,
		Owner: d.Owner, GivenBack: uint32(d.GivenBack), Revision: d.Revision, InLine: d.InLine, Revived: d.Revived,
		Steps: d.Steps, Signals: d.Signals, Awaits: d.Awaits, Links: d.Links, FailedBefore: d.FailedBefore,
	}
	if d.Content != "" {
		p.Content = []byte(d.Content)
	}
	if d.Progress != (Progress{}) {
		p.Progress = &fsmpb.Progress{Percent: uint32(d.Progress.Percent), Message: d.Progress.Message}
	}
	for _, a := range d.History {
		p.History = append(p.History, &fsmpb.Attempt{
			Number: a.Number, StartedAtMs: a.StartedAt, EndedAtMs: a.EndedAt,
			Worker: a.Worker, Error: a.Error, End: uint32(a.End), Class: a.Class,
		})
	}
	return p
}

func detailsFromPB(p *fsmpb.Details) *Details {
	if p == nil {
		return nil
	}
	d := &Details{
		Progress:   Progress{Percent: Narrow[uint8](p.Progress.GetPercent()), Message: p.Progress.GetMessage()},
		ProgressAt: p.ProgressAtMs, Waits: p.Waits, CancelAt: p.CancelAtMs, TimeoutMs: p.TimeoutMs, Log: p.Log,
		Owner: p.Owner, GivenBack: Narrow[uint8](p.GivenBack), Revision: p.Revision, Content: string(p.Content), InLine: p.InLine, Revived: p.Revived,
		Steps: p.Steps, Signals: p.Signals, Awaits: p.Awaits, Links: p.Links, FailedBefore: p.FailedBefore,
	}
	d.keep()
	for _, a := range p.History {
		d.History = append(d.History, Attempt{
			Number: a.Number, StartedAt: a.StartedAtMs, EndedAt: a.EndedAtMs,
			Worker: a.Worker, Error: a.Error, End: Narrow[End](a.End), Class: a.Class,
		})
	}
	return d
}
