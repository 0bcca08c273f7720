package document

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"osqueue/fsm"
	"osqueue/fsm/outbox"
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
	h.describe(c.Meta, c.Counts)
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
		Header{Lineage: m.Lineage, Cluster: m.Cluster, Epoch: m.Epoch, Node: m.BrokerNode},
		m.BrokerAddress, m.NowMs)
}

// describe sets the fields that describe the state.
func (h *Header) describe(m *fsm.Meta, counts fsm.Counts) {
	h.Format, h.Level = Format, m.Level
	h.Term, h.Index = m.LSN().Term, m.LSN().Index
	h.Registered, h.Now, h.LastSeq, h.LastToken, h.Counts = m.Epoch, m.NowMs, m.LastSeq, m.LastToken, counts
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

// copying leaves out the fields without a value: the names of the others tell enough.
var copying = json.JoinOptions(writing, json.OmitZeroStructFields(true))

// Records are the records of a cluster that are kept as a copy.
type Records struct {
	Settings  []*fsm.QueueSettings `json:"queues,omitempty"`
	Limits    []*fsm.Limit         `json:"limits,omitempty"`
	Schedules []*fsm.Cron          `json:"crons,omitempty"`
	Tokens    []*fsm.Token         `json:"tokens,omitempty"`
	Hooks     []*outbox.Hook       `json:"hooks,omitempty"`
	Requests  []*fsm.RequestRecord `json:"requests,omitempty"`
	Deleted   []string             `json:"deleted,omitempty"` // kind and name of records that the cluster has deleted
}

// Len returns the number of records.
func (r *Records) Len() int {
	return len(r.Settings) + len(r.Limits) + len(r.Schedules) + len(r.Tokens) + len(r.Hooks) + len(r.Requests) + len(r.Deleted)
}

// EncodeJobs returns jobs for people, with a text: the fields of the legacy broker, the result,
// and the whole record. Decode reads it as a legacy document.
func EncodeJobs(jobs []*fsm.Job, reason string) []byte {
	buf := appendText([]byte{'{'}, "reason", reason)
	buf = append(append(buf, jobsKey...), '[')
	for i, j := range jobs {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = appendJob(buf, j)
		buf = buf[:len(buf)-len("}")]
		if r := bytes.Trim(j.Execution().Result, whiteSpace); embeddable(r) {
			buf = append(append(buf, `,"result":`...), r...)
		}
		buf = append(appendMember(buf, "record", j), '}')
	}
	return append(buf, "]}"...)
}

// EncodeRecords returns records for people, with a text. Decode reads it as a legacy document
// without jobs.
func EncodeRecords(r *Records, reason string) []byte {
	text, err := json.Marshal(r, copying)
	if err != nil {
		panic(fmt.Sprintf("document: cannot encode records: %v", err)) // they have no such value
	}
	buf := append(appendText([]byte{'{'}, "reason", reason), `,"jobs":[]`...)
	if len(text) > len("{}") {
		buf = append(append(buf, ','), text[1:len(text)-1]...)
	}
	return append(buf, '}')
}
