package queuefile

import "osqueue/fsm"

// Encode returns the document of state v. The broker ("" for none) and its
// heartbeat stand in the original's members and in the header; the header's
// format, address, LSN and heartbeat are set by Encode. The result is the
// caller's.
func Encode(v *fsm.View, h Header, broker string, heartbeatMs int64) []byte {
	return AppendTo(nil, v, h, broker, heartbeatMs)
}

// The statuses that stand in each list of the document.
var (
	waiting   = []fsm.Status{fsm.Unclaimed, fsm.InProgress}
	scheduled = []fsm.Status{fsm.Scheduled}
	blocked   = []fsm.Status{fsm.Blocked}
	finished  = []fsm.Status{fsm.Completed, fsm.Cancelled}
	dead      = []fsm.Status{fsm.Dead}
)

// AppendTo is Encode into a buffer that may be used again.
func AppendTo(buf []byte, v *fsm.View, h Header, broker string, heartbeatMs int64) []byte {
	h.Format, h.Address, h.Heartbeat = Format, broker, heartbeatMs
	h.Term, h.Index = v.LSN().Term, v.LSN().Index
	m := v.Meta()
	a := appender{buf: buf}
	a.open('{')
	if broker == "" {
		a.key("broker")
		a.buf = append(a.buf, "null"...)
	} else {
		a.text("broker", broker)
	}
	a.plain("brokerHeartbeat", heartbeatMs)
	a.jobs("jobs", v, waiting)
	a.unsigned("completedTotal", m.CompletedTotal)
	a.header(&h, &m)
	a.jobs("scheduled", v, scheduled)
	a.jobs("blocked", v, blocked)
	a.jobs("finished", v, finished)
	a.jobs("dead", v, dead)
	a.workers(v)
	a.claims(v)
	a.beside(v)
	a.close('}')
	return a.buf
}

func (a *appender) header(h *Header, m *fsm.Meta) {
	a.key("osqueue")
	a.open('{')
	a.integer("format", int64(h.Format))
	a.text("lineage", h.Lineage)
	a.text("cluster", h.Cluster)
	a.unsigned("epoch", h.Epoch)
	a.text("node", h.Node)
	a.text("address", h.Address)
	a.unsigned("term", h.Term)
	a.unsigned("index", h.Index)
	a.text("write", h.Write)
	a.texts("writes", h.Writes)
	a.plain("heartbeat", h.Heartbeat)
	a.state(h, m)
	a.close('}')
}

// state appends the scalars that no other member carries. Cluster, lineage and
// broker differ from the header's only between a takeover and the registration
// of the new broker in the log.
func (a *appender) state(h *Header, m *fsm.Meta) {
	a.key("state")
	a.open('{')
	a.plain("now", m.Now)
	a.unsigned("lastSeq", m.LastSeq)
	a.unsigned("lastToken", m.Token)
	a.plain("leasesFrom", m.LeasesFrom)
	a.unsigned("lastTurn", m.LastTurn)
	a.unsigned("deadTotal", m.DeadTotal)
	a.unsigned("cancelledTotal", m.CancelledTotal)
	a.unsigned("termBase", m.TermBase)
	if m.Cluster != h.Cluster {
		a.text("cluster", m.Cluster)
	}
	if m.Lineage != h.Lineage {
		a.text("lineage", m.Lineage)
	}
	if m.Broker.Node != h.Node {
		a.text("node", m.Broker.Node)
	}
	if m.Broker.Address != h.Address {
		a.text("address", m.Broker.Address)
	}
	if m.Broker.Epoch != h.Epoch {
		a.unsigned("epoch", m.Broker.Epoch)
	}
	a.settings(&m.Settings)
	a.close('}')
}

func (a *appender) settings(s *fsm.Settings) {
	a.key("settings")
	a.open('{')
	a.integer("maxAttempts", int64(s.MaxAttempts))
	a.integer("leaseMs", s.LeaseMs)
	a.integer("workerTimeoutMs", s.WorkerTimeoutMs)
	a.integer("retainCompletedMs", s.RetainCompletedMs)
	a.integer("retainCompletedCount", s.RetainCompletedCount)
	a.integer("requestMs", s.RequestMs)
	a.integer("requestCount", s.RequestCount)
	a.nonzero("maxJobs", s.MaxJobs)
	a.nonzero("maxBytes", s.MaxBytes)
	a.nonzero("maxPayload", s.MaxPayload)
	a.close('}')
}

func (a *appender) workers(v *fsm.View) {
	a.key("workers")
	a.open('[')
	v.Workers(func(w *fsm.Worker) bool {
		a.next()
		a.open('{')
		a.text("name", w.Name)
		a.texts("types", w.Types)
		a.optional("version", w.Version)
		a.optional("address", w.Address)
		a.integer("registeredAt", w.RegisteredAt)
		a.integer("lastSeen", w.LastSeen)
		a.close('}')
		return true
	})
	a.close(']')
}

func (a *appender) claims(v *fsm.View) {
	a.key("claims")
	a.open('[')
	v.Claims(func(c *fsm.ClaimRecord) bool {
		a.next()
		a.open('{')
		a.text("worker", c.Worker)
		a.text("requestId", c.RequestID)
		a.integer("claimedAt", c.ClaimedAt)
		a.leases(c.Leases)
		a.close('}')
		return true
	})
	a.close(']')
}

func (a *appender) leases(leases []fsm.Lease) {
	a.key("leases")
	a.open('[')
	for _, l := range leases {
		a.next()
		a.open('{')
		a.text("job", l.JobID)
		a.unsigned("token", l.Token)
		a.close('}')
	}
	a.close(']')
}
