package needs

import (
	"encoding/base64"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"regexp"
	"strings"

	"osqueue/tests/replay/transcript"
)

// The clients, by their transports.
const (
	REST       = "rest"
	WS         = "ws"
	Connect    = "connect"
	ConnectWeb = "connect-web"
)

// The calls of a client.
const (
	Submit    = "submitJob"
	Claim     = "claimJob"
	Heartbeat = "heartbeat"
	Complete  = "completeJob"
	Stats     = "getStats"
	List      = "listJobs"
)

// Answer is a server's answer to a call: Status, ContentType and Body, or Frames on a
// WebSocket. If Closed is set, the end of the connection is the last frame.
type Answer struct {
	Status      int
	ContentType string
	Body        []byte
	ID          string // of the request on the WebSocket
	Frames      [][]byte
	Closed      bool
}

// Check returns nil if a call resolves with that answer, and otherwise the reason why it
// throws.
func Check(client, method string, a Answer) error {
	switch client {
	case REST:
		return rest(method, a)
	case WS:
		return ws(method, a)
	case Connect:
		return connect(method, a, "application/proto", transcript.DecodeMessage)
	case ConnectWeb:
		return connect(method, a, "application/json", transcript.ReadMessageJSON)
	default:
		return fmt.Errorf("the client %q is not known", client)
	}
}

func rest(method string, a Answer) error {
	if a.Status < 200 || a.Status > 299 {
		return fmt.Errorf("status %d: %.100s", a.Status, a.Body)
	}
	if a.Status == http.StatusNoContent {
		if method == Heartbeat || method == Complete {
			return nil
		}
		return errors.New("status 204 has no value to read from")
	}
	v, err := transcript.Decode(a.Body)
	if err != nil {
		return fmt.Errorf("%q is no JSON: %w", a.Body, err)
	}
	return value(method, v)
}

// value checks the JSON value of an answer. The rules are the same for REST and WebSocket.
func value(method string, v any) error {
	if method == Heartbeat || method == Complete {
		return nil // which is not looked at
	}
	if v == nil {
		return errors.New("the value is null")
	}
	if method != List {
		return nil
	}
	object, _ := v.(map[string]any)
	jobs, ok := object["jobs"].([]any)
	if !ok {
		return errors.New("jobs is no array")
	}
	for i, j := range jobs {
		job, ok := j.(map[string]any)
		if !ok {
			return fmt.Errorf("jobs[%d] is no object", i)
		}
		for _, name := range []string{"createdAt", "heartbeat"} {
			if !isBigInt(job[name]) {
				return fmt.Errorf("jobs[%d].%s is %s, which is no integer", i, name, transcript.Encode(job[name]))
			}
		}
	}
	return nil
}

var integer = regexp.MustCompile(`^-?\d+$`)

// isBigInt reports whether JavaScript decodes the value as a BigInt.
func isBigInt(v any) bool {
	switch v := v.(type) {
	case transcript.Number:
		return integer.MatchString(string(v))
	case string:
		return integer.MatchString(v)
	case bool:
		return true
	default:
		return false
	}
}

func ws(method string, a Answer) error {
	for _, frame := range a.Frames {
		v, err := transcript.Decode(frame)
		if err != nil {
			continue // not JSON: ignored
		}
		message, ok := v.(map[string]any)
		if !ok || !isID(message["id"], a.ID) {
			continue
		}
		if !truthy(message["ok"]) {
			return fmt.Errorf("ok is %s: %s", transcript.Encode(message["ok"]), transcript.Encode(message["error"]))
		}
		return value(method, message["result"])
	}
	if a.Closed {
		return errors.New("the connection was closed")
	}
	return errors.New("no frame has the id of the request: it times out")
}

func isID(v any, id string) bool {
	switch v := v.(type) {
	case string:
		return v == id
	case transcript.Number:
		return string(v) == id
	default:
		return false
	}
}

func truthy(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case string:
		return v != ""
	case transcript.Number:
		return strings.Trim(string(v), "-0.eE+") != ""
	default:
		return true
	}
}

// responses are the messages that answer the calls.
var responses = map[string]string{
	Submit: "SubmitJobResponse", Claim: "ClaimJobResponse", Heartbeat: "HeartbeatResponse",
	Complete: "CompleteJobResponse", Stats: "GetStatsResponse", List: "ListJobsResponse",
}

func connect(method string, a Answer, mediaType string, decode func(string, []byte) (any, error)) error {
	if a.Status != http.StatusOK {
		return fmt.Errorf("status %d: %.100s", a.Status, a.Body)
	}
	if got, _, err := mime.ParseMediaType(a.ContentType); err != nil || got != mediaType {
		return fmt.Errorf("the content-type is %q and not %s", a.ContentType, mediaType)
	}
	v, err := decode(responses[method], a.Body)
	if err != nil || method != Claim {
		return err
	}
	return payload(v)
}

// payload checks the payload of a claimed job.
func payload(v any) error {
	fields, _ := v.(map[string]any)
	text, there := fields["payload"].(string)
	if fields["jobId"] == nil || !there || text == "" {
		return nil
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return err
	}
	if _, err := transcript.Decode(data); err != nil {
		return fmt.Errorf("the payload %q is no JSON: %w", data, err)
	}
	return nil
}
