package queues

import (
	"cmp"
	"encoding/binary"
	"net/url"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
)

// queueOrder is an order of the list of types: by rank, and by name within a rank. Between two
// pages a type may change its place, so that it is listed twice or not at all.
type queueOrder struct {
	form byte // of its cursors
	by   fsm.TypeOrder
}

var queueOrders = map[string]queueOrder{
	v1.SortType:          {core.NameCursorForm, fsm.ByName},
	v1.SortOldestAt:      {'o', fsm.ByOldest},
	v1.SortMostUnclaimed: {'u', fsm.ByUnclaimed},
}

func readQueueOrder(q url.Values) (queueOrder, error) {
	given := cmp.Or(q.Get(v1.ParamSort), v1.SortType)
	order, ok := queueOrders[given]
	if !ok {
		return order, core.Fail(core.BadRequest, "%s is %q; must be %s, %s (the oldest available job first) or %s (most available jobs first)",
			v1.ParamSort, core.Shown(given), v1.SortType, v1.SortOldestAt, v1.SortMostUnclaimed)
	}
	return order, nil
}

// after returns the place that a cursor names; nil is the beginning.
func (o queueOrder) after(given string) (last *fsm.RankedType, err error) {
	if given == "" {
		return last, nil
	}
	raw, err := core.ReadCursor(o.form, given)
	if err != nil {
		return nil, err
	}
	last = new(fsm.RankedType)
	if o.form != core.NameCursorForm {
		if len(raw) < 8 {
			return nil, core.BadCursor(given)
		}
		rank := binary.BigEndian.Uint64(raw)
		last.OldestAt, last.Unclaimed, raw = int64(rank), int(rank), raw[8:]
	}
	last.Name = string(raw)
	return last, nil
}

// cursor returns the cursor of the page after last.
func (o queueOrder) cursor(last fsm.RankedType) string {
	if o.form == core.NameCursorForm {
		return core.NameCursorOf(last.Name)
	}
	rank := uint64(last.OldestAt)
	if o.by == fsm.ByUnclaimed {
		rank = uint64(last.Unclaimed)
	}
	return core.Cursor(o.form, append(binary.BigEndian.AppendUint64(nil, rank), last.Name...))
}
