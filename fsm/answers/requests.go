package answers

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"osqueue/fsm/btree"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/job"
	"osqueue/fsm/tenants"
)

// Requests has the answers to requests with a key, and the records of removed jobs (removed.go). It is not safe for concurrent
// use.
type Requests struct {
	Records *btree.Tree[*fsmpb.RequestRecord] // by time, then key
	byKey   map[string]*fsmpb.RequestRecord
	own     *btree.Tree[*fsmpb.RequestRecord] // by tenant, then time, then key
	shares  *btree.Tree[*requestShare]        // of the tenants, the smallest first
	tenants map[string]*requestShare          // the same by tenant
	weight  int64                             // of all
	lookup  []byte                            // the key of a search
}

// NewRequests returns an empty set.
func NewRequests() Requests {
	return Requests{
		Records: btree.New(byRequest),
		byKey:   make(map[string]*fsmpb.RequestRecord),
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

func byRequest(a, b *fsmpb.RequestRecord) bool {
	if a.AtMs != b.AtMs {
		return a.AtMs < b.AtMs
	}
	return a.Key < b.Key
}

func byOwnRequest(a, b *fsmpb.RequestRecord) bool {
	if a, b := tenants.Of(a.Key), tenants.Of(b.Key); a != b {
		return a < b
	}
	return byRequest(a, b)
}

// Of returns the record of a request key, or nil.
func (x *Requests) Of(key string) *fsmpb.RequestRecord { return x.byKey[key] }

// Remember adds the answer to a request, and removes requests above the limit.
func (x *Requests) Remember(r *fsmpb.RequestRecord, limit int64) {
	x.Add(r)
	x.Bound(limit)
}

// Add adds a record.
func (x *Requests) Add(r *fsmpb.RequestRecord) {
	x.Records.Set(r)
	x.own.Set(r)
	x.byKey[r.Key] = r
	x.weigh(r, +1)
}

func (x *Requests) drop(r *fsmpb.RequestRecord) {
	x.Records.Delete(r)
	x.own.Delete(r)
	delete(x.byKey, r.Key)
	x.weigh(r, -1)
}

// weigh adds the weight of a request to its tenant's share (n is 1), or takes it out (n is -1).
func (x *Requests) weigh(r *fsmpb.RequestRecord, n int64) {
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
func requestWeight(r *fsmpb.RequestRecord) int64 { return 1 + int64(len(r.Items)/requestItems) }

// Bound removes requests above the limit: the oldest of the tenant with the largest share, so
// that no tenant pushes out those of one that has fewer.
func (x *Requests) Bound(limit int64) {
	for x.weight > max(limit, 0) {
		share, _ := x.shares.Max()
		var oldest *fsmpb.RequestRecord
		x.own.Ascend(&fsmpb.RequestRecord{Key: share.tenant + tenants.End, AtMs: math.MinInt64}, func(r *fsmpb.RequestRecord) bool {
			oldest = r
			return false
		})
		x.drop(oldest)
	}
}

// Forget removes the requests that are older than age, in ms.
func (x *Requests) Forget(age, now int64) {
	x.Records.DropWhile(func(r *fsmpb.RequestRecord) bool { return job.Later(r.AtMs, age) < now }, x.drop)
}

// String lists what is derived from the records, for comparisons.
func (x *Requests) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "requests of weight %d\n", x.weight)
	x.shares.Scan(func(s *requestShare) bool {
		fmt.Fprintf(&out, "requests of tenant %q: weight %d\n", s.tenant, s.weight)
		return true
	})
	for _, key := range slices.Sorted(maps.Keys(x.byKey)) {
		fmt.Fprintf(&out, "request %s: %d\n", key, x.byKey[key].AtMs)
	}
	return out.String()
}
