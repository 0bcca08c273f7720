package fsm_test

import (
	"cmp"
	"slices"
	"strings"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// request applies a mutation unless it was applied before.
func (m *model) request(mut *fsmpb.Mutation) fsm.Result {
	key, fingerprint := mut.Request.GetKey(), string(mut.Request.GetFingerprint())
	if key == "" {
		return m.one(mut)
	}
	r := found(m.requests, func(r *fsm.RequestRecord) bool { return r.Key == key })
	switch {
	case r == nil:
	case string(r.Fingerprint) != fingerprint:
		return fsm.Result{Code: fsm.RequestConflict}
	case mut.GetClaim() != nil:
		res := fsm.Result{Code: fsm.Duplicate, LSN: fsm.LSN{Term: r.Term, Index: r.Index}}
		for _, item := range r.Items {
			res.Jobs = append(res.Jobs, m.stillHeld(item.JobId, item.Token, mut.GetClaim().GetOwner())...)
		}
		return res
	default:
		return answerOf(r)
	}
	res := m.one(mut)
	nothing := mut.GetClaim() != nil && len(res.Jobs) == 0
	refused := len(res.Codes) > 0 && !slices.ContainsFunc(res.Codes, fsm.Code.Done)
	if res.Code.Done() && !nothing && !refused {
		m.requests = put(m.requests, m.recordOf(key, fingerprint, res), byTimeAndKey)
		m.boundRequests()
	}
	return res
}

func byTimeAndKey(a, b *fsm.RequestRecord) int {
	return cmp.Or(cmp.Compare(a.AtMs, b.AtMs), cmp.Compare(a.Key, b.Key))
}

// boundRequests forgets those beyond the number that is remembered: of the tenant with the most, the
// oldest.
func (m *model) boundRequests() {
	for m.requestWeight() > max(m.meta.Settings.RequestCount, 0) {
		weights, most := make(map[string]int64), ""
		for _, r := range m.requests {
			weights[tenantOf(r)] += weightOf(r)
		}
		for tenant, n := range weights {
			if n > weights[most] || n == weights[most] && tenant > most {
				most = tenant
			}
		}
		i := slices.IndexFunc(m.requests, func(r *fsm.RequestRecord) bool { return tenantOf(r) == most })
		m.requests = slices.Delete(slices.Clone(m.requests), i, i+1)
	}
}

func tenantOf(r *fsm.RequestRecord) string {
	if i := strings.IndexByte(r.Key, 0); i > 0 {
		return r.Key[:i]
	}
	return ""
}

func weightOf(r *fsm.RequestRecord) int64 { return 1 + int64(len(r.Items))/10 }

// requestWeight is the number of requests, of which each counts once more for every ten
// of its items.
func (m *model) requestWeight() (sum int64) {
	for _, r := range m.requests {
		sum += weightOf(r)
	}
	return sum
}

// The request that stands for a removed job, for five minutes after the job's end.
const (
	removedKey = "\x00removed:"
	removedMs  = 300_000
)

// rememberRemoved keeps what is needed to know a job again that retention removed.
func (m *model) rememberRemoved(j *fsm.Job) {
	if sum(j.Execution().FinishedAt, removedMs) < m.meta.NowMs {
		return
	}
	key := removedKey + j.ID
	m.requests = slices.DeleteFunc(slices.Clone(m.requests), func(r *fsm.RequestRecord) bool { return r.Key == key })
	m.requests = put(m.requests, &fsm.RequestRecord{
		Key: key, Fingerprint: []byte(fsm.ContentOf(j)), Term: m.meta.Term, Index: m.meta.Index, Count: uint64(j.AttemptEnd),
		AtMs:  min(m.meta.NowMs, sum(j.Execution().FinishedAt, removedMs-max(m.meta.Settings.RequestMs, 0))),
		Items: []*fsmpb.RequestItem{{JobId: j.ID, Token: j.Execution().Token, Status: uint32(j.Status)}},
		Type:  j.Type, Group: j.Options().Group,
	}, byTimeAndKey)
	m.boundRequests()
}

// removed returns the remembered fields of a removed job, or nil.
func (m *model) removed(id string) (j *fsm.Job, content string) {
	r := found(m.requests, func(r *fsm.RequestRecord) bool { return r.Key == removedKey+id })
	if r == nil {
		return nil, ""
	}
	return &fsm.Job{
		ID: id,
		Exec: &fsm.Execution{
			Token: r.Items[0].Token,
		},
		Status: fsm.Status(r.Items[0].Status), AttemptEnd: fsm.End(r.Count),
	}, string(r.Fingerprint)
}

func (m *model) recordOf(key, fingerprint string, res fsm.Result) *fsm.RequestRecord {
	r := &fsm.RequestRecord{
		Key: key, Fingerprint: []byte(fingerprint), AtMs: m.meta.NowMs, Term: m.meta.Term, Index: m.meta.Index,
		Code: uint32(res.Code), Count: res.Count, NextStatus: uint32(res.Next.Status), NextSeq: res.Next.Seq,
	}
	for i := range max(len(res.Jobs), len(res.Codes)) {
		item := &fsmpb.RequestItem{Code: uint32(res.Code)}
		if i < len(res.Jobs) && res.Jobs[i] != nil {
			j := res.Jobs[i]
			item.JobId, item.Token, item.Status = j.ID, j.Execution().Token, uint32(j.Status)
		}
		if i < len(res.Codes) {
			item.Code = uint32(res.Codes[i])
		}
		r.Items = append(r.Items, item)
	}
	return r
}

// answerOf is the first answer, as far as it was remembered.
func answerOf(r *fsm.RequestRecord) fsm.Result {
	res := fsm.Result{Code: fsm.Duplicate, LSN: fsm.LSN{Term: r.Term, Index: r.Index}, Count: r.Count, Next: fsm.Place{Status: fsm.Status(r.NextStatus), Seq: r.NextSeq}}
	for _, item := range r.Items {
		var j *fsm.Job
		if item.JobId != "" {
			j = &fsm.Job{ID: item.JobId, Exec: &fsm.Execution{Token: item.Token}, Status: fsm.Status(item.Status)}
		}
		res.Jobs, res.Codes = append(res.Jobs, j), append(res.Codes, fsm.Code(item.Code))
	}
	return res
}

// group applies several mutations, each for itself.
func (m *model) group(op *fsmpb.Group) (res fsm.Result) {
	for _, mut := range op.Mutations {
		r := m.one(mut)
		var first *fsm.Job
		if len(r.Jobs) > 0 {
			first = r.Jobs[0]
		}
		res.Jobs, res.Codes = append(res.Jobs, first), append(res.Codes, r.Code)
	}
	return res
}
