package osqueue

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	v1 "osqueue/client/api/v1"
	"osqueue/compat"
)

// A reply is an answer on a WebSocket: a result or an error.
type reply struct {
	ID     jsontext.Value `json:"id"`
	OK     bool           `json:"ok"`
	Result any            `json:"result,omitzero"`
	Error  *tagged        `json:"error,omitzero"`
}

// The methods of WebSockets.
const (
	methodSubmit    = "submitJob"
	methodClaim     = "claimJob"
	methodHeartbeat = "heartbeat"
	methodComplete  = "completeJob"
	methodStats     = "getStats"
	methodList      = "listJobs"
)

// isMethod reports whether a method with the name exists.
func isMethod(name string) bool {
	switch name {
	case methodSubmit, methodClaim, methodHeartbeat, methodComplete, methodStats, methodList:
		return true
	}
	return false
}

// The results of the methods.
type (
	accepted struct {
		JobID string `json:"jobId"`
	}
	claimed struct {
		JobID   string         `json:"jobId,omitzero"`
		Payload jsontext.Value `json:"payload,omitzero"`
		Type    string         `json:"type,omitzero"`
	}
	nothing struct{}
	figures struct {
		Total          int    `json:"total"`
		Unclaimed      int    `json:"unclaimed"`
		InProgress     int    `json:"inProgress"`
		CompletedTotal uint64 `json:"completedTotal"`
		BrokerAddress  string `json:"brokerAddress"`
	}
	listing struct {
		figures
		Jobs []listed `json:"jobs"`
	}
	listed struct {
		ID          string         `json:"id"`
		Status      string         `json:"status"`
		Payload     jsontext.Value `json:"payload,omitzero"`
		Type        string         `json:"type,omitzero"`
		WorkerID    *string        `json:"workerId,omitzero"`
		CreatedAt   int64          `json:"createdAt"`
		Attempts    int32          `json:"attempts"`
		MaxAttempts int32          `json:"maxAttempts"`
		Heartbeat   int64          `json:"heartbeat"`
	}
)

func figuresOf(s *v1.Stats) figures {
	return figures{s.Total, s.Unclaimed, s.InProgress, s.CompletedTotal, s.BrokerAddress}
}

func listingOf(l *v1.JobList) *listing {
	out := &listing{figures: figuresOf(&l.Stats), Jobs: make([]listed, len(l.Jobs))}
	for i := range l.Jobs {
		j := &l.Jobs[i]
		out.Jobs[i] = listed{j.ID, j.Status, jsontext.Value(j.Payload), j.Type, j.WorkerID, j.CreatedAt, j.Attempts, j.MaxAttempts, j.Heartbeat}
	}
	return out
}

// answerTo executes a message and returns the answer.
func (n *native) answerTo(c caller, m *message) []byte {
	if m.named && m.method == methodList {
		return n.listTo(c, m)
	}
	result, err := n.run(c, m)
	if err != nil {
		return refused(m, err)
	}
	answer, err := json.Marshal(&reply{ID: m.id, OK: true, Result: result}, compat.Lenient)
	if err != nil {
		return refusal(m.id, storageError, "the answer cannot be written")
	}
	return answer
}

// listTo answers with the list of jobs.
func (n *native) listTo(c caller, m *message) []byte {
	if err := checkShort(m); err != nil {
		return refused(m, err)
	}
	var answer appended
	err := n.list(c, func(list *heldList) error {
		defer list.held.Release()
		answer = make(appended, 0, list.size) // or else it grows in many steps
		return json.MarshalWrite(&answer, &reply{ID: m.id, OK: true, Result: listingOf(&list.JobList)}, compat.Lenient)
	})
	if err != nil {
		return refused(m, err)
	}
	return answer
}

// appended collects what is written to it. For a bytes.Buffer the encoder takes twice the memory.
type appended []byte

// Write implements io.Writer.
func (a *appended) Write(b []byte) (int, error) {
	*a = append(*a, b...)
	return len(b), nil
}

func refused(m *message, err error) []byte {
	f := faultOf(err)
	return refusal(m.id, meaningOf(f).tag, f.Detail)
}

// checkShort refuses a message whose names are too long together.
func checkShort(m *message) error {
	if size := len(m.params.Types) + len(m.params.WorkerID) + len(m.params.JobID); size > shortBytes {
		return refuse(v1.TagTooLarge, fmt.Sprintf("workerId, jobId and types are longer than %d bytes together", shortBytes))
	}
	return nil
}

// refusal returns an answer with an error.
func refusal(id jsontext.Value, tag, text string) []byte {
	answer, err := json.Marshal(&reply{ID: id, Error: &tagged{tag, text}}, compat.Lenient)
	if err != nil { // cannot happen: the id was decoded as JSON
		return refusal(null, tag, text)
	}
	return answer
}

// run executes a message other than that for the list.
func (n *native) run(c caller, m *message) (result any, err error) {
	if !m.named {
		return nil, unsupported(m)
	}
	if err := checkShort(m); err != nil {
		return nil, err
	}
	p := &m.params
	switch m.method {
	case methodSubmit:
		var out accepted
		out.JobID, err = n.submit(c, p.submission())
		return out, err
	case methodClaim:
		job, err := n.claim(c, nameOf(p.WorkerID, nameBytes), p.filter())
		if job == nil {
			return nothing{}, err
		}
		return claimed{job.JobID, jsontext.Value(job.Payload), job.Type}, err
	case methodHeartbeat:
		return nothing{}, n.heartbeat(c, nameOf(p.JobID, idMax), nameOf(p.WorkerID, nameBytes))
	case methodComplete:
		return nothing{}, n.complete(c, nameOf(p.JobID, idMax), nameOf(p.WorkerID, nameBytes))
	case methodStats:
		s, err := n.stats(c)
		return figuresOf(&s), err
	}
	return nil, unsupported(m)
}

func unsupported(m *message) error {
	return refuse(v1.TagBadRequest, "Unsupported WS method: "+m.method)
}
