package fsm

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"osqueue/fsm/fsmpb"
	"osqueue/fsm/job"
)

// The limits of what a job keeps of its steps and signals. They bound the job.
const (
	StepsMax     = 1000
	SignalsMax   = 100
	LinksMax     = 16
	signalIDMax  = 128      // bytes
	StepNameMax  = 100      // bytes, also of a signal
	StepValueMax = 64 << 10 // bytes, also of a signal
	stepBytesMax = 1 << 20  // of all steps and signals of a job
)

// validStep reports whether a step or signal may have a name and value.
func validStep(name string, value []byte) bool {
	return name != "" && len(name) <= StepNameMax && utf8.ValidString(name) && len(value) <= StepValueMax
}

// steps applies the mutations about what a job keeps over its attempts.
type steps struct{ *entry }

// store stores the value of a step, if the job has none of that name. The answer has the job, with the value that counts.
func (e steps) store(op *fsmpb.StoreStep) Result {
	registry(e).seen(op.Worker)
	old, code := e.held(op.Worker, op.Owner, op.Lease, NoEnd)
	if code != OK {
		return Result{Code: code, Jobs: one(old)}
	}
	d, step := old.Details(), &fsmpb.Step{Name: strings.Clone(op.Name), Value: bytes.Clone(op.Value)}
	switch {
	case d.Step(op.Name) != nil:
		return Result{Code: Duplicate, Jobs: one(old)}
	case len(d.Steps) >= StepsMax || d.Kept+job.StepSize(step) > stepBytesMax:
		return Result{Code: TooManySteps, Jobs: one(old)}
	}
	j := *old
	j.ChangeDetails(func(d *Details) {
		d.Steps, d.Kept = append(d.Steps, step), d.Kept+job.StepSize(step) // no other job has the place behind the last one
	})
	e.reindex(old, &j)
	return Result{Jobs: one(&j)}
}

// suspend ends an attempt, which does not count, until the first of what it waits for comes.
func (e steps) suspend(op *fsmpb.Suspend) Result {
	registry(e).seen(op.Worker)
	old, code := e.held(op.Worker, op.Owner, op.Lease, EndSuspended)
	b := e.batches.Find(&JobBatch{Id: op.Batch})
	if code == OK && op.Batch != "" && b == nil {
		code = NoSuchBatch
	}
	if code != OK {
		return Result{Code: code, Jobs: one(old)}
	}
	until := op.UntilMs
	if op.Batch != "" || old.Details().Signal(named(op.Signal)) != nil {
		until = 0
	}
	j := givenUp(old, EndSuspended, until-e.meta.NowMs, e.meta.NowMs)
	switch {
	case j.Status == Scheduled:
		j.ChangeDetails(func(d *Details) { d.Awaits = strings.Clone(op.Signal) })
	case j.Status == Unclaimed && op.Batch != "" && b.EndedAtMs == 0:
		j.Status = Blocked
		j.ChangeDetails(func(d *Details) { d.Waits = []string{job.UntilEnd(op.Batch)} })
	}
	e.put(old, j)
	return Result{Jobs: one(j)}
}

func named(signal string) func(*fsmpb.Signal) bool {
	return func(s *fsmpb.Signal) bool { return s.Name == signal }
}

// signal gives a job a value under a name. A job that is suspended for it becomes available.
func (e steps) signal(op *fsmpb.SendSignal) Result {
	old := e.ids.Get(op.JobId)
	if old == nil || op.Seq != 0 && old.Seq != op.Seq {
		return Result{Code: NotFound}
	}
	d := old.Details()
	if op.Id != "" && d.Signal(func(s *fsmpb.Signal) bool { return s.Id == op.Id }) != nil {
		return Result{Code: Duplicate, Jobs: one(old)}
	}
	links, allowed := usedLink(d.Links, op, e.meta.NowMs)
	s := &fsmpb.Signal{Name: strings.Clone(op.Name), Value: bytes.Clone(op.Value), Id: strings.Clone(op.Id), AtMs: e.meta.NowMs}
	code := OK
	switch {
	case !allowed:
		code = NotFound
	case old.Status.Ended():
		code = WrongStatus
	case len(d.Signals) >= SignalsMax || d.Kept+job.SignalSize(s) > stepBytesMax:
		code = TooManySteps
	}
	if code != OK {
		return Result{Code: code, Jobs: one(old)}
	}
	j := *old
	j.ChangeDetails(func(d *Details) {
		d.Signals, d.Links, d.Kept = append(d.Signals, s), links, d.Kept+job.SignalSize(s)
	})
	if j.Status == Scheduled && d.Awaits == op.Name {
		j.Status, j.RunAt = Unclaimed, e.meta.NowMs
		e.put(old, &j)
	} else {
		e.reindex(old, &j)
	}
	e.events = append(e.events, Event{Kind: JobSignalled, Job: &j, From: j.Status, Text: s.Name})
	return Result{Jobs: one(&j)}
}

// usedLink returns the links without the one that a signal comes by. It is not allowed if that does not exist.
func usedLink(links []*fsmpb.SignalLink, op *fsmpb.SendSignal, now int64) (left []*fsmpb.SignalLink, allowed bool) {
	if len(op.Link) == 0 {
		return links, true
	}
	for _, l := range links {
		if !allowed && l.Signal == op.Name && bytes.Equal(l.Hash, op.Link) && l.UntilMs > now {
			allowed = true
			continue
		}
		left = append(left, l)
	}
	return left, allowed
}

// link allows whoever has a secret to send a signal. Links whose time is over make room.
func (e steps) link(op *fsmpb.MakeLink) Result {
	old := e.ids.Get(op.JobId)
	if old == nil || op.Seq != 0 && old.Seq != op.Seq {
		return Result{Code: NotFound}
	}
	if old.Status.Ended() {
		return Result{Code: WrongStatus, Jobs: one(old)}
	}
	var links []*fsmpb.SignalLink
	for _, l := range old.Details().Links {
		switch {
		case bytes.Equal(l.Hash, op.Hash):
			return Result{Code: Duplicate, Jobs: one(old)}
		case l.UntilMs > e.meta.NowMs:
			links = append(links, l)
		}
	}
	if len(links) >= LinksMax {
		return Result{Code: TooManySteps, Jobs: one(old)}
	}
	j := *old
	j.ChangeDetails(func(d *Details) {
		d.Links = append(links, &fsmpb.SignalLink{Signal: strings.Clone(op.Signal), Hash: bytes.Clone(op.Hash), UntilMs: op.UntilMs})
	})
	e.reindex(old, &j)
	return Result{Jobs: one(&j)}
}
