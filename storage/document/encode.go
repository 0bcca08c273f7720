package document

import (
	"math"
	"slices"

	"osqueue/fsm"
)

// Encode returns the document with content c, for which Check must return nil. It writes
// the broker ("" for none) and its heartbeat into the fields of the legacy broker and into
// the header, and sets the header's format, address, LSN and heartbeat. The caller owns the
// result.
func Encode(c *Content, h Header, broker string, heartbeatMs int64) []byte {
	data, _ := AppendTo(nil, c, h, broker, heartbeatMs)
	return data
}

// EncodeJobs returns a document that only has jobs, and a text for people. Decode reads it
// as a legacy document.
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

// AppendTo is like Encode, but appends to buf, which the caller may reuse. large reports
// whether the document has the archive instead of the state. AppendTo detects a state that
// is too long with work proportional to InlineMax, not to the size of the state.
func AppendTo(buf []byte, c *Content, h Header, broker string, heartbeatMs int64) (data []byte, large bool) {
	h.Address, h.Heartbeat = broker, heartbeatMs
	if c.State != nil {
		a := appender{buf: buf, limit: c.limit(len(buf))}
		if a.inline(c, h) {
			a.sign(c.State, len(buf))
			return a.buf, false
		}
		buf = a.buf[:len(buf)] // append may have reallocated it
	}
	a := appender{buf: buf, limit: math.MaxInt}
	a.large(c, h)
	return a.buf, true
}

// limit returns the length that a buffer of before bytes may reach with the state in it.
func (c *Content) limit(before int) int {
	if c.InlineMax <= 0 || c.Archive == nil || c.Archive.LSN() != c.State.LSN() {
		return math.MaxInt
	}
	return before + c.InlineMax
}

// full reports whether the buffer exceeds its limit, so that the caller must stop.
func (a *appender) full() bool { return len(a.buf) > a.limit }

// Statuses of the jobs in each list of the document.
var (
	waiting   = []fsm.Status{fsm.Unclaimed, fsm.InProgress}
	scheduled = []fsm.Status{fsm.Scheduled}
	blocked   = []fsm.Status{fsm.Blocked}
	finished  = []fsm.Status{fsm.Completed, fsm.Cancelled}
	dead      = []fsm.Status{fsm.Dead}
)

// inline appends the document with the inline state, and with the archive, if any, at the
// end. It reports whether the state fits into the limit; if not, the output is incomplete.
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

// jobLeast is less than the bytes of any job without its payload and result.
const jobLeast = 60

// least returns a lower bound of the inline size of v without a look at any job. The bound
// ignores unknown fields whose names this package has used since.
func least(v *fsm.View) int64 {
	jobs := 0
	for _, n := range v.Counts() {
		jobs += n
	}
	return int64(jobs)*jobLeast + v.Bytes()
}

// large appends the document with the archive instead of the state. It has a list of jobs
// only if a person had added one: a legacy broker, which does not know the archive, must
// not take the queue for empty.
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
	if c.State != nil {
		a.liveJobs(c.State, min(c.InlineMax, liveMax))
	}
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
	a.fence(&h.Fence)
	a.handovers(h.Handovers)
	a.state(h, m)
	if format != FormatLarge {
		a.sums()
	}
	a.close('}')
}

// fence appends the fence; nothing if it is zero.
func (a *appender) fence(f *Fence) {
	if f.Timeout == 0 {
		return
	}
	a.key("fence")
	a.open('{')
	a.integer("heartbeat", f.Heartbeat.Milliseconds())
	a.integer("timeout", f.Timeout.Milliseconds())
	a.integer("outage", f.Outage.Milliseconds())
	records(a, "members", slices.Values(f.Members), func(m Member) {
		a.text("name", m.Name)
		a.text("address", m.Address)
		a.optional("host", m.Host)
	})
	a.texts("standbys", f.Standbys)
	a.close('}')
}

// handovers appends the ends of the parts of other clusters; nothing if there are none.
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

// state appends the scalars that no other field carries. Cluster, lineage and broker differ
// from the header only between a takeover and the registration of the new broker in the
// log.
func (a *appender) state(h *Header, m *fsm.Meta) {
	a.key("state")
	a.open('{')
	a.plain("now", m.Now)
	a.unsigned("lastSeq", m.LastSeq)
	a.unsigned("lastToken", m.Token)
	a.plain("leasesFrom", m.LeasesFrom)
	a.unsigned("lastTurn", m.LastTurn)
	if m.Announced != 0 {
		a.unsigned("announced", uint64(m.Announced))
	}
	if m.Adopted != "" {
		a.text("adopted", m.Adopted)
	}
	a.unsigned("deadTotal", m.DeadTotal)
	a.unsigned("cancelledTotal", m.CancelledTotal)
	a.unsigned("termBase", m.TermBase)
	a.unsigned("level", uint64(m.Level))
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
	a.nonzero("capacity", int64(w.Capacity))
	a.nonzero("quietSince", w.QuietSince)
	a.optional("quietedBy", w.QuietedBy)
	a.nonzero("goneAt", w.GoneAt)
	a.natural("instance", w.Instance)
	a.optional("account", w.Account)
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
