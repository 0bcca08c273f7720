package fsm

import (
	"cmp"
	"iter"
	"strings"

	"osqueue/fsm/btree"
)

// This file has the indexes behind the lists of types, so that a page of a list takes time in
// proportion to the page. They are brought up to date when a View is made: in between the
// machine only notes which types have changed.

// RankedType is a type that has jobs or settings, with what the lists are ordered by.
type RankedType struct {
	Name      string
	Unclaimed int
	OldestAt  int64 // ms, when the oldest available job was created; 0: there is none
}

// TypeOrder is an order of the types.
type TypeOrder uint8

const (
	ByName      TypeOrder = iota
	ByOldest              // the type whose oldest available job waits longest first
	ByUnclaimed           // most available jobs first

	numTypeOrders = iota
)

var typeOrders = [numTypeOrders]func(a, b RankedType) int{
	ByName: func(a, b RankedType) int { return strings.Compare(a.Name, b.Name) },
	ByOldest: func(a, b RankedType) int {
		return cmp.Or(cmp.Compare(uint64(a.OldestAt-1), uint64(b.OldestAt-1)), strings.Compare(a.Name, b.Name)) // 0 is last
	},
	ByUnclaimed: func(a, b RankedType) int {
		return cmp.Or(cmp.Compare(b.Unclaimed, a.Unclaimed), strings.Compare(a.Name, b.Name))
	},
}

type rankedTypes [numTypeOrders]*btree.Tree[RankedType]

func newRankedTypes() (r rankedTypes) {
	for o, compare := range typeOrders {
		r[o] = btree.New(func(a, b RankedType) bool { return compare(a, b) < 0 })
	}
	return r
}

func (r *rankedTypes) copy() (c rankedTypes) {
	for o, tree := range r {
		c[o] = tree.Copy()
	}
	return c
}

// staleMax bounds the types that are noted. Types that come and go would otherwise be noted
// without end while there is no View.
const staleMax = 100_000

// changed notes that the rank of a type may have changed.
func (t *types) changed(q *queue) {
	if q.stale {
		return
	}
	if len(t.stale) >= staleMax {
		t.rank()
	}
	q.stale = true
	t.stale = append(t.stale, q)
}

// rank brings the indexes up to date.
func (t *types) rank() {
	for _, q := range t.stale {
		q.stale = false
		now, is := t.rankOf(q.name)
		old, was := t.ranked[ByName].Get(RankedType{Name: q.name})
		if was == is && old == now {
			continue
		}
		for _, tree := range t.ranked {
			if was {
				tree.Delete(old)
			}
			if is {
				tree.Set(now)
			}
		}
	}
	clear(t.stale)
	t.stale = t.stale[:0]
}

// rankOf returns the rank of a type; false if it is in no list.
func (t *types) rankOf(name string) (r RankedType, ok bool) {
	q := t.queues[name]
	if q == nil || q.counts.Empty() && q.settings == nil {
		return r, false
	}
	r = RankedType{Name: q.name, Unclaimed: q.counts[Unclaimed]}
	if r.Unclaimed > 0 {
		t.typed.Ascend(&Job{Type: name, Status: Unclaimed}, func(j *Job) bool {
			r.OldestAt = j.CreatedAt
			return false
		})
	}
	return r, true
}

// Types iterates over the types that have jobs or settings, in an order and after one of its
// places. The place need not exist; nil is before the first one. A type whose rank changes between
// two Views may change its place.
func (v *View) Types(o TypeOrder, after *RankedType) iter.Seq[RankedType] {
	if after == nil {
		return v.ranked[o].Scan
	}
	return func(yield func(RankedType) bool) {
		v.ranked[o].Ascend(*after, func(r RankedType) bool { return typeOrders[o](r, *after) == 0 || yield(r) })
	}
}
