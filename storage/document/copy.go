package document

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json"

	"osqueue/fsm"
	"osqueue/fsm/outbox"
)

// copying leaves out the fields without a value: the names of the others tell enough.
var copying = json.JoinOptions(writing, json.OmitZeroStructFields(true))

// Records are the records of a cluster that are kept as a copy.
type Records struct {
	Settings  []*fsm.QueueSettings `json:"queues,omitempty"`
	Schedules []*fsm.Cron          `json:"crons,omitempty"`
	Tokens    []*fsm.Token         `json:"tokens,omitempty"`
	Hooks     []*outbox.Hook       `json:"hooks,omitempty"`
	Requests  []*fsm.RequestRecord `json:"requests,omitempty"`
	Deleted   []string             `json:"deleted,omitempty"` // kind and name of records that the cluster has deleted
}

// Len returns the number of records.
func (r *Records) Len() int {
	return len(r.Settings) + len(r.Schedules) + len(r.Tokens) + len(r.Hooks) + len(r.Requests) + len(r.Deleted)
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
