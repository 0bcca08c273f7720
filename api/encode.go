package api

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"osqueue/fsm"
)

// Answers on the hot path, and those with opaque JSON in them, are written
// here member by member. The tests hold them against the types of package v1.

// key begins a member of an object.
func key(b []byte, name string) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	b = append(b, '"')
	b = append(b, name...)
	return append(b, '"', ':')
}

// text appends a member. Bytes that are not UTF-8 become U+FFFD.
func text(b []byte, name, value string) []byte {
	b, _ = jsontext.AppendQuote(key(b, name), value)
	return b
}

func number(b []byte, name string, value int64) []byte {
	return strconv.AppendInt(key(b, name), value, 10)
}

// textIf, numberIf and opaqueIf leave a member out when it has no value.
func textIf(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	return text(b, name, value)
}

func numberIf(b []byte, name string, value int64) []byte {
	if value == 0 {
		return b
	}
	return number(b, name, value)
}

func opaqueIf(b []byte, name string, value []byte) []byte {
	if len(value) == 0 {
		return b
	}
	return append(key(b, name), value...)
}

// lsnText appends an LSN as a member.
func lsnText(b []byte, lsn fsm.LSN) []byte {
	b = append(key(b, "lsn"), '"')
	b = strconv.AppendUint(b, lsn.Term, 10)
	b = append(b, '-')
	b = strconv.AppendUint(b, lsn.Index, 10)
	return append(b, '"')
}

// appendClaimed appends the members of a v1.ClaimedJob, without the end of the
// object.
func appendClaimed(b []byte, j *fsm.Job) []byte {
	b = append(b, '{')
	b = text(b, "jobId", j.ID)
	b = textIf(b, "type", j.Type)
	b = opaqueIf(b, "payload", j.Payload)
	b = numberIf(b, "priority", int64(j.Priority))
	b = number(b, "attempts", int64(j.Attempts))
	if j.MaxAttempts != fsm.MaxAttemptsUnset {
		b = number(b, "maxAttempts", int64(j.MaxAttempts))
	}
	b = strconv.AppendUint(key(b, "token"), j.Token, 10)
	b = number(b, "leaseMs", j.HeldMs)
	return number(b, "createdAt", j.CreatedAt)
}

// appendJob appends a v1.Job.
func appendJob(b []byte, j *fsm.Job) []byte {
	b = append(b, '{')
	b = text(b, "id", j.ID)
	b = text(b, "status", j.Status.String())
	b = opaqueIf(b, "payload", j.Payload)
	b = textIf(b, "type", j.Type)
	if showsWorker(j) {
		b = text(b, "workerId", j.Worker)
	}
	b = number(b, "createdAt", j.CreatedAt)
	b = number(b, "attempts", int64(j.Attempts))
	b = number(b, "maxAttempts", max(int64(j.MaxAttempts), 0))
	b = number(b, "heartbeat", j.Heartbeat)
	b = numberIf(b, "priority", int64(j.Priority))
	b = numberIf(b, "runAt", j.RunAt)
	b = numberIf(b, "claimedAt", j.ClaimedAt)
	b = numberIf(b, "finishedAt", j.FinishedAt)
	b = numberIf(b, "leaseMs", leaseShown(j))
	if j.Token != 0 {
		b = strconv.AppendUint(key(b, "token"), j.Token, 10)
	}
	b = opaqueIf(b, "result", j.Result)
	b = textIf(b, "lastError", j.LastError)
	return append(b, '}')
}

// showsWorker tells a worker named "" from no worker.
func showsWorker(j *fsm.Job) bool {
	if j.Worker == fsm.Anonymous {
		return false
	}
	return j.Worker != "" || j.Status == fsm.InProgress
}

func leaseShown(j *fsm.Job) int64 {
	if j.Status == fsm.InProgress {
		return j.HeldMs
	}
	return j.LeaseMs
}

// item appends number i of a list of texts.
func item(b []byte, i int, value string) []byte {
	if i > 0 {
		b = append(b, ',')
	}
	b, _ = jsontext.AppendQuote(b, value)
	return b
}
