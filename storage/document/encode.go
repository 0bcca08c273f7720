package document

import (
	"crypto/sha256"
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"osqueue/fsm"
)

// Encode returns the document with content c, for which Check must return nil. It writes
// the broker ("" for none) and its heartbeat into the fields of the legacy broker and into
// the header, and sets the header's fields that describe the state. The caller owns the result.
func Encode(c *Content, h Header, broker string, heartbeatMs int64) []byte {
	data, _ := AppendTo(nil, c, h, broker, heartbeatMs)
	return data
}

// AppendTo is like Encode, but appends to buf, which the caller may reuse. viewed reports
// whether the document shows the jobs.
func AppendTo(buf []byte, c *Content, h Header, broker string, heartbeatMs int64) (data []byte, viewed bool) {
	h.Address, h.Heartbeat = broker, heartbeatMs
	buf = appendBroker(buf, broker, heartbeatMs)
	if c.Jobs != nil {
		from := len(buf) + len(jobsKey)
		if buf, viewed = appendView(buf, c.Jobs, c.ViewMax); viewed {
			h.View = sha256.Sum256(buf[from:])
		}
	}
	buf = appendCompleted(buf, c.Meta.CompletedTotal)
	h.describe(&c.Meta, c.Counts)
	buf = appendMember(buf, "osqueue", &h)
	if a := c.Archive; a != nil {
		if a.Checkpoint != (Checkpoint{}) {
			buf = appendMember(buf, "checkpoint", &a.Checkpoint)
		}
		if len(a.Kept) > 0 {
			buf = appendMember(buf, "kept", a.Kept)
		}
		if len(a.Log) > 0 {
			buf = appendMember(buf, "log", a.Log)
		}
		buf = appendMember(buf, "tail", &a.Tail)
	}
	return append(buf, '}'), viewed
}

// EncodeLegacy returns state v as a document of the legacy broker. Jobs that wait for their
// time or for other jobs are available in it: the legacy broker has neither.
func EncodeLegacy(v *fsm.View) []byte {
	buf := appendBroker(nil, "", 0)
	buf = append(buf, jobsKey...)
	buf, _ = appendJobs(buf, func(fn func(*fsm.Job) bool) { v.List(fsm.Index{}, open, 0, fn) }, math.MaxInt)
	buf = appendCompleted(buf, v.Meta().CompletedTotal)
	return append(buf, '}')
}

// EncodeState returns what people see of state v: the fields of the legacy broker, and a
// header. It is not a document: nothing in it leads to the rest of the state.
func EncodeState(v *fsm.View) []byte {
	m := v.Meta()
	return Encode(
		&Content{Meta: m, Counts: v.Counts(), Jobs: v, ViewMax: math.MaxInt},
		Header{Lineage: m.Lineage, Cluster: m.Cluster, Epoch: m.Broker.Epoch, Node: m.Broker.Node},
		m.Broker.Address, m.Now)
}

// describe sets the fields that describe the state.
func (h *Header) describe(m *fsm.Meta, counts fsm.Counts) {
	h.Format, h.Level = Format, m.Level
	h.Term, h.Index = m.LSN.Term, m.LSN.Index
	h.Registered, h.Now, h.LastSeq, h.LastToken, h.Counts = m.Broker.Epoch, m.Now, m.LastSeq, m.Token, counts
}

func appendBroker(buf []byte, broker string, heartbeatMs int64) []byte {
	buf = append(buf, `{"broker":`...)
	if broker == "" {
		buf = append(buf, "null"...)
	} else {
		buf = append(buf, quoteText(broker)...)
	}
	return strconv.AppendInt(append(buf, `,"brokerHeartbeat":`...), heartbeatMs, 10)
}

func appendCompleted(buf []byte, total uint64) []byte {
	return strconv.AppendUint(append(buf, `,"completedTotal":`...), total, 10)
}

// appendMember appends a field after another one. Its value has a tag for each of its fields.
func appendMember(buf []byte, name string, value any) []byte {
	buf = append(append(buf, `,"`...), name...)
	return append(append(buf, `":`...), Marshal(value)...)
}

// quoteText returns the text as a JSON string. Text that is not UTF-8 gets replacement
// characters.
func quoteText(text string) []byte {
	quoted, _ := jsontext.AppendQuote(nil, text)
	return quoted
}
