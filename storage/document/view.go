package document

import (
	"bytes"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"osqueue/fsm"
)

// ViewMax is the largest size of the field jobs, bytes.
const ViewMax = 256 << 10

const jobsKey = `,"jobs":`

var (
	waiting = []fsm.Status{fsm.Unclaimed, fsm.InProgress}
	open    = []fsm.Status{fsm.Unclaimed, fsm.InProgress, fsm.Scheduled, fsm.Blocked}
)

// jobLeast is less than the bytes of any job without its payload.
const jobLeast = 60

// appendView appends the field jobs with the available and the running jobs of v in FIFO
// order, if it takes at most bytesMax bytes; otherwise it appends nothing. The work is
// proportional to bytesMax at most.
func appendView(buf []byte, v *fsm.View, bytesMax int) ([]byte, bool) {
	if !mayFit(v, bytesMax) {
		return buf, false
	}
	before := len(buf)
	buf = append(buf, jobsKey...)
	buf, fits := appendJobs(buf, func(fn func(*fsm.Job) bool) { v.List(fsm.Index{}, waiting, 0, fn) }, bytesMax)
	if !fits {
		return buf[:before], false
	}
	return buf, true
}

// mayFit reports whether a lower bound of the size of the jobs is at most bytesMax. It encodes
// nothing.
func mayFit(v *fsm.View, bytesMax int) bool {
	counts := v.Counts()
	jobs := counts[fsm.Unclaimed] + counts[fsm.InProgress]
	if jobs > bytesMax/jobLeast {
		return false
	}
	size := jobs * jobLeast
	v.List(fsm.Index{}, waiting, 0, func(j *fsm.Job) bool {
		size += len(j.Payload())
		return size <= bytesMax
	})
	return size <= bytesMax
}

// appendJobs appends an array of jobs. fits is false if it takes more than bytesMax bytes; the
// array is incomplete then.
func appendJobs(buf []byte, each func(func(*fsm.Job) bool), bytesMax int) (data []byte, fits bool) {
	from := len(buf)
	buf = append(buf, '[')
	each(func(j *fsm.Job) bool {
		if len(buf) > from+1 {
			buf = append(buf, ',')
		}
		buf = appendJob(buf, j)
		return len(buf)-from < bytesMax
	})
	buf = append(buf, ']')
	return buf, len(buf)-from <= bytesMax
}

// appendJob appends a job with the fields of the legacy broker. It leaves a payload out that
// is not JSON.
func appendJob(buf []byte, j *fsm.Job) []byte {
	buf = appendText(append(buf, '{'), "id", j.ID)
	status := j.Status
	if status == fsm.Scheduled || status == fsm.Blocked {
		status = fsm.Unclaimed
	}
	buf = appendText(append(buf, ','), "status", status.String())
	if p := bytes.Trim(j.Payload(), whiteSpace); embeddable(p) {
		buf = append(append(buf, `,"payload":`...), p...)
	}
	if j.Type != "" {
		buf = appendText(append(buf, ','), "type", j.Type)
	}
	buf = appendNumber(buf, "createdAt", j.CreatedAt)
	buf = appendNumber(buf, "attempts", int64(j.Attempts))
	if j.MaxAttempts != fsm.MaxAttemptsUnset {
		buf = appendNumber(buf, "maxAttempts", int64(j.MaxAttempts))
	}
	e := j.Execution()
	if e.Worker != "" && e.Worker != fsm.Anonymous || e.Worker == "" && j.Status == fsm.InProgress {
		buf = appendText(append(buf, ','), "workerId", e.Worker)
	}
	if e.Heartbeat != 0 || j.Status == fsm.InProgress {
		buf = appendNumber(buf, "heartbeat", e.Heartbeat)
	}
	return append(buf, '}')
}

func appendText(buf []byte, name, value string) []byte {
	buf = append(append(append(buf, '"'), name...), '"', ':')
	buf, _ = jsontext.AppendQuote(buf, value) // with replacement characters, if it is not UTF-8
	return buf
}

func appendNumber(buf []byte, name string, value int64) []byte {
	buf = append(append(append(buf, ',', '"'), name...), '"', ':')
	return strconv.AppendInt(buf, value, 10)
}

// maxDepth bounds the nesting of a payload that the document contains. Readers have limits
// (10 000 in this package), and the document nests a payload three levels deeper than the
// request that carried it.
const maxDepth = 9000

// whiteSpace is the white space that JSON allows around a value.
const whiteSpace = " \t\r\n"

// embeddable reports whether v, which is trimmed, is one JSON value that a reader of the
// document can read.
func embeddable(v []byte) bool {
	if len(v) == 0 || !utf8.Valid(v) || !jsontext.Value(v).IsValid(anyJSON...) {
		return false
	}
	nested := bytes.Count(v, []byte{'['}) + bytes.Count(v, []byte{'{'})
	return nested <= maxDepth || depth(v) <= maxDepth
}

// depth returns the nesting of a valid JSON value.
func depth(v []byte) int {
	dec := jsontext.NewDecoder(bytes.NewBuffer(v), anyJSON...)
	deepest := 0
	for {
		if _, err := dec.ReadToken(); err != nil {
			return deepest
		}
		deepest = max(deepest, dec.StackDepth())
	}
}
