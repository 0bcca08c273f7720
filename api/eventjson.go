package api

import (
	"strconv"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/cluster/notify"
	"osqueue/fsm"
)

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
