package client

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	v1 "osqueue/client/api/v1"
)

// outcome is the result of one attempt.
type outcome struct {
	status  int     // HTTP status; 0: no answer
	problem problem // the problem of an answer that is not 2xx
	sent    bool    // at least a part of the request was sent
	err     error   // set if there is no answer or an unreadable one

	lsn, committed, retry string // the headers Osqueue-LSN, Osqueue-Committed and Retry-After of the answer

	bucketLeft time.Duration // the rest of the time that the write may wait for the bucket
}

// problem has the fields of an error body that the client uses.
type problem struct {
	ours      bool // the body is an error of an osqueue node
	wantsTLS  bool // the server speaks TLS
	tag       string
	message   string
	committed Committed
	after     time.Duration // when to repeat the call; 0: unknown
}

// verdict is the decision that follows from an outcome.
type verdict struct {
	done    bool          // success
	again   bool          // a repetition may help
	unknown bool          // the write may have taken place
	moved   bool          // the server does not lead; look for the leader
	after   time.Duration // the shortest pause before a repetition; 0: unknown
}

// judge decides on one attempt, without regard to earlier ones.
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
	case !o.problem.ours:
		return judgeStranger(o, now)
	case overQuota(o.problem.tag):
		return verdict{}
	case o.status < 500:
		return judgeRefusal(o, now)
	}
	return judgeFailure(o, now)
}

// judgeStranger decides on an answer that does not come from a node, but from a proxy or from another
// program. It proves nothing about the request, whatever its status: the next attempt may meet a node.
// A server that asks for TLS is a mistake in the configuration.
func judgeStranger(o outcome, now time.Time) verdict {
	if o.problem.wantsTLS {
		return verdict{}
	}
	return verdict{again: true, moved: true, unknown: true, after: o.retryAfter(now)}
}

// judgeRefusal decides on 4xx: the request is wrong and did nothing. Statuses such
// as 408 and 429 are exceptions, which depend on the time or the node.
func judgeRefusal(o outcome, now time.Time) verdict {
	v := verdict{unknown: o.problem.committed == CommittedUnknown}
	switch o.status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		v.again = true
		v.after = o.retryAfter(now)
	}
	return v
}

// judgeFailure decides on 5xx of a node.
func judgeFailure(o outcome, now time.Time) verdict {
	v := verdict{unknown: o.problem.committed == CommittedUnknown, after: o.retryAfter(now)}
	switch o.status {
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
	case http.StatusInternalServerError:
		v.again = v.unknown
	case http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusGatewayTimeout:
		// Another node cannot help when the bucket is behind.
		v.again, v.moved = true, o.problem.tag != v1.TagFlushLag
	default:
		v.again = true
	}
	return v
}

// retryAfterMax is the longest pause that a server can ask for.
const retryAfterMax = time.Minute

// retryAfter returns the pause that the answer asks for: from the problem, or else
// from the Retry-After header, in seconds or as a date.
func (o outcome) retryAfter(now time.Time) time.Duration {
	d := o.problem.after
	text := o.retry
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
