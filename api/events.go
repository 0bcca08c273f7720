package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/cluster/notify"
	"osqueue/fsm"
	"osqueue/internal/sleep"
)

// The stream of events has the entries that one node has applied, in the order of the log, with
// ids that are equal on all nodes. So a client can resume it on any node without repeated or
// missing events. If the node no longer has some events, it sends an event "gap". A node that
// is behind the reader's last event sends nothing until it has caught up.
//
// A stream has no deadline as a whole: it ends with its reader or with the server. But each
// write has one: a reader that takes longer is cut off, and a reader that is too slow gets a
// gap when the history has dropped its position.

const (
	mediaTypeEvents = "text/event-stream"
	// eventsAtOnce is the number of events that are examined for one write.
	eventsAtOnce = 256
	// gatherTime is the pause of a stream after a write, so that on a busy queue one write has
	// many events. The first event after a silence is sent at once.
	gatherTime = 10 * time.Millisecond
	// reconnectMs is the delay, in ms, after which a reader should reconnect when the stream
	// breaks.
	reconnectMs = "1000"
)

// events is GET /v1/events.
func (s *Server) events(c *httpCall) error {
	filter, err := readEventFilter(c.Params)
	if err != nil {
		return err
	}
	history := s.Node.Events()
	from, err := c.resumePoint(history)
	if err != nil {
		return err
	}
	leave, err := c.Enter(s.Shares.Events, core.TooManyStreams, "streams of events")
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	stop := context.AfterFunc(s.Closing, cancel)
	defer stop()
	st := &eventStream{c: c, ctx: ctx, history: history, filter: filter, at: from, told: from}
	st.run()
	return nil
}

// resumePoint returns the event after which the stream begins. A browser that reconnects sends
// the header, and again the query of its first request: the header has precedence. Without
// either the stream begins now.
func (h *httpCall) resumePoint(history *notify.History) (notify.EventID, error) {
	where, given := v1.HeaderLastEventID, h.r.Header.Get(v1.HeaderLastEventID)
	if given == "" {
		where, given = v1.ParamLastEventID, h.Params.Get(v1.ParamLastEventID)
	}
	if given == "" {
		return history.Last(), nil
	}
	id, err := notify.ParseEventID(given)
	if err != nil {
		return id, core.Fail(core.BadRequest, "%s is %q; must be the id of an event, or %s for all events that the node keeps", where, core.Shown(given), notify.EventID{})
	}
	if _, lost := history.Since(id, 0); h.Strict && id != (notify.EventID{}) && lost != (notify.EventID{}) {
		return id, core.Fail(core.HistoryGone, "this node no longer has the events from %s to %s; try another node", core.Shown(given), lost)
	}
	return id, nil
}

// eventStream is one stream.
type eventStream struct {
	c       *httpCall
	ctx     context.Context // ends with the reader or the server
	history *notify.History
	filter  *eventFilter
	at      notify.EventID // all up to here has been looked at
	told    notify.EventID // the last id that the reader got
	beat    time.Time      // when the next heartbeat is due
}

// run sends events until the stream ends.
func (st *eventStream) run() {
	if !st.begin() {
		return
	}
	for st.ctx.Err() == nil {
		busy, sent := st.more()
		if !sent {
			return
		}
		if !busy && !st.rest() {
			return
		}
	}
}

// begin sends the head of the answer and the starting point of the stream, so that a reader
// that gets no event can still resume there.
func (st *eventStream) begin() bool {
	c := st.c
	rc := http.NewResponseController(c.ResponseWriter)
	// net/http ends the request at its read deadline, and there is nothing more to read. Not
	// every ResponseWriter has a deadline.
	_ = rc.SetReadDeadline(time.Time{})
	h := c.Header()
	h.Set("Content-Type", mediaTypeEvents)
	h.Set("Cache-Control", "no-store, no-transform") // a proxy that compresses would hold events back
	h.Set("X-Accel-Buffering", "no")                 // proxies would hold events back
	c.WriteHeader(http.StatusOK)
	if c.Method == http.MethodHead {
		return false
	}
	c.Out = append(append(c.Out[:0], "retry: "...), reconnectMs...)
	c.Out = append(c.Out, '\n')
	return st.writeID()
}

// more sends new events. busy reports that there may be more at once.
func (st *eventStream) more() (busy, sent bool) {
	c := st.c
	events, lost := st.history.Since(st.at, eventsAtOnce)
	c.Out = c.Out[:0]
	if lost != (notify.EventID{}) {
		c.Out = appendGap(c.Out, lost, c.Core.Node.Now())
		st.at = lost
	}
	for i := range events {
		st.at = events[i].ID
		if st.filter.match(&events[i]) {
			e := events[i]
			e.Worker, e.Name = c.Named(e.Worker), c.Named(e.Name)
			c.Out = appendEventFrame(c.Out, &e)
			st.told = st.at
		}
	}
	return len(events) == eventsAtOnce, len(c.Out) == 0 || st.write()
}

// rest waits until there may be something to send. It returns false when the stream ends.
func (st *eventStream) rest() bool {
	sleep.For(st.ctx, gatherTime)
	for st.ctx.Err() == nil {
		if !time.Now().Before(st.beat) && !st.keepAlive() {
			return false
		}
		ctx, cancel := context.WithDeadline(st.ctx, st.beat)
		err := st.history.Wait(ctx, st.at)
		cancel()
		if err == nil {
			return true
		}
	}
	return false
}

// keepAlive shows the reader, and the proxies in between, that the stream is alive. It also
// sends the position of the stream if no event matched the reader's filter, so that the reader
// does not find a gap when it resumes.
func (st *eventStream) keepAlive() bool {
	st.c.Out = append(st.c.Out[:0], ": keep-alive\n"...)
	if st.at == st.told {
		st.c.Out = append(st.c.Out, '\n')
		return st.write()
	}
	return st.writeID()
}

// writeID sends c.out with an id that belongs to no event.
func (st *eventStream) writeID() bool {
	st.c.Out = append(appendEventID(append(st.c.Out, "id: "...), st.at), "\n\n"...)
	st.told = st.at
	return st.write()
}

// write sends c.out. It returns false if the reader has gone, or is too slow.
func (st *eventStream) write() bool {
	c := st.c
	st.beat = time.Now().Add(c.Core.Config.Timeouts.KeepAlive)
	rc := http.NewResponseController(c.ResponseWriter)
	// The deadline of the server is meant for answers that end.
	_ = rc.SetWriteDeadline(time.Now().Add(c.Core.Config.Timeouts.Answer))
	if _, err := c.Write(c.Out); err != nil {
		return false
	}
	err := rc.Flush()
	return err == nil || errors.Is(err, http.ErrNotSupported)
}

// eventFilter matches events that satisfy all of its lists. An empty list matches every event.
type eventFilter struct {
	types, jobs, kinds []string
}

// filterMax bounds the names of one list.
const filterMax = 100

func readEventFilter(q map[string][]string) (*eventFilter, error) {
	f := new(eventFilter)
	for name, list := range map[string]*[]string{v1.ParamType: &f.types, v1.ParamJob: &f.jobs, v1.ParamKind: &f.kinds} {
		for _, given := range q[name] {
			if given == "" {
				continue
			}
			*list = append(*list, given) // a name may have a comma in it
			if strings.Contains(given, ",") {
				*list = append(*list, strings.Split(given, ",")...)
			}
		}
		if len(*list) > filterMax {
			return nil, core.Fail(core.BadRequest, "%s has %d names; at most %d are allowed", name, len(*list), filterMax)
		}
	}
	f.kinds = slices.DeleteFunc(f.kinds, func(k string) bool { return strings.Contains(k, ",") })
	for _, k := range f.kinds {
		if !slices.ContainsFunc(eventKinds, func(known string) bool { return kindMatches(k, known) }) {
			return nil, core.Fail(core.BadRequest, "%s: unknown kind %q; use %s, or a prefix that ends with a dot",
				v1.ParamKind, core.Shown(k), strings.Join(eventKinds, ", "))
		}
	}
	return f, nil
}

// kindMatches: "job." stands for all kinds that begin so.
func kindMatches(wanted, kind string) bool {
	return wanted == kind || strings.HasSuffix(wanted, ".") && strings.HasPrefix(kind, wanted)
}

func (f *eventFilter) match(e *notify.Event) bool {
	if len(f.types) > 0 && (e.JobID == "" || !slices.Contains(f.types, e.Type)) {
		return false
	}
	if len(f.jobs) > 0 && (e.JobID == "" || !slices.Contains(f.jobs, e.JobID)) {
		return false
	}
	kind := core.EventKind(e)
	return len(f.kinds) == 0 || slices.ContainsFunc(f.kinds, func(k string) bool { return kindMatches(k, kind) })
}

// eventKinds are all kinds of events of the machine.
var eventKinds = []string{
	v1.EventEnqueued, v1.EventDue, v1.EventUnblocked, v1.EventClaimed, v1.EventCompleted, v1.EventFailed, v1.EventLeaseExpired,
	v1.EventTimedOut, v1.EventReleased, v1.EventDead, v1.EventCancelling, v1.EventEdited, v1.EventSignalled, v1.EventSuspended, v1.EventCancelled, v1.EventExpired, v1.EventRetried,
	v1.EventProgress, v1.EventRemoved,
	v1.EventBrokerRegistered, v1.EventWorkerRegistered, v1.EventWorkerDead, v1.EventWorkerSet, v1.EventQueueSet, v1.EventLimitSet,
	v1.EventCronPut, v1.EventCronDeleted, v1.EventCronFired, v1.EventCronSkipped, v1.EventBatchEnded,
	v1.EventBucketAway, v1.EventBucketBack, v1.EventWritesRefused, v1.EventWritesAccepted,
	v1.EventBucketDamaged, v1.EventBucketHealed,
}

// appendEventFrame appends an event in the format that HTML defines. The id comes last, so that
// a reader that gets only a part of the frame does not count the event as seen.
func appendEventFrame(b []byte, e *notify.Event) []byte {
	b = append(append(b, "event: "...), core.EventKind(e)...)
	b = appendEvent(append(b, "\ndata: "...), e)
	return append(appendEventID(append(b, "\nid: "...), e.ID), "\n\n"...)
}

// appendGap appends the event for a gap. lost is the last missing event. A gap has no id.
func appendGap(b []byte, lost notify.EventID, now int64) []byte {
	b = append(append(b, "event: "...), v1.EventGap...)
	b = append(b, "\ndata: {"...)
	b = core.Text(b, "id", "")
	b = core.LsnText(b, lost.LSN)
	b = core.Text(b, "kind", v1.EventGap)
	return append(core.Number(b, "at", now), "}\n\n"...)
}

func appendEventID(b []byte, id notify.EventID) []byte {
	b = strconv.AppendUint(b, id.LSN.Term, 10)
	b = strconv.AppendUint(append(b, '-'), id.LSN.Index, 10)
	return strconv.AppendUint(append(b, '.'), uint64(id.N), 10)
}

// appendEvent appends a v1.Event. JSON escapes line ends within strings, so the event is one
// line.
func appendEvent(b []byte, e *notify.Event) []byte {
	b = append(b, '{')
	b = append(appendEventID(append(core.Key(b, "id"), '"'), e.ID), '"')
	b = core.LsnText(b, e.ID.LSN)
	b = core.Text(b, "kind", core.EventKind(e))
	b = core.Number(b, "at", e.At)
	if e.JobID != "" {
		b = appendEventJob(b, e)
	}
	b = core.TextIf(b, "message", e.Message)
	b = core.TextIf(b, "name", e.Name)
	return append(core.TextIf(b, "actor", e.Actor), '}')
}

func appendEventJob(b []byte, e *notify.Event) []byte {
	b = core.Text(b, "jobId", e.JobID)
	b = core.TextIf(b, "type", e.Type)
	b = core.TextIf(b, "from", e.From.String())
	b = core.TextIf(b, "status", e.Status.String())
	if e.Worker != fsm.Anonymous && (e.Worker != "" || e.Status == fsm.InProgress) {
		b = core.Text(b, "workerId", e.Worker)
	}
	b = core.NumberIf(b, "attempts", int64(e.Attempts))
	b = core.TextIf(b, "error", e.Error)
	return core.NumberIf(b, "percent", int64(e.Percent))
}
