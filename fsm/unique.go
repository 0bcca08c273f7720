package fsm

import "strings"

// holder is the place of a job among the jobs with the same unique key.
type holder struct {
	jobType string
	key     string
	seq     uint64
	id      string
}

func byKeySeq(a, b holder) bool {
	if c := strings.Compare(a.jobType, b.jobType); c != 0 {
		return c < 0
	}
	if c := strings.Compare(a.key, b.key); c != 0 {
		return c < 0
	}
	return a.seq < b.seq
}

func byHold(a, b *Hold) bool {
	if c := strings.Compare(a.Type, b.Type); c != 0 {
		return c < 0
	}
	return a.Key < b.Key
}

func byUntil(a, b *Hold) bool {
	if a.UntilMs != b.UntilMs {
		return a.UntilMs < b.UntilMs
	}
	return byHold(a, b)
}

// holdsKey reports whether j holds its unique key by its status. For a period a Hold
// reserves the key instead.
func holdsKey(j *Job) bool {
	if j.Opt == nil || j.Opt.Unique.Key == "" {
		return false
	}
	switch j.Opt.Unique.Scope {
	case UniqueWaiting:
		return j.Status == Blocked || j.Status == Scheduled || j.Status == Unclaimed
	case UniqueActive:
		return !j.Status.ended()
	}
	return false
}

func holderOf(j *Job) holder {
	return holder{jobType: j.Type, key: j.Opt.Unique.Key, seq: j.Seq, id: j.ID}
}

// holderOfKey returns the job that holds the key of a type, or nil. If the job was
// removed and only its Hold is left, the result has only id, type and Seq.
func (m *Machine) holderOfKey(jobType, key string) (found *Job) {
	m.holders.Ascend(holder{jobType: jobType, key: key}, func(h holder) bool {
		if h.jobType == jobType && h.key == key {
			found = m.ids.Get(h.id)
		}
		return false
	})
	if found != nil {
		return found
	}
	h, ok := m.holds.Get(&Hold{Type: jobType, Key: key})
	if !ok {
		return nil
	}
	if j := m.ids.Get(h.JobId); j != nil && j.Seq == h.Seq {
		return j
	}
	return &Job{ID: h.JobId, Type: h.Type, Seq: h.Seq}
}

// reserveKey begins the reservation of a new job's key for its period.
func (m *Machine) reserveKey(j *Job) {
	m.addHold(&Hold{
		Type: j.Type, Key: j.Opt.Unique.Key, Seq: j.Seq, JobId: strings.Clone(j.ID), // it outlives the job
		UntilMs: later(j.CreatedAt, j.Opt.Unique.PeriodMs),
	})
}

func (m *Machine) addHold(h *Hold) {
	m.holds.Set(h)
	m.reservationEnds.Set(h)
}

func (m *Machine) dropHold(h *Hold) {
	m.holds.Delete(h)
	m.reservationEnds.Delete(h)
}

// endReservation ends the reservation of a job that is deleted.
func (m *Machine) endReservation(j *Job) {
	if j.Options().Unique.Scope != UniquePeriod {
		return
	}
	if h, ok := m.holds.Get(&Hold{Type: j.Type, Key: j.Opt.Unique.Key}); ok && h.Seq == j.Seq {
		m.dropHold(h)
	}
}

// endReservations ends the reservations whose period has passed.
func (m *Machine) endReservations() {
	for {
		h, ok := m.reservationEnds.Min()
		if !ok || h.UntilMs > m.meta.Now {
			return
		}
		m.dropHold(h)
	}
}
