package client

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	v1 "osqueue/api/v1"
)

// outcome is what one attempt brought.
type outcome struct {
	status  int         // 0: no answer
	header  http.Header // of the answer
	problem problem     // of an answer that is not 2xx
	sent    bool        // the request, or a part of it, left for the server
	err     error       // no answer, or one that cannot be read

	bucketLeft time.Duration // of the time that the write may wait for the bucket
}

// problem is the part of an error's body that matters here.
type problem struct {
	ours      bool // the body is an error of an osqueue node
	tag       string
	message   string
	committed Committed
	after     time.Duration // when a repetition makes sense; 0: it did not say
}

// verdict is what follows from an outcome.
type verdict struct {
	done    bool          // success
	again   bool          // a repetition may help
	unknown bool          // the write may have taken place
	moved   bool          // the server is not the one to ask; look for the leader
	after   time.Duration // not before; 0: it did not say
}

// judge decides about one attempt. It knows nothing of earlier ones.
func judge(o outcome, now time.Time) verdict {
	if o.err != nil {
		if errors.Is(o.err, errLarge) {
			return verdict{unknown: true}
		}
		return verdict{again: true, unknown: o.sent, moved: true}
	}
	switch {
	case o.status >= 200 && o.status < 300:
		return verdict{done: true}
	case o.status >= 300 && o.status < 400:
		return verdict{again: true, moved: true}
	case o.problem.ours && overQuota(o.problem.tag):
		return verdict{}
	case o.status < 500:
		return judgeRefusal(o, now)
	}
	return judgeFailure(o, now)
}

// judgeRefusal is for 4xx: the request is at fault, and did nothing, but for
// the statuses that are about the moment or the place.
func judgeRefusal(o outcome, now time.Time) verdict {
	v := verdict{unknown: o.problem.committed == CommittedUnknown}
	switch o.status {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusMisdirectedRequest:
		// Not from a node: something else listens there.
		v.again, v.moved = !o.problem.ours, !o.problem.ours
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		v.again = true
		v.after = o.retryAfter(now)
	}
	return v
}

// judgeFailure is for 5xx. What the node does not vouch for is unknown: the
// answer may come from something between it and us.
func judgeFailure(o outcome, now time.Time) verdict {
	v := verdict{unknown: !o.problem.ours || o.problem.committed == CommittedUnknown}
	v.after = o.retryAfter(now)
	switch o.status {
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
	case http.StatusInternalServerError:
		v.again = v.unknown
	case http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusGatewayTimeout:
		// No other node helps against a bucket that is behind.
		v.again, v.moved = true, o.problem.tag != v1.TagFlushLag
	default:
		v.again = true
	}
	return v
}

// retryAfterMax bounds what a server can make us wait.
const retryAfterMax = time.Minute

// retryAfter is when a repetition makes sense: what the problem says, or else
// the header of that name, in seconds or as a date.
func (o outcome) retryAfter(now time.Time) time.Duration {
	d := o.problem.after
	text := o.header.Get("Retry-After")
	if d > 0 || text == "" {
		return min(d, retryAfterMax)
	}
	if s, err := strconv.Atoi(text); err == nil {
		d = time.Duration(min(max(s, 0), int(retryAfterMax/time.Second))) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		d = at.Sub(now)
	}
	return min(max(d, 0), retryAfterMax)
}
