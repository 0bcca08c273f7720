package fsm

import (
	"strings"

	"osqueue/fsm/fsmpb"
)

// This file converts between the state and its snapshot records.

func (v *View) metaToPB() *fsmpb.Meta {
	m := &v.meta
	p := &fsmpb.Meta{
		Term:           m.LSN.Term,
		Index:          m.LSN.Index,
		TermBase:       m.TermBase,
		NowMs:          m.Now,
		LastSeq:        m.LastSeq,
		LastToken:      m.Token,
		LeasesFromMs:   m.LeasesFrom,
		CompletedTotal: m.CompletedTotal,
		DeadTotal:      m.DeadTotal,
		CancelledTotal: m.CancelledTotal,
		LastTurn:       m.LastTurn,
		Announced:      m.Announced,
		Adopted:        m.Adopted,
		Cluster:        m.Cluster,
		Lineage:        m.Lineage,
		BrokerNode:     m.Broker.Node,
		BrokerAddress:  m.Broker.Address,
		Epoch:          m.Broker.Epoch,
		Settings:       m.Settings,
		Jobs:           uint64(v.jobs.Len()),
		Workers:        uint64(v.workers.Len()),
		Claims:         uint64(v.claims.Len()),
		Queues:         uint64(v.queues.Len()),
		Turns:          uint64(v.turns.Len()),
		Crons:          uint64(v.crons.Len()),
		Batches:        uint64(v.batches.Len()),
		Holds:          uint64(v.holds.Len()),
		Requests:       uint64(v.requests.Len()),
		Tokens:         uint64(v.tokens.Len()),
		Figures:        uint64(v.figures.Len()),
		Hooks:          uint64(v.HookCount()),
		HookEvents:     uint64(v.HookEventCount()),
		Level:          m.Level,
	}
	return p
}

func metaFromPB(p *fsmpb.Meta) Meta {
	return Meta{
		LSN:            LSN{Term: p.Term, Index: p.Index},
		TermBase:       p.TermBase,
		Now:            p.NowMs,
		LastSeq:        p.LastSeq,
		Token:          p.LastToken,
		LeasesFrom:     p.LeasesFromMs,
		CompletedTotal: p.CompletedTotal,
		DeadTotal:      p.DeadTotal,
		CancelledTotal: p.CancelledTotal,
		LastTurn:       p.LastTurn,
		Announced:      p.Announced,
		Adopted:        p.Adopted,
		Cluster:        p.Cluster,
		Lineage:        p.Lineage,
		Broker:         Broker{Node: p.BrokerNode, Address: p.BrokerAddress, Epoch: p.Epoch},
		Settings:       p.Settings,
		Level:          p.Level,
	}
}

func jobToPB(j *Job, p *fsmpb.Job) {
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

func jobFromPB(p *fsmpb.Job) *Job {
	j := &Job{
		Seq: p.Seq, Type: p.Type,
		Status: narrow[Status](p.Status), Priority: p.Priority,
		CreatedAt: p.CreatedAtMs, RunAt: p.RunAtMs,
		Attempts: p.Attempts, MaxAttempts: attemptsOf(p.MaxAttempts),
		AttemptEnd: narrow[End](p.AttemptEnd), Exec: executionFromPB(p),
		Opt: optionsFromPB(p.Options), Det: detailsFromPB(p.Details),
	}
	if j.Exec == nil && j.Det == nil { // nothing else keeps the record in memory
		j.hold(p.Id, p.Payload)
	} else {
		j.ID = strings.Clone(p.Id) // other records have it longer than the job
		j.SetPayload(p.Payload)
	}
	return j
}

// executionFromPB returns the execution of a stored job, or nil if it has none.
func executionFromPB(p *fsmpb.Job) *Execution {
	e := executionOf(p)
	if e.zero() {
		return nil
	}
	e.Worker, e.LastError = strings.Clone(e.Worker), strings.Clone(e.LastError)
	return &e
}

// executionOf returns the execution of a stored job, in the memory of the record.
func executionOf(p *fsmpb.Job) Execution {
	return Execution{
		LeaseMs: p.LeaseMs, Worker: p.Worker, ClaimedAt: p.ClaimedAtMs, Heartbeat: p.HeartbeatMs,
		HeldMs: p.HeldMs, Token: p.Token, FinishedAt: p.FinishedAtMs, Result: p.Result, LastError: p.LastError,
		Instance: p.Instance, Unconfirmed: p.Unconfirmed,
	}
}
