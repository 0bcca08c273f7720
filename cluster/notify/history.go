package notify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"
	"sync"

	"osqueue/fsm"
	"osqueue/internal/limit"
)

// EventID is the position of an event in the history of a lineage: the log entry that
// caused it, and its number in that entry, from 1. It is the same on all nodes. The zero
// EventID is before every event.
type EventID struct {
	LSN fsm.LSN
	N   uint32
}

// Compare returns -1, 0 or +1 if id is before, equal to or after o.
func (id EventID) Compare(o EventID) int {
	if c := id.LSN.Compare(o.LSN); c != 0 {
		return c
	}
	return cmp.Compare(id.N, o.N)
}

// String returns id as term-index.number, the form that ParseEventID reads.
func (id EventID) String() string {
	return id.LSN.String() + "." + strconv.FormatUint(uint64(id.N), 10)
}

// ErrBadEventID is wrapped by the errors of ParseEventID.
var ErrBadEventID = errors.New("not the id of an event (write term-index.number, for example 12-90210.1)")

// ParseEventID parses the form that String returns. The error is an ErrBadEventID.
func ParseEventID(s string) (EventID, error) {
	head, tail, _ := strings.Cut(s, ".")
	lsn, err := fsm.ParseLSN(head)
	if err != nil {
		return EventID{}, fmt.Errorf("%q: %w", s, ErrBadEventID)
	}
	n, err := strconv.ParseUint(tail, 10, 32)
	if err != nil {
		return EventID{}, fmt.Errorf("%q: %w", s, ErrBadEventID)
	}
	return EventID{LSN: lsn, N: uint32(n)}, nil
}

// endOf returns an id that is after every event of an entry.
func endOf(lsn fsm.LSN) EventID { return EventID{LSN: lsn, N: math.MaxUint32} }

// Event is a change that a log entry caused. It keeps no reference to a job.
type Event struct {
	ID   EventID
	At   int64 // machine's time, ms
	Kind fsm.EventKind

	// State of the job after the change:
	From     fsm.Status // before the change; 0 for a new job
	Status   fsm.Status
	End      fsm.End // end of its last attempt
	Percent  uint8   // of the progress
	Attempts int32
	JobID    string // "" if the event is not about a job
	Type     string
	Worker   string // worker that leases the job, or ended it; fsm.Anonymous for one without a name
	Error    string // error that ended the job or the attempt; truncated
	Message  string // of the progress; truncated

	// Name is the worker, type, schedule, batch or node of an event that is not about a
	// job.
	Name string

	Actor string // as in fsm.Event
}

// eventTextMax is the length in bytes to which errors and messages are truncated in
// events.
const eventTextMax = 256

// slot is an Event as a History keeps it. It has a copy of the id of its job, because Job.ID keeps the
// payload of the job in memory.
type slot struct {
	lsn      fsm.LSN
	at       int64
	n        uint32
	attempts int32
	kind     fsm.EventKind
	from     fsm.Status
	status   fsm.Status
	end      fsm.End
	idLen    uint8
	id       [43]byte // a UUID has 36
	jobType  string
	worker   string
	actor    string
	rare     *rareFields // nil: all are zero
}

// rareFields are the fields of an Event that few events have.
type rareFields struct {
	jobID              string // if it does not fit into slot.id
	percent            uint8
	err, message, name string
}

// fill sets s to the event ev. It sets s in place, because an entry may have many events.
func (s *slot) fill(ev *fsm.Event, lsn fsm.LSN, n uint32, at int64) {
	*s = slot{lsn: lsn, n: n, at: at, kind: ev.Kind, from: ev.From, actor: ev.Actor}
	rare := rareFields{name: ev.Name, message: ev.Text}
	if j := ev.Job; j != nil {
		s.jobType, s.worker = j.Type, j.Execution().Worker
		s.status, s.end, s.attempts = j.Status, j.AttemptEnd, j.Attempts
		if len(j.ID) <= len(s.id) {
			s.idLen = uint8(copy(s.id[:], j.ID))
		} else {
			rare.jobID = strings.Clone(j.ID)
		}
		if ev.Kind == fsm.JobProgress {
			p := j.Details().Progress
			rare.percent, rare.message = p.Percent, cutText(p.Message)
		}
		if ev.Kind == fsm.JobChanged && endedBadly(ev.From, j) {
			rare.err = cutText(j.Execution().LastError)
		}
	}
	if rare != (rareFields{}) {
		s.rare = new(rare)
	}
}

func (s *slot) eventID() EventID { return EventID{LSN: s.lsn, N: s.n} }

// isOf reports whether the event is about a job.
func (s *slot) isOf(jobID string) bool {
	if s.rare != nil && s.rare.jobID != "" {
		return s.rare.jobID == jobID
	}
	return string(s.id[:s.idLen]) == jobID
}

func (s *slot) event() Event {
	e := Event{
		ID: s.eventID(), At: s.at, Kind: s.kind, From: s.from, Status: s.status, End: s.end, Attempts: s.attempts,
		JobID: string(s.id[:s.idLen]), Type: s.jobType, Worker: s.worker, Actor: s.actor,
	}
	if r := s.rare; r != nil {
		e.JobID = cmp.Or(r.jobID, e.JobID)
		e.Percent, e.Error, e.Message, e.Name = r.percent, r.err, r.message, r.name
	}
	return e
}

// endedBadly reports whether the job's last error belongs to this change, and not to an
// earlier one.
func endedBadly(from fsm.Status, j *fsm.Job) bool {
	switch {
	case j.Status == fsm.Dead || j.Status == fsm.Cancelled || j.Status == fsm.Expired:
		return true
	case from != fsm.InProgress || j.Status == fsm.Completed:
		return false
	}
	return j.AttemptEnd != fsm.EndReleased && j.AttemptEnd != fsm.EndSuspended
}

// cutText truncates s to eventTextMax bytes. It copies a longer s, so that the rest can
// be freed.
func cutText(s string) string {
	if len(s) <= eventTextMax {
		return s
	}
	return strings.Clone(limit.Clip(s, eventTextMax))
}

// History keeps the newest events of a machine in memory. It is safe for concurrent use.
type History struct {
	mu    sync.RWMutex
	slots []slot
	next  uint64        // number of events so far; event i is in slot i modulo len(slots)
	first uint64        // oldest event that is kept
	since EventID       // all events after it are kept
	more  chan struct{} // closed with the next event; nil while no reader waits
}

// NewHistory returns a history that keeps size events, and at least one.
func NewHistory(size int) *History { return &History{slots: make([]slot, max(size, 1))} }

// Applied adds the events of the entry that m has applied last. It allocates only for
// events with rare fields. The caller holds the lock that guards m.
func (h *History) Applied(m *fsm.Machine) {
	events := m.Events()
	if len(events) == 0 {
		return
	}
	lsn, now := m.LSN(), m.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range events {
		s := h.at(h.next)
		if h.next-h.first == uint64(len(h.slots)) {
			h.since = s.eventID()
			h.first++
		}
		s.fill(&events[i], lsn, uint32(i+1), now)
		h.next++
	}
	h.wakeLocked()
}

// Restored empties the history, because m has a new state without events. Readers that
// ask for events before that state learn that they are lost. The caller holds the lock
// that guards m.
func (h *History) Restored(m *fsm.Machine) {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.slots)
	h.first, h.since = h.next, endOf(m.LSN())
	h.wakeLocked()
}

func (h *History) wakeLocked() {
	if h.more != nil {
		close(h.more)
		h.more = nil
	}
}

// Last returns the id of the newest event. If no event is kept, it returns an id that is
// before all later events and not before any earlier one.
func (h *History) Last() EventID {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.lastLocked()
}

func (h *History) lastLocked() EventID {
	if h.next == h.first {
		return h.since
	}
	return h.at(h.next - 1).eventID()
}

func (h *History) at(i uint64) *slot { return &h.slots[i%uint64(len(h.slots))] }

// Since returns the events after an id, in order, but not more than most. If some events
// after the id are not kept any more, lost is the id of the last one that is missing, and
// the events are those after lost. Otherwise lost is zero.
func (h *History) Since(after EventID, most int) (events []Event, lost EventID) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if after.Compare(h.since) < 0 {
		lost = h.since
	}
	held := int(h.next - h.first)
	skip := sort.Search(held, func(i int) bool { return h.at(h.first+uint64(i)).eventID().Compare(after) > 0 })
	count := min(held-skip, most)
	if count <= 0 {
		return nil, lost
	}
	events = make([]Event, count)
	for i := range events {
		events[i] = h.at(h.first + uint64(skip+i)).event()
	}
	return events, lost
}

// enqueuesLooked bounds the events that Enqueued looks at: those of one millisecond.
const enqueuesLooked = 4096

// Enqueued returns the event of the enqueue of a job at a time, in ms, if it is kept.
func (h *History) Enqueued(jobID string, at int64) (e Event, found bool) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	held := int(h.next - h.first)
	first := sort.Search(held, func(i int) bool { return h.at(h.first+uint64(i)).at >= at })
	for i := first; i < min(held, first+enqueuesLooked); i++ {
		switch s := h.at(h.first + uint64(i)); {
		case s.at != at:
			return Event{}, false
		case s.kind == fsm.JobChanged && s.from == 0 && s.isOf(jobID):
			return s.event(), true
		}
	}
	return Event{}, false
}

// Wait returns nil when there are events after an id, including events that are not kept
// any more. Otherwise it waits for one, and returns the error of ctx if ctx ends first.
// The id may be that of a future event; then Wait waits for a later one.
func (h *History) Wait(ctx context.Context, after EventID) error {
	for {
		more := h.newer(after)
		if more == nil {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// newer returns nil if there is a newer event, or else a channel that is closed with the
// next event.
func (h *History) newer(after EventID) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lastLocked().Compare(after) > 0 {
		return nil
	}
	if h.more == nil {
		h.more = make(chan struct{})
	}
	return h.more
}
