package fsm_test

import (
	"slices"
	"strings"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// artefactsMax is the number of artefacts of a job.
const artefactsMax = 16

func byArtefactID(a, b *fsm.Artefact) int { return strings.Compare(a.Id, b.Id) }

// reserved is the artefact that waits for its job, or nil.
func (m *model) reserved(id string) *fsm.Artefact {
	return found(m.artefacts, func(a *fsm.Artefact) bool { return a.Id == id && a.JobId == "" && a.ReleasedMs == 0 })
}

// artefactsOf has the artefacts of a job, in the order of ids.
func (m *model) artefactsOf(job string) (list []*fsm.Artefact) {
	for _, a := range m.artefacts {
		if a.JobId == job && a.ReleasedMs == 0 {
			list = append(list, a)
		}
	}
	return list
}

// putArtefact changes a copy of an artefact.
func (m *model) putArtefact(a *fsm.Artefact, how func(*fsm.Artefact)) {
	a = fsmpb.Copy(a)
	how(a)
	m.artefacts = put(m.artefacts, a, byArtefactID)
}

func (m *model) releaseArtefact(a *fsm.Artefact) {
	m.putArtefact(a, func(a *fsm.Artefact) { a.ReleasedMs = m.meta.NowMs })
}

func (m *model) releaseArtefactsOf(job string) {
	for _, a := range m.artefactsOf(job) {
		m.releaseArtefact(a)
		m.did = append(m.did, "an artefact is released with its job")
	}
}

// endReservations releases what was reserved for long enough.
func (m *model) endReservations() {
	for _, a := range m.artefacts {
		if m.reserved(a.Id) != nil && a.UntilMs <= m.meta.NowMs {
			m.releaseArtefact(a)
			m.did = append(m.did, "a reservation ends")
		}
	}
}

func (m *model) reserveArtefact(op *fsmpb.ReserveArtefact) fsm.Result {
	a := &fsm.Artefact{
		Id: op.Id, Size: op.Size, Sum: op.Sum, Sealed: op.Sealed, Account: op.Quota.GetAccount(), CreatedMs: m.meta.NowMs, UntilMs: op.UntilMs,
	}
	if slices.ContainsFunc(m.artefacts, func(o *fsm.Artefact) bool { return o.Id == a.Id }) {
		return fsm.Result{Code: fsm.IDTaken}
	}
	size := artefactBytes(a)
	if code := m.overRecordQuota(m, size, size, nil, 0); code != fsm.OK {
		return fsm.Result{Code: code}
	}
	if code := m.overAccount(m, size+a.Size, op.Quota, 0); code != fsm.OK {
		return fsm.Result{Code: code}
	}
	m.artefacts = put(m.artefacts, a, byArtefactID)
	return fsm.Result{Jobs: []*fsm.Job{{ID: a.Id}}}
}

// artefactBytes is what a record counts overall.
func artefactBytes(a *fsm.Artefact) int64 {
	return recordBytes + int64(len(a.Id)+len(a.Sum)+len(a.JobId)+len(a.Name))
}

// attachment is an artefact that an enqueue gives a job.
type attachment struct{ id, job, name string }

// give notes the artefacts of a job that an enqueue adds or replaces, or refuses them.
func (m *model) give(job string, list []*fsmpb.NamedArtefact) fsm.Code {
	for _, n := range list {
		given := slices.ContainsFunc(m.attaching, func(a attachment) bool { return a.id == n.Id })
		if given || m.reserved(n.Id) == nil {
			return fsm.NoSuchArtefact
		}
		m.attaching = append(m.attaching, attachment{n.Id, job, n.Name})
	}
	return fsm.OK
}

// attachAll attaches what an enqueue gives its jobs.
func (m *model) attachAll() {
	for job := range m.touched {
		m.releaseArtefactsOf(job)
	}
	for _, a := range m.attaching {
		m.attach(a)
		m.did = append(m.did, "a new job has an artefact")
	}
}

func (m *model) attach(to attachment) {
	m.putArtefact(m.reserved(to.id), func(a *fsm.Artefact) { a.JobId, a.Name = to.job, to.name })
}

func (m *model) attachArtefact(op *fsmpb.AttachArtefact) fsm.Result {
	m.seen(op.Worker)
	j := m.job(op.Lease.JobId)
	code := verdict(j, op.Worker, op.Owner, op.Lease.Token, fsm.NoEnd)
	if j == nil {
		return fsm.Result{Code: code}
	}
	own := m.artefactsOf(j.ID)
	held := found(own, func(a *fsm.Artefact) bool { return a.Name == op.Artefact.Name })
	switch {
	case code != fsm.OK:
	case held != nil && held.Id == op.Artefact.Id:
		code = fsm.Duplicate
	case m.reserved(op.Artefact.Id) == nil:
		code = fsm.NoSuchArtefact
	case held == nil && len(own) == artefactsMax:
		code = fsm.TooManySteps
	default:
		if held != nil {
			m.releaseArtefact(held)
			m.did = append(m.did, "an artefact takes the place of another one")
		}
		m.attach(attachment{op.Artefact.Id, j.ID, op.Artefact.Name})
	}
	return fsm.Result{Code: code, Jobs: []*fsm.Job{j}}
}

func (m *model) dropArtefacts(op *fsmpb.DropArtefacts) (res fsm.Result) {
	for _, id := range op.Ids {
		if a := found(m.artefacts, func(a *fsm.Artefact) bool { return a.Id == id }); a != nil && a.ReleasedMs != 0 {
			m.artefacts = slices.DeleteFunc(slices.Clone(m.artefacts), func(o *fsm.Artefact) bool { return o == a })
			res.Count++
			m.did = append(m.did, "an artefact is dropped")
		}
	}
	return res
}
