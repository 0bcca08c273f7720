package fsm

import (
	"bytes"
	"slices"
	"strings"

	"osqueue/fsm/fsmpb"
)

// once applies a mutation, or repeats the first answer if it was applied before under the
// same request key.
func (e *entry) once(mut *fsmpb.Mutation) Result {
	req := mut.Request
	if req == nil || req.Key == "" {
		return e.apply(mut, mut.Actor)
	}
	if r := e.requests.Of(req.Key); r != nil {
		if string(r.Fingerprint) != string(req.Fingerprint) {
			return Result{Code: RequestConflict}
		}
		return e.replay(r, mut)
	}
	res := e.apply(mut, mut.Actor)
	if res.tookEffect() && !claimedNothing(mut, &res) {
		e.requests.Remember(recordOf(req, &res, e.meta), e.meta.Settings.RequestCount)
	}
	return res
}

// tookEffect reports whether the mutation changed something. A mutation of several items
// counts as refused if all its items were refused.
func (r *Result) tookEffect() bool {
	return r.Code.Done() && (len(r.Codes) == 0 || slices.ContainsFunc(r.Codes, Code.Done))
}

// claimedNothing reports whether a claim got no job. Such a claim has changed nothing;
// the client may wait and repeat it.
func claimedNothing(mut *fsmpb.Mutation, res *Result) bool {
	return mut.GetClaim() != nil && len(res.Jobs) == 0
}

// replay returns the first answer again.
func (m *Machine) replay(r *RequestRecord, mut *fsmpb.Mutation) Result {
	res := Result{Code: Duplicate, Count: r.Count, Next: Place{Status(r.NextStatus), r.NextSeq}, LSN: LSN{Term: r.Term, Index: r.Index}}
	if mut.GetClaim() != nil {
		for _, i := range r.Items {
			res.Jobs = m.appendLeased(res.Jobs, i.JobId, i.Token, mut.GetClaim().Owner)
		}
		return res
	}
	for _, i := range r.Items {
		var j *Job
		if i.JobId != "" {
			j = &Job{ID: i.JobId, Exec: &Execution{Token: i.Token}, Status: Status(i.Status)}
		}
		res.Jobs, res.Codes = append(res.Jobs, j), append(res.Codes, Code(i.Code))
	}
	return res
}

// recordOf returns the record of the answer to a request.
func recordOf(req *fsmpb.Request, res *Result, at *Meta) *RequestRecord {
	r := &RequestRecord{
		Key: strings.Clone(req.Key), Fingerprint: bytes.Clone(req.Fingerprint), AtMs: at.NowMs,
		Term: at.Term, Index: at.Index,
		Code: uint32(res.Code), Count: res.Count, NextStatus: uint32(res.Next.Status), NextSeq: res.Next.Seq,
	}
	items := make([]fsmpb.RequestItem, max(len(res.Jobs), len(res.Codes)))
	for i := range items {
		item := &items[i]
		item.Code = uint32(res.Code) // of a mutation of one job
		if i < len(res.Jobs) && res.Jobs[i] != nil {
			item.JobId, item.Token, item.Status = strings.Clone(res.Jobs[i].ID), res.Jobs[i].Execution().Token, uint32(res.Jobs[i].Status)
		}
		if i < len(res.Codes) {
			item.Code = uint32(res.Codes[i])
		}
		r.Items = append(r.Items, item)
	}
	return r
}

// statusOf returns the status of a job, also of a removed one that is remembered, or 0.
func (m *Machine) statusOf(id string) Status {
	if j := m.ids.Get(id); j != nil {
		return j.Status
	}
	if r := m.requests.Removed(id); r != nil {
		return Status(r.Items[0].Status)
	}
	return 0
}

// group applies the mutations of a list one after the other; each has its own code.
func (e *entry) group(op *fsmpb.Group, actor string) Result {
	res := Result{Jobs: make([]*Job, len(op.Mutations)), Codes: make([]Code, len(op.Mutations))}
	for i, mut := range op.Mutations {
		r := e.apply(mut, actor)
		res.Codes[i] = r.Code
		if len(r.Jobs) > 0 {
			res.Jobs[i] = r.Jobs[0]
		}
	}
	return res
}

// Request returns the record of a request key, or nil. It reads live state, as Job does.
func (m *Machine) Request(key string) *RequestRecord { return m.requests.Of(key) }
