package api

import (
	"strconv"

	v1 "osqueue/client/api/v1"
	"osqueue/cluster/notify"
	"osqueue/fsm"
)

// appendEventFrame appends an event in the format that HTML defines. The id comes last, so that
// a reader that gets only a part of the frame does not count the event as seen.
func appendEventFrame(b []byte, e *notify.Event) []byte {
	b = append(append(b, "event: "...), eventKind(e)...)
	b = appendEvent(append(b, "\ndata: "...), e)
	return append(appendEventID(append(b, "\nid: "...), e.ID), "\n\n"...)
}

// appendGap appends the event for a gap. lost is the last missing event. A gap has no id.
func appendGap(b []byte, lost notify.EventID, now int64) []byte {
	b = append(append(b, "event: "...), v1.EventGap...)
	b = append(b, "\ndata: {"...)
	b = text(b, "id", "")
	b = lsnText(b, lost.LSN)
	b = text(b, "kind", v1.EventGap)
	return append(number(b, "at", now), "}\n\n"...)
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
	b = append(appendEventID(append(key(b, "id"), '"'), e.ID), '"')
	b = lsnText(b, e.ID.LSN)
	b = text(b, "kind", eventKind(e))
	b = number(b, "at", e.At)
	if e.JobID != "" {
		b = appendEventJob(b, e)
	}
	b = textIf(b, "message", e.Message)
	b = textIf(b, "name", e.Name)
	return append(textIf(b, "actor", e.Actor), '}')
}

func appendEventJob(b []byte, e *notify.Event) []byte {
	b = text(b, "jobId", e.JobID)
	b = textIf(b, "type", e.Type)
	b = textIf(b, "from", e.From.String())
	b = textIf(b, "status", e.Status.String())
	if e.Worker != fsm.Anonymous && (e.Worker != "" || e.Status == fsm.InProgress) {
		b = text(b, "workerId", e.Worker)
	}
	b = numberIf(b, "attempts", int64(e.Attempts))
	b = textIf(b, "error", e.Error)
	return numberIf(b, "percent", int64(e.Percent))
}
