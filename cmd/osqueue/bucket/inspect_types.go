package bucket

import (
	"strconv"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
	"osqueue/fsm"
)

// storedType has the figures of a type as inspect prints them. The totals count from the first
// job of the type.
type storedType struct {
	Type       string             `json:"type"` // "other": all types without figures of their own
	Enqueued   uint64             `json:"enqueued"`
	Claimed    uint64             `json:"claimed"`
	Completed  uint64             `json:"completed"`
	Failed     uint64             `json:"failed"`
	Retried    uint64             `json:"retried"`
	Dead       uint64             `json:"dead"`
	Cancelled  uint64             `json:"cancelled"`
	LeasesLost uint64             `json:"leasesLost"`
	WaitMs     int64              `json:"waitMeanMs"`
	RunMs      int64              `json:"runMeanMs"`
	From       int64              `json:"from"` // ms, the beginning of the first minute
	Minutes    []v1.HistoryMinute `json:"minutes"`
}

// hour is the number of minutes that inspect prints of each type.
const hour = 60

func (in *inspection) listTypes(s *storedState) error {
	now := s.view.Meta().Now
	columns := view.Columns("TYPE", "IN", "OUT", "FAILED", "DEAD", "+LOST", "+WAIT", "+RUN", "LAST HOUR")
	return listOf(in, columns, s.view.Figures,
		func(f *fsm.Figures) storedType { return typeOfState(f, now) },
		func(t storedType) []string {
			var sum v1.HistoryMinute
			for _, m := range t.Minutes {
				sum.Enqueued, sum.Completed, sum.Dead = sum.Enqueued+m.Enqueued, sum.Completed+m.Completed, sum.Dead+m.Dead
			}
			return []string{
				t.Type, decimal(t.Enqueued), decimal(t.Completed), decimal(t.Failed), decimal(t.Dead), decimal(t.LeasesLost),
				lasting(t.WaitMs), lasting(t.RunMs), decimal(sum.Enqueued) + "/" + decimal(sum.Completed) + "/" + decimal(sum.Dead),
			}
		})
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

func lasting(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() }

func typeOfState(f *fsm.Figures, now int64) storedType {
	name := v1.QueueName(f.Type)
	if f.Shared {
		name = fsm.FigureOther
	}
	first := max(now/60_000-hour+1, 0)
	minutes := make([]fsm.Minute, hour)
	f.History.AddTo(minutes, first)
	out := storedType{
		Type: name, Enqueued: f.Enqueued, Claimed: f.Claimed, Completed: f.Completed, Failed: f.Failed, Retried: f.Retried,
		Dead: f.Dead, Cancelled: f.Cancelled, LeasesLost: f.LeasesLost,
		WaitMs: mean(&f.Wait), RunMs: mean(&f.Run), From: first * 60_000,
	}
	for _, m := range minutes {
		out.Minutes = append(out.Minutes, v1.HistoryMinute{
			Enqueued: uint64(m.Enqueued), Claimed: uint64(m.Claimed), Completed: uint64(m.Completed),
			Failed: uint64(m.Failed), Retried: uint64(m.Retried), Dead: uint64(m.Dead),
		})
	}
	return out
}

func mean(h *fsm.Histogram) int64 {
	n := h.Count()
	if n == 0 {
		return 0
	}
	return int64(h.Sum / n)
}
