package cluster

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
	"unicode/utf8"

	"osqueue/fsm"
)

// EventID is an event's place in the history of a lineage: the log entry that
// made it, and its number in that, from 1. It is the same on all nodes. The zero
// EventID is before every event.
type EventID struct {
	LSN fsm.LSN
	N   uint32
}

// Compare returns -1, 0 or +1 as id is before, equal to or after o.
func (id EventID) Compare(o EventID) int {
	if c := id.LSN.Compare(o.LSN); c != 0 {
		return c
	}
	return cmp.Compare(id.N, o.N)
}

// String prints id as term-index.number, the form that ParseEventID reads.
func (id EventID) String() string {
	return id.LSN.String() + "." + strconv.FormatUint(uint64(id.N), 10)
}

// ErrBadEventID is wrapped by ParseEventID.
var ErrBadEventID = errors.New("not the id of an event (it is term-index.number, for example 12-90210.1)")

// ParseEventID reads what String prints.
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

// endOf is behind every event of an entry.
func endOf(lsn fsm.LSN) EventID { return EventID{LSN: lsn, N: math.MaxUint32} }

// Event is something that a log entry made happen. It keeps no job alive.
type Event struct {
	ID   EventID
	At   int64 // the machine's clock, ms
	Kind fsm.EventKind

	// Of jobs, after the change:
	From     fsm.Status // before the change; 0 for a new job
	Status   fsm.Status
	End      fsm.End // of its last attempt
	Percent  uint8   // of progress
	Attempts int32
	JobID    string // "" if it is not about a job
	Type     string
	Worker   string // who holds the job, or ended it; fsm.Anonymous stands for one without a name
	Error    string // why it ended or was set back; cut
	Message  string // of progress; cut

	// Name is the worker, type, schedule, batch or node that other kinds are
	// about.
	Name string
}

// eventTextMax is where errors and messages are cut in events, in bytes.
const eventTextMax = 256

// fill sets e to what happened. It is set in place: an entry may have many.
func (e *Event) fill(ev *fsm.Event, id EventID, at int64) {
	*e = Event{ID: id, At: at, Kind: ev.Kind, From: ev.From, Name: ev.Name, Message: ev.Text}
	j := ev.Job
	if j == nil {
		return
	}
	e.JobID, e.Type, e.Worker = j.ID, j.Type, j.Worker
	e.Status, e.End, e.Attempts = j.Status, j.AttemptEnd, j.Attempts
	if ev.Kind == fsm.JobProgress {
		p := j.Details().Progress
		e.Percent, e.Message = p.Percent, cutText(p.Message)
	}
	if ev.Kind == fsm.JobChanged && endedBadly(ev.From, j) {
		e.Error = cutText(j.LastError)
	}
}

// endedBadly: the job's last error is about this change, not about one before.
func endedBadly(from fsm.Status, j *fsm.Job) bool {
	switch {
	case j.Status == fsm.Dead || j.Status == fsm.Cancelled:
		return true
	case from != fsm.InProgress || j.Status == fsm.Completed:
		return false
	}
	return j.AttemptEnd != fsm.EndReleased
}

// cutText is a copy where s is too long, so that the rest can be freed.
func cutText(s string) string {
	if len(s) <= eventTextMax {
		return s
	}
	n := eventTextMax
	for n > eventTextMax-utf8.UTFMax && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.Clone(s[:n])
}

// History keeps the newest events of a machine in memory. It is safe for
// concurrent use.
type History struct {
	mu    sync.RWMutex
	slots []Event
	next  uint64        // events so far; event i is in slot i modulo their number
	first uint64        // the oldest that is held
	since EventID       // all events after it are held
	more  chan struct{} // closed with the next event; nil while nobody waits
}

// NewHistory makes a history that holds so many events, at least one.
func NewHistory(size int) *History { return &History{slots: make([]Event, max(size, 1))} }

// Applied takes in the events of the entry that m has applied last. It
// allocates nothing, and does nothing if there are none.
func (h *History) Applied(m *fsm.Machine) {
	events := m.Events()
	if len(events) == 0 {
		return
	}
	meta := m.Meta()
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range events {
		e := h.at(h.next)
		if h.next-h.first == uint64(len(h.slots)) {
			h.since = e.ID
			h.first++
		}
		e.fill(&events[i], EventID{LSN: meta.LSN, N: uint32(i + 1)}, meta.Now)
		h.next++
	}
	h.wakeLocked()
}

// Restored starts anew with m: a state has no history.
func (h *History) Restored(m *fsm.Machine) {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.slots)
	h.first, h.since = h.next, endOf(m.Meta().LSN)
	h.wakeLocked()
}

func (h *History) wakeLocked() {
	if h.more != nil {
		close(h.more)
		h.more = nil
	}
}

// Last is the newest event, or, if none is held, the place behind which they
// would be.
func (h *History) Last() EventID {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.lastLocked()
}

func (h *History) lastLocked() EventID {
	if h.next == h.first {
		return h.since
	}
	return h.at(h.next - 1).ID
}

func (h *History) at(i uint64) *Event { return &h.slots[i%uint64(len(h.slots))] }

// Since returns the events after one, in order, at most so many as asked for. If
// some after it are not held any more, lost is the last of these, and the events
// are those after lost; else lost is zero.
func (h *History) Since(after EventID, most int) (events []Event, lost EventID) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if after.Compare(h.since) < 0 {
		lost = h.since
	}
	held := int(h.next - h.first)
	skip := sort.Search(held, func(i int) bool { return h.at(h.first+uint64(i)).ID.Compare(after) > 0 })
	count := min(held-skip, most)
	if count <= 0 {
		return nil, lost
	}
	events = make([]Event, count)
	for i := range events {
		events[i] = *h.at(h.first + uint64(skip+i))
	}
	return events, lost
}

// Wait returns nil when there are events after one, or were and are not held
// any more; else the error of ctx. After an event that is still to come it waits
// for the one behind that.
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

// newer is nil if there is something newer, else a channel that is closed with
// the next event.
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

// Events is the history of what this node has applied. After a start it begins
// with the node's newest snapshot.
func (n *Node) Events() *History { return n.events }
