package fsm

import (
	"slices"
	"strings"

	"osqueue/fsm/fsmpb"
)

func byRequest(a, b *RequestRecord) bool {
	if a.At != b.At {
		return a.At < b.At
	}
	return a.Key < b.Key
}

// once applies a mutation, unless it was applied before under the same request
// key: then the first answer is given again.
func (m *Machine) once(mut *fsmpb.Mutation) Result {
	req := mut.Request
	if req == nil || req.Key == "" {
		return m.apply(mut)
	}
	if r := m.byKey[req.Key]; r != nil {
		if r.Fingerprint != string(req.Fingerprint) {
			return Result{Code: RequestConflict}
		}
		return m.replay(r, mut)
	}
	res := m.apply(mut)
	if res.tookEffect() && !claimedNothing(mut, &res) {
		m.rememberRequest(req, &res)
	}
	return res
}

// Requested reports whether a request with this key and fingerprint took effect and is remembered.
func (m *Machine) Requested(req *fsmpb.Request) bool {
	r := m.byKey[req.Key]
	return r != nil && r.Fingerprint == string(req.Fingerprint)
}

// tookEffect reports whether something was done: a mutation of several items of
// which none was is like one that was refused.
func (r *Result) tookEffect() bool {
	return r.Code.Done() && (len(r.Codes) == 0 || slices.ContainsFunc(r.Codes, Code.Done))
}

// claimedNothing: such a claim has changed nothing, and may wait and try again.
func claimedNothing(mut *fsmpb.Mutation, res *Result) bool {
	return mut.GetClaim() != nil && len(res.Jobs) == 0
}

// replay is the first answer again.
func (m *Machine) replay(r *RequestRecord, mut *fsmpb.Mutation) Result {
	res := Result{Code: Duplicate, Count: r.Count, Next: r.Next, LSN: r.LSN}
	if mut.GetClaim() != nil {
		for _, i := range r.Items {
			if j := m.ids[i.JobID]; j != nil && j.Status == InProgress && j.Token == i.Token {
				res.Jobs = append(res.Jobs, j)
			}
		}
		return res
	}
	for _, i := range r.Items {
		var j *Job
		if i.JobID != "" {
			j = &Job{ID: i.JobID, Token: i.Token, Status: i.Status}
		}
		res.Jobs, res.Codes = append(res.Jobs, j), append(res.Codes, i.Code)
	}
	return res
}

func (m *Machine) rememberRequest(req *fsmpb.Request, res *Result) {
	r := &RequestRecord{
		Key: strings.Clone(req.Key), Fingerprint: string(req.Fingerprint), At: m.meta.Now, LSN: m.meta.LSN,
		Code: res.Code, Count: res.Count, Next: res.Next,
	}
	for i := range max(len(res.Jobs), len(res.Codes)) {
		item := RequestItem{Code: res.Code} // of a mutation of one job
		if i < len(res.Jobs) && res.Jobs[i] != nil {
			item.JobID, item.Token, item.Status = res.Jobs[i].ID, res.Jobs[i].Token, res.Jobs[i].Status
		}
		if i < len(res.Codes) {
			item.Code = res.Codes[i]
		}
		r.Items = append(r.Items, item)
	}
	m.addRequest(r)
	m.boundRequests()
}

func (m *Machine) addRequest(r *RequestRecord) {
	m.requests.Set(r)
	m.byKey[r.Key] = r
	m.requestWeight += r.weight()
}

func (m *Machine) dropRequest(r *RequestRecord) {
	m.requests.Delete(r)
	delete(m.byKey, r.Key)
	m.requestWeight -= r.weight()
}

// requestItems is how many items of a request weigh as much as a request: one request
// may name a thousand jobs, and the limit is to bound the memory of all.
const requestItems = 10

// weight is as how many requests the record counts, from Level8 on.
func (r *RequestRecord) weight() int64 { return 1 + int64(len(r.Items)/requestItems) }

// boundRequests forgets the oldest requests over the limit.
func (m *Machine) boundRequests() {
	weight := func() int64 {
		if m.Level() < Level8 {
			return int64(m.requests.Len())
		}
		return m.requestWeight
	}
	for weight() > max(m.meta.Settings.RequestCount, 0) {
		r, _ := m.requests.Min()
		m.dropRequest(r)
	}
}

// forgetRequests drops what nobody will repeat any more.
func (m *Machine) forgetRequests() {
	for {
		r, ok := m.requests.Min()
		if !ok || later(r.At, m.meta.Settings.RequestMs) >= m.meta.Now {
			return
		}
		m.dropRequest(r)
	}
}

// group applies several mutations as one, each for itself.
func (m *Machine) group(op *fsmpb.Group) Result {
	res := Result{Jobs: make([]*Job, len(op.Mutations)), Codes: make([]Code, len(op.Mutations))}
	for i, mut := range op.Mutations {
		r := m.apply(mut)
		res.Codes[i] = r.Code
		if len(r.Jobs) > 0 {
			res.Jobs[i] = r.Jobs[0]
		}
	}
	return res
}
