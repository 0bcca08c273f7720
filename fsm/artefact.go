package fsm

import (
	"osqueue/fsm/artefacts"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/usage"
)

// reserve makes the record of a file that is not uploaded yet. The answer has its id as that of a job, so that a repeated
// request gets it.
func (e *entry) reserve(op *fsmpb.ReserveArtefact) Result {
	a := artefacts.Reservation(op, e.meta.NowMs)
	if e.artefacts.Artefact(a.Id) != nil {
		return Result{Code: IDTaken}
	}
	if code := e.mayKeep(usage.OfArtefact(a), usage.Kept{}, op.Quota); code != OK {
		return Result{Code: code}
	}
	e.artefacts.Reserve(a)
	return Result{Jobs: one(&Job{ID: a.Id})}
}

// attach makes an artefact one of the job that its worker runs.
func (e steps) attach(op *fsmpb.AttachArtefact) Result {
	registry(e).seen(op.Worker)
	j, code := e.held(op.Worker, op.Owner, op.Lease, NoEnd)
	if code == OK {
		code = [...]Code{OK, Duplicate, NoSuchArtefact, TooManySteps}[e.artefacts.Give(j.ID, op.Artefact, e.meta.NowMs)]
	}
	return Result{Code: code, Jobs: one(j)}
}
