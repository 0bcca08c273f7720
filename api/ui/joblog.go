package ui

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	v1 "osqueue/client/api/v1"
)

const (
	// logPoll is how long one request of a live log waits, in ms. It bounds the time without a
	// byte on the stream.
	logPoll = 15_000
	// logWrite is how long the browser may take to accept a write.
	logWrite = 10 * time.Second
)

// jobLog streams what a running job writes as server-sent events: "log" with a LogChunk as data,
// and "end" when the job has ended. The id of an event is the position after it, so that a browser
// that reconnects gets nothing twice. A page that was hidden gives it in the query.
func jobLog(q *request) error {
	at := v1.JobLogs{}
	if given := cmp.Or(q.r.Header.Get(v1.HeaderLastEventID), q.r.URL.Query().Get(v1.ParamLastEventID)); given != "" {
		if _, err := fmt.Sscanf(given, "%d-%d", &at.Token, &at.Offset); err != nil {
			return &apiError{Status: http.StatusBadRequest, Title: "The position is not valid", Detail: "Reload the page."}
		}
	}
	wait := 0 // the first answer shows whether the caller may read the log
	for {
		next, err := q.logsAfter(&at, wait)
		switch {
		case err != nil && wait == 0:
			return err
		case err != nil:
			return nil //nolint:nilerr // the browser connects again
		case wait == 0 && !q.beginStream():
			return nil
		case !q.sendLogs(&at, next):
			return nil
		}
		at, wait = *next, logPoll
	}
}

// logsAfter asks for what follows a position.
func (q *request) logsAfter(at *v1.JobLogs, wait int) (*v1.JobLogs, error) {
	out := new(v1.JobLogs)
	values := url.Values{
		v1.ParamToken: {strconv.FormatUint(at.Token, 10)}, v1.ParamOffset: {strconv.FormatInt(at.Offset, 10)},
		v1.ParamWaitMs: {strconv.Itoa(wait)},
	}
	err := q.call(http.MethodGet, segment(v1.PathJobs, q.r.PathValue("id"), v1.ActionLogs), values, nil, out)
	return out, err
}

// beginStream sends the head of the stream.
func (q *request) beginStream() bool {
	h := q.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // proxies would hold lines back
	q.w.WriteHeader(http.StatusOK)
	return q.writeEvent("retry: 1000\n\n")
}

// sendLogs sends the chunks of an answer. It returns false if the stream ends.
func (q *request) sendLogs(at, next *v1.JobLogs) bool {
	for _, c := range next.Chunks {
		if !cutChunk(&c, at) {
			continue
		}
		data, err := json.Marshal(c)
		if err != nil || !q.writeEvent(fmt.Sprintf("event: log\nid: %d-%d\ndata: %s\n\n", c.Token, c.Offset+c.Bytes, data)) {
			return false
		}
		at.Token, at.Offset = c.Token, c.Offset+c.Bytes
	}
	switch next.Status {
	case v1.StatusCompleted, v1.StatusDead, v1.StatusCancelled, v1.StatusExpired:
		q.writeEvent("event: end\ndata: " + next.Status + "\n\n")
		return false
	}
	return len(next.Chunks) > 0 || q.writeEvent(": keep-alive\n\n")
}

// cutChunk removes from a chunk what the browser has, which a new leader repeats. It returns false if
// nothing is left, and for an encrypted text, which cannot be cut.
func cutChunk(c *v1.LogChunk, at *v1.JobLogs) (left bool) {
	if c.Token != at.Token {
		return c.Token > at.Token
	}
	had := at.Offset - c.Offset
	if had <= 0 {
		return true
	}
	if had >= c.Bytes || int64(len(c.Text)) != c.Bytes {
		return false
	}
	c.Text, c.Offset, c.Bytes = c.Text[had:], c.Offset+had, c.Bytes-had
	return true
}

// writeEvent sends one event. It returns false if the browser has gone, or is too slow.
func (q *request) writeEvent(text string) bool {
	rc := http.NewResponseController(q.w)
	// The deadline of the server is meant for answers that end. Not every ResponseWriter has one.
	_ = rc.SetWriteDeadline(time.Now().Add(logWrite))
	if _, err := q.w.Write([]byte(text)); err != nil {
		return false
	}
	err := rc.Flush()
	return err == nil || errors.Is(err, http.ErrNotSupported)
}
