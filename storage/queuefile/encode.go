package queuefile

import (
	"math"

	"osqueue/fsm"
)

// Encode returns the document with content c, which Check has nothing against.
// The broker ("" for none) and its heartbeat stand in the original's members
// and in the header; the header's format, address, LSN and heartbeat are set by
// Encode. The result is the caller's.
func Encode(c *Content, h Header, broker string, heartbeatMs int64) []byte {
	data, _ := AppendTo(nil, c, h, broker, heartbeatMs)
	return data
}

// EncodeJobs returns a document that has only jobs, and a text for people. Decode reads it
// as one of a legacy broker.
func EncodeJobs(jobs []*fsm.Job, reason string) []byte {
	a := appender{limit: math.MaxInt}
	a.open('{')
	a.text("reason", reason)
	a.key("jobs")
	a.open('[')
	for _, j := range jobs {
		a.next()
		a.job(j)
	}
	a.close(']')
	a.close('}')
	return a.buf
}

// AppendTo is Encode into a buffer that may be used again. large says that the
// document has the archive in place of the state. A state that is too long for
// the document is found out by work in proportion to InlineMax, not to its size.
func AppendTo(buf []byte, c *Content, h Header, broker string, heartbeatMs int64) (data []byte, large bool) {
	h.Address, h.Heartbeat = broker, heartbeatMs
	if c.State != nil {
		a := appender{buf: buf, limit: c.limit(len(buf))}
		if a.inline(c, h) {
			return a.buf, false
		}
		buf = a.buf[:len(buf)] // what was appended may have moved it
	}
	a := appender{buf: buf, limit: math.MaxInt}
	a.large(c, h)
	return a.buf, true
}

// limit is the length that a buffer of so many bytes may have once the state is
// in it.
func (c *Content) limit(before int) int {
	if c.InlineMax <= 0 || c.Archive == nil || c.Archive.LSN() != c.State.LSN() {
		return math.MaxInt
	}
	return before + c.InlineMax
}

// full reports whether more was appended than may be: what is under way is to be
// given up.
func (a *appender) full() bool { return len(a.buf) > a.limit }

// The statuses that stand in each list of the document.
var (
	waiting   = []fsm.Status{fsm.Unclaimed, fsm.InProgress}
	scheduled = []fsm.Status{fsm.Scheduled}
	blocked   = []fsm.Status{fsm.Blocked}
	finished  = []fsm.Status{fsm.Completed, fsm.Cancelled}
	dead      = []fsm.Status{fsm.Dead}
)

// inline appends the document that holds the state, and what archive there is
// at its end, where older versions of this program skip it. It reports whether
// the state fits into the limit; if not, the rest is missing.
func (a *appender) inline(c *Content, h Header) bool {
	v := c.State
	if least(v) > int64(a.limit)-int64(len(a.buf)) {
		return false
	}
	m := v.Meta()
	a.broker(&h)
	a.jobs("jobs", v, waiting)
	a.unsigned("completedTotal", m.CompletedTotal)
	a.header(Format, &h, &m)
	a.jobs("scheduled", v, scheduled)
	a.jobs("blocked", v, blocked)
	a.jobs("finished", v, finished)
	a.jobs("dead", v, dead)
	a.beside(v)
	a.documentExtra(&m)
	if len(a.buf)+len("}") > a.limit {
		return false
	}
	if c.Archive != nil {
		a.archive(c.Archive)
	}
	a.close('}')
	return true
}

// jobLeast is less than what any job takes without its payload and result.
const jobLeast = 60

// least is a lower bound, without a look at any job, of what v takes inline: but
// for members that are not ours and have got a name of ours since.
func least(v *fsm.View) int64 {
	jobs := 0
	for _, n := range v.Counts() {
		jobs += n
	}
	return int64(jobs)*jobLeast + v.Bytes()
}

// large appends the document that has the archive in place of the state. It has
// no list of jobs, unless somebody had put one there: a broker of the older
// generation, which cannot know that they are elsewhere, must not take the queue for
// empty.
func (a *appender) large(c *Content, h Header) {
	m, counts := c.Meta, c.Counts
	if c.State != nil {
		m, counts = c.State.Meta(), c.State.Counts()
	}
	a.broker(&h)
	a.added(c.Added)
	a.unsigned("completedTotal", m.CompletedTotal)
	a.header(FormatLarge, &h, &m)
	a.counts(counts)
	a.documentExtra(&m)
	a.archive(c.Archive)
	a.close('}')
}

// broker begins the document.
func (a *appender) broker(h *Header) {
	a.open('{')
	if h.Address == "" {
		a.key("broker")
		a.buf = append(a.buf, "null"...)
	} else {
		a.text("broker", h.Address)
	}
	a.plain("brokerHeartbeat", h.Heartbeat)
}

func (a *appender) header(format int, h *Header, m *fsm.Meta) {
	a.key("osqueue")
	a.open('{')
	if m.Level > fsm.BaseLevel {
		format += formatLevel
	}
	a.integer("format", int64(format))
	a.text("lineage", h.Lineage)
	a.text("cluster", h.Cluster)
	a.unsigned("epoch", h.Epoch)
	a.text("node", h.Node)
	a.text("address", h.Address)
	a.unsigned("term", m.LSN.Term)
	a.unsigned("index", m.LSN.Index)
	a.text("write", h.Write)
	a.texts("writes", h.Writes)
	a.plain("heartbeat", h.Heartbeat)
	if h.Next > 0 {
		a.integer("next", h.Next)
	}
	a.texts("members", laterMembers)
	a.handovers(h.Handovers)
	a.state(h, m)
	a.close('}')
}

// handovers appends where the parts of other clusters end; nothing if there are none.
func (a *appender) handovers(list []Handover) {
	if len(list) == 0 {
		return
	}
	a.key("handovers")
	a.open('[')
	for i := range list {
		o := &list[i]
		a.next()
		a.open('{')
		a.text("cluster", o.Cluster)
		a.unsigned("epoch", o.Epoch)
		a.unsigned("term", o.Term)
		a.unsigned("index", o.Index)
		a.unsigned("lastSeq", o.LastSeq)
		a.unsigned("lastToken", o.Token)
		a.integer("now", o.Now)
		a.close('}')
	}
	a.close(']')
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
	if m.Level > fsm.BaseLevel {
		a.unsigned("level", uint64(m.Level))
	}
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

func (a *appender) worker(w *fsm.Worker) {
	a.text("name", w.Name)
	a.texts("types", w.Types)
	a.optional("version", w.Version)
	a.optional("address", w.Address)
	a.integer("registeredAt", w.RegisteredAt)
	a.integer("lastSeen", w.LastSeen)
}

func (a *appender) claim(c *fsm.ClaimRecord) {
	a.text("worker", c.Worker)
	a.text("requestId", c.RequestID)
	a.integer("claimedAt", c.ClaimedAt)
	a.leases(c.Leases)
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
