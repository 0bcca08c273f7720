package transcript

import (
	"net/http"
	"slices"
	"strings"
)

// The fields that the recorded systems know, at the places of an answer where the native
// interface may have more. The clients skip other fields there.
var (
	knownAnswer = []string{
		"jobId", "payload", "type",
		"total", "unclaimed", "inProgress", "completedTotal", "brokerAddress", "jobs",
		"broker", "brokerHeartbeat",
	}
	knownJob = []string{
		"id", "status", "payload", "type", "workerId", "createdAt", "attempts", "maxAttempts", "heartbeat",
	}
	knownStatus = []string{
		"node_id", "state", "term", "leader", "log_length", "commit_index", "tasks", "workers",
	}
	knownTasks = []string{"total", "pending", "processing", "completed"}
	knownError = []string{"message", "error", "statusCode"} // an untagged one may get a tag
)

// The routes of older systems that are also native routes.
const (
	routeStatus = "/status"
	routeState  = "/state"
	routeHealth = "/healthz"
	nativeRoot  = "/v1/"
)

// superset returns a function that reports the fields that an answer may have in addition to
// the recorded ones; nil means none.
func superset(r *HTTPRequest, recorded *HTTPResponse) func(string, string) bool {
	switch {
	case recorded.Proto != nil || strings.HasPrefix(r.Path, "/"+protoPackage+".") && recorded.Status != http.StatusNotFound:
		return nil
	case recorded.Status >= http.StatusBadRequest && isTagged(recorded):
		return func(at, name string) bool { return at == top && !slices.Contains(knownError, name) }
	case recorded.Status >= http.StatusBadRequest:
		return nil
	case r.Path == routeStatus:
		return places(map[string][]string{"$": knownStatus, "$.tasks": knownTasks})
	case r.Path == routeState, r.Path == routeHealth, strings.HasPrefix(r.Path, nativeRoot):
		return places(map[string][]string{"$": knownAnswer, "$.jobs[*]": knownJob})
	default:
		return nil
	}
}

// isTagged reports whether an error is one of osqueue, which is also native, and not of dtq.
func isTagged(recorded *HTTPResponse) bool {
	v, err := Decode(recorded.Body)
	if err != nil {
		return false
	}
	object, _ := v.(map[string]any)
	return object["_tag"] != nil || object["statusCode"] != nil
}

// places allows unknown fields at some places.
func places(known map[string][]string) func(string, string) bool {
	return func(at, name string) bool {
		names, ok := known[every(at)]
		return ok && !slices.Contains(names, name)
	}
}
