package typestats

// MinutesKept is the number of minutes whose figures are kept: a day.
const MinutesKept = 24 * 60

const minuteMs = 60_000

// Minute has the figures of one type in one minute.
type Minute struct {
	Enqueued  uint32
	Claimed   uint32
	Completed uint32
	Failed    uint32
	Retried   uint32
	Dead      uint32
}

func (m *Minute) add(o *Minute) {
	m.Enqueued += o.Enqueued
	m.Claimed += o.Claimed
	m.Completed += o.Completed
	m.Failed += o.Failed
	m.Retried += o.Retried
	m.Dead += o.Dead
}

// minutes has the figures of the last MinutesKept minutes in which something happened. The
// zero value is ready for use.
type minutes struct {
	ring []slot // nil until the first event
}

// slot has the figures of one minute; number is that of the minute since 1970.
type slot struct {
	number int64
	Minute
}

// at returns the minute of a time in ms. It takes the place of the one MinutesKept before.
// If the machine's clock was set back, minutes that were counted ahead of it are counted
// again from zero when they come.
func (m *minutes) at(now int64) *Minute {
	if m.ring == nil {
		m.ring = make([]slot, MinutesKept)
	}
	number := now / minuteMs
	s := &m.ring[number%MinutesKept]
	if s.number != number {
		*s = slot{number: number}
	}
	return &s.Minute
}

// addTo adds the figures of the minutes from the one with number from on.
func (m *minutes) addTo(out []Minute, from int64) {
	if m.ring == nil {
		return
	}
	for i := range out {
		if s := &m.ring[(from+int64(i))%MinutesKept]; s.number == from+int64(i) {
			out[i].add(&s.Minute)
		}
	}
}
