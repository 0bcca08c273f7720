package api

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"math"
	"net/url"
	"slices"
	"strings"

	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
)

// queueOrder is an order of the list of types: by rank, and by name within a rank. Between two
// pages a type may change its place, so that it is listed twice or not at all.
type queueOrder struct {
	form byte // of its cursors
	rank func(v *fsm.View, name string, n fsm.TypeStats) int64
}

var queueOrders = map[string]queueOrder{
	v1.SortType: {form: nameCursorForm, rank: func(*fsm.View, string, fsm.TypeStats) int64 { return 0 }},
	v1.SortOldestAt: {form: 'o', rank: func(v *fsm.View, name string, n fsm.TypeStats) int64 {
		if n.Counts[fsm.Unclaimed] == 0 {
			return math.MaxInt64
		}
		return oldestAt(v, name)
	}},
	v1.SortMostUnclaimed: {form: 'u', rank: func(_ *fsm.View, _ string, n fsm.TypeStats) int64 {
		return -int64(n.Counts[fsm.Unclaimed])
	}},
}

// rankedType is a type and its position in an order.
type rankedType struct {
	rank int64
	name string
}

func compareRanked(a, b rankedType) int {
	return cmp.Or(cmp.Compare(a.rank, b.rank), strings.Compare(a.name, b.name))
}

func readQueueOrder(q url.Values) (queueOrder, error) {
	given := cmp.Or(q.Get(v1.ParamSort), v1.SortType)
	order, ok := queueOrders[given]
	if !ok {
		return order, fail(badRequest, "%s is %q; must be %s, %s (the oldest available job first) or %s (most available jobs first)",
			v1.ParamSort, shown(given), v1.SortType, v1.SortOldestAt, v1.SortMostUnclaimed)
	}
	return order, nil
}

// sorted returns the types in order. Its cost depends on the number of types, not on that of jobs.
func (o queueOrder) sorted(v *fsm.View, names []string, stats map[string]fsm.TypeStats) []rankedType {
	list := make([]rankedType, len(names))
	for i, name := range names {
		list[i] = rankedType{o.rank(v, name, stats[name]), name}
	}
	slices.SortFunc(list, compareRanked)
	return list
}

// after returns the types of list after a cursor.
func (o queueOrder) after(list []rankedType, given string) ([]rankedType, error) {
	if given == "" {
		return list, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(given)
	if err != nil || len(raw) == 0 || raw[0] != o.form {
		return nil, badCursor(given)
	}
	raw = raw[1:]
	var last rankedType
	if o.form != nameCursorForm {
		if len(raw) < 8 {
			return nil, badCursor(given)
		}
		last.rank, raw = int64(binary.BigEndian.Uint64(raw)), raw[8:]
	}
	last.name = string(raw)
	n, found := slices.BinarySearchFunc(list, last, compareRanked)
	if found {
		n++
	}
	return list[n:], nil
}

// cursor returns the cursor of the page after last.
func (o queueOrder) cursor(last rankedType) string {
	if o.form == nameCursorForm {
		return nameCursorOf(last.name)
	}
	raw := binary.BigEndian.AppendUint64([]byte{o.form}, uint64(last.rank))
	return base64.RawURLEncoding.EncodeToString(append(raw, last.name...))
}
