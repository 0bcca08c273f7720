package fsm

import (
	"bytes"
	"strings"
)

// Request returns the record of a request key, or nil. It reads live state, as Job does.
func (m *Machine) Request(key string) *RequestRecord { return m.byKey[key] }

// Removed returns the fields that are known of a job that retention has removed: id,
// token, status and end. It returns nil for the record of a caller's request.
func (r *RequestRecord) Removed() *Job {
	if !strings.HasPrefix(r.Key, removedPrefix) || len(r.Items) != 1 {
		return nil
	}
	return jobOfRecord(r)
}

// SameAs reports whether two schedules have the same definition. Times and counts of
// their fires do not matter.
func (c *Cron) SameAs(o *Cron) bool {
	if c.Spec != o.Spec || c.TimeZone != o.TimeZone || c.Overlap != o.Overlap || c.Missed != o.Missed || c.Paused != o.Paused {
		return false
	}
	a, err := c.Job.MarshalVT()
	if err != nil {
		return false
	}
	b, err := o.Job.MarshalVT()
	return err == nil && bytes.Equal(a, b)
}

// SameAs reports whether two types have the same settings. The level of the rate does not
// matter.
func (s *QueueSettings) SameAs(o *QueueSettings) bool {
	a, b := *s, *o
	a.Level, a.LevelAt, b.Level, b.LevelAt = 0, 0, 0, 0
	return a == b
}
