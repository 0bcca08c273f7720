package ui

import (
	"net/url"
	"strconv"

	v1 "osqueue/client/api/v1"
)

const typesShown = 50 // types on one page

// chartMinutes is the time that charts show.
const chartMinutes = 60

type typeRow struct {
	v1.Queue
	Last   v1.HistoryMinute // the last whole minute
	Failed uint64           // in the last hour
	Spark  chart

	NoWorker bool // it has available jobs that no worker takes
}

type overviewData struct {
	Stats  v1.Stats
	Types  []typeRow
	More   bool // there are more types, whose jobs wait less long
	Chart  chart
	LastOK v1.HistoryMinute // the last whole minute
	Hour   v1.HistoryMinute
}

// overview is the first page.
func overview(q *request) error {
	var d overviewData
	if err := q.get(v1.PathStats, nil, &d.Stats); err != nil {
		return err
	}
	h, err := q.history("", true)
	if err != nil {
		return err
	}
	d.Chart = newChart(h, 720, 120, "Jobs per minute in the last hour")
	d.LastOK, d.Hour = lastMinute(h), sum(h)
	var list v1.QueueList
	if err := q.longestWaiting(&list); err != nil {
		return err
	}
	d.More = list.NextCursor != ""
	idle := q.withoutWorker(list.Queues)
	for _, t := range list.Queues {
		row, err := q.typeRow(t)
		if err != nil {
			return err
		}
		row.NoWorker = idle[t.Type]
		d.Types = append(d.Types, row)
	}
	return q.render("overview", "Overview", "overview", &d)
}

// longestWaiting lists the types whose jobs wait longest if there are more than typesShown, and
// otherwise all by name, so that their places are steady.
func (q *request) longestWaiting(list *v1.QueueList) error {
	values := url.Values{v1.ParamLimit: {strconv.Itoa(typesShown)}}
	if err := q.get(v1.PathQueues, values, list); err != nil || list.NextCursor == "" {
		return err
	}
	values.Set(v1.ParamSort, v1.SortOldestAt)
	*list = v1.QueueList{}
	return q.get(v1.PathQueues, values, list)
}

func (q *request) typeRow(t v1.Queue) (typeRow, error) {
	h, err := q.history(t.Type, false)
	if err != nil {
		return typeRow{}, err
	}
	return typeRow{
		Queue: t, Last: lastMinute(h), Failed: sum(h).Failed,
		Spark: newChart(h, 120, 20, "Jobs per minute of "+typeName(t.Type)),
	}, nil
}

// history reads the figures of the last hour, of one type or of all.
func (q *request) history(jobType string, all bool) (*v1.History, error) {
	values := url.Values{v1.ParamMinutes: {strconv.Itoa(chartMinutes)}}
	if !all {
		values.Set(v1.ParamType, v1.QueueName(jobType))
	}
	h := new(v1.History)
	return h, q.get(v1.PathHistory, values, h)
}

// lastMinute returns the last minute that is over.
func lastMinute(h *v1.History) v1.HistoryMinute {
	if len(h.Minutes) < 2 {
		return v1.HistoryMinute{}
	}
	return h.Minutes[len(h.Minutes)-2]
}

func sum(h *v1.History) (s v1.HistoryMinute) {
	for _, m := range h.Minutes {
		s.Enqueued += m.Enqueued
		s.Claimed += m.Claimed
		s.Completed += m.Completed
		s.Failed += m.Failed
		s.Retried += m.Retried
		s.Dead += m.Dead
	}
	return s
}
