package ui

import (
	"time"

	v1 "osqueue/client/api/v1"
)

// chart is a bar chart of minutes, drawn as SVG on the server. All of its coordinates are
// computed here; the template only writes them.
type chart struct {
	Width, Height int
	Bars          []bar
	Line          []point // enqueued jobs
	Max           uint64  // per minute
	From, To      string  // times of the first and last minute
	Empty         bool
	Label         string
}

// bar is one minute: completed jobs, with failed attempts above.
type bar struct {
	X, W       float64
	Y, H       float64
	FailY      float64
	FailH      float64
	Time       string
	OK, Failed uint64
}

type point struct{ X, Y float64 }

// newChart draws the minutes in a box of this size.
func newChart(h *v1.History, width, height int, label string) chart {
	c := chart{Width: width, Height: height, Label: label, Max: 1, Empty: true}
	for _, m := range h.Minutes {
		c.Max = max(c.Max, m.Completed+m.Failed, m.Enqueued)
		if m != (v1.HistoryMinute{}) {
			c.Empty = false
		}
	}
	if len(h.Minutes) == 0 {
		return c
	}
	step := float64(width) / float64(len(h.Minutes))
	scale := float64(height-2) / float64(c.Max)
	for i, m := range h.Minutes {
		x := float64(i) * step
		ok, failed := float64(m.Completed)*scale, float64(m.Failed)*scale
		c.Bars = append(c.Bars, bar{
			X: round(x), W: round(max(step-1, 0.5)), Y: round(float64(height) - ok), H: round(ok),
			FailY: round(float64(height) - ok - failed), FailH: round(failed),
			Time: clock(h.From + int64(i)*60_000), OK: m.Completed, Failed: m.Failed,
		})
		c.Line = append(c.Line, point{round(x + step/2), round(float64(height) - float64(m.Enqueued)*scale)})
	}
	c.From, c.To = clock(h.From), clock(h.From+int64(len(h.Minutes)-1)*60_000)
	return c
}

// round keeps one decimal.
func round(v float64) float64 { return float64(int(v*10+0.5)) / 10 }

func clock(ms int64) string { return time.UnixMilli(ms).UTC().Format("15:04") }
