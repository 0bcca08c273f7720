package fsm

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"strings"

	"osqueue/fsm/btree"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/tenants"
)

// requests has the remembered answers, also those of removed jobs (removed.go).
type requests struct {
	records *btree.Tree[*RequestRecord] // by time, then key
	byKey   map[string]*RequestRecord
	own     *btree.Tree[*RequestRecord] // by tenant, then time, then key
	shares  *btree.Tree[*requestShare]  // of the tenants, the smallest first
	tenants map[string]*requestShare    // the same by tenant
	weight  int64                       // of all
	lookup  []byte                      // the key of a search
}

func newRequests() requests {
	return requests{
		records: btree.New(byRequest),
		byKey:   make(map[string]*RequestRecord),
		own:     btree.New(byOwnRequest),
		shares: btree.New(func(a, b *requestShare) bool {
			return cmp.Or(cmp.Compare(a.weight, b.weight), strings.Compare(a.tenant, b.tenant)) < 0
		}),
		tenants: make(map[string]*requestShare),
	}
}

// requestShare is the weight of all requests of a tenant.
type requestShare struct {
	weight int64
	tenant string
}

func byRequest(a, b *RequestRecord) bool {
	if a.AtMs != b.AtMs {
		return a.AtMs < b.AtMs
	}
	return a.Key < b.Key
}

func byOwnRequest(a, b *RequestRecord) bool {
	if a, b := tenants.Of(a.Key), tenants.Of(b.Key); a != b {
		return a < b
	}
	return byRequest(a, b)
}

// once applies a mutation, or repeats the first answer if it was applied before under the
// same request key.
func (e *entry) once(mut *fsmpb.Mutation) Result {
	req := mut.Request
	if req == nil || req.Key == "" {
		return e.apply(mut, mut.Actor)
	}
	if r := e.requests.byKey[req.Key]; r != nil {
		if string(r.Fingerprint) != string(req.Fingerprint) {
			return Result{Code: RequestConflict}
		}
		return e.replay(r, mut)
	}
	res := e.apply(mut, mut.Actor)
	if res.tookEffect() && !claimedNothing(mut, &res) {
		e.requests.remember(req, &res, e.meta)
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

// remember keeps the answer to a request.
func (x *requests) remember(req *fsmpb.Request, res *Result, at *Meta) {
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
	x.add(r)
	x.bound(at.Settings.RequestCount)
}

func (x *requests) add(r *RequestRecord) {
	x.records.Set(r)
	x.own.Set(r)
	x.byKey[r.Key] = r
	x.weigh(r, +1)
}

func (x *requests) drop(r *RequestRecord) {
	x.records.Delete(r)
	x.own.Delete(r)
	delete(x.byKey, r.Key)
	x.weigh(r, -1)
}

// weigh adds the weight of a request to its tenant's share (n is 1), or takes it out (n is -1).
func (x *requests) weigh(r *RequestRecord, n int64) {
	share := x.tenants[tenants.Of(r.Key)]
	if share == nil {
		share = &requestShare{tenant: strings.Clone(tenants.Of(r.Key))}
		x.tenants[share.tenant] = share
	} else if len(x.tenants) > 1 { // one share alone keeps its place
		x.shares.Delete(share)
	}
	share.weight += n * requestWeight(r)
	x.weight += n * requestWeight(r)
	x.shares.Set(share)
	if share.weight == 0 {
		x.shares.Delete(share)
		delete(x.tenants, share.tenant)
	}
}

// requestItems is the number of items of a request that weigh as much as one more
// request: one request may name a thousand jobs, and RequestCount must bound the memory
// of all requests.
const requestItems = 10

// requestWeight returns how many requests a record counts as.
func requestWeight(r *RequestRecord) int64 { return 1 + int64(len(r.Items)/requestItems) }

// bound removes requests above the limit: the oldest of the tenant with the largest share, so
// that no tenant pushes out those of one that has fewer.
func (x *requests) bound(limit int64) {
	for x.weight > max(limit, 0) {
		share, _ := x.shares.Max()
		var oldest *RequestRecord
		x.own.Ascend(&RequestRecord{Key: share.tenant + tenants.End, AtMs: math.MinInt64}, func(r *RequestRecord) bool {
			oldest = r
			return false
		})
		x.drop(oldest)
	}
}

// forget removes the requests that are older than age, in ms.
func (x *requests) forget(age, now int64) {
	x.records.DropWhile(func(r *RequestRecord) bool { return later(r.AtMs, age) < now }, x.drop)
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
func (m *Machine) Request(key string) *RequestRecord { return m.requests.byKey[key] }
