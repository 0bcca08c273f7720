package core

import (
	"github.com/hashicorp/go-hclog"

	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// HeaderTraceparent is v1.HeaderTraceparent under the name that net/http gives it.
const HeaderTraceparent = "Traceparent"

// Trace gives a committed write to the tracer, and notes the trace of its job for the log.
func (s *Core) Trace(c *Call, m *fsmpb.Mutation, res fsm.Result, lsn fsm.LSN) {
	if s.Config.Tracer != nil {
		s.Config.Tracer.Committed(c.began, m, res, lsn)
	}
	if c.trace == "" && len(res.Jobs) > 0 && s.Log.IsDebug() {
		c.trace = traceOf(res.Jobs[0])
	}
}

// logger returns the log with the id of the trace of the request, or else of its job, as
// trace_id.
func (c *Call) logger() hclog.Logger {
	id := v1.TraceID(c.Traceparent)
	if id == "" {
		id = c.trace
	}
	if id == "" {
		return c.Core.Log
	}
	return c.Core.Log.With("trace_id", id)
}

// traceOf returns the id of the trace of a job, or "".
func traceOf(j *fsm.Job) string {
	if j == nil {
		return ""
	}
	for _, h := range j.Options().Headers {
		if h.Name == v1.HeaderTraceparent {
			return v1.TraceID(h.Value)
		}
	}
	return ""
}
