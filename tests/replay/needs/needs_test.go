package needs

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"osqueue/tests/replay/transcript"
)

// httpAnswer and frame are the server's answers in the recorded cases.
type httpAnswer struct {
	Status     int
	Headers    map[string]string
	Body       json.RawMessage
	BodyText   *string
	BodyBase64 *string
}

type frame struct {
	Message json.RawMessage
	Text    *string
	Binary  bool
	Close   int
}

const id = "1"

func recordedAnswer(t *testing.T, r *transcript.ClientRequest) Answer {
	t.Helper()
	if r.Client == WS {
		return recordedFrames(t, r)
	}
	var in httpAnswer
	read(t, r.ServerAnswers, &in)
	a := Answer{Status: in.Status, ContentType: in.Headers["content-type"], Body: in.Body}
	switch {
	case in.BodyText != nil:
		a.Body = []byte(*in.BodyText)
	case in.BodyBase64 != nil:
		data, err := base64.StdEncoding.DecodeString(*in.BodyBase64)
		if err != nil {
			t.Fatal(err)
		}
		a.Body = data
	}
	return a
}

func recordedFrames(t *testing.T, r *transcript.ClientRequest) Answer {
	t.Helper()
	var in []frame
	read(t, r.ServerAnswers, &in)
	a := Answer{ID: id}
	for _, f := range in {
		switch {
		case f.Close != 0:
			a.Closed = true
		case f.Text != nil:
			a.Frames = append(a.Frames, []byte(*f.Text))
		default:
			text := strings.NewReplacer(`"$idNumber"`, id, `"$id"`, `"`+id+`"`).Replace(string(f.Message))
			a.Frames = append(a.Frames, []byte(text))
		}
	}
	return a
}

func read(t *testing.T, data []byte, into any) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(string(data)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
}

// TestRecordedNeeds compares the rules with the real client's result for each answer.
func TestRecordedNeeds(t *testing.T) {
	files, err := transcript.Recordings("../../../compat")
	if err != nil {
		t.Fatal(err)
	}
	f := files[slices.IndexFunc(files, func(f transcript.File) bool { return f.Name == "osqueue/client_needs.json" })]
	seen := make(map[string]int)
	for _, c := range f.Cases {
		r := c.ClientRequest
		err := Check(r.Client, r.Method, recordedAnswer(t, r))
		if got := map[bool]string{true: "resolves", false: "throws"}[err == nil]; got != c.ClientResponse.Outcome {
			t.Errorf("%s: %s (%v), recorded is %s", c.Name, got, err, c.ClientResponse.Outcome)
		}
		seen[r.Client+" "+c.ClientResponse.Outcome]++
	}
	for _, client := range []string{REST, WS, Connect, ConnectWeb} {
		for _, outcome := range []string{"resolves", "throws"} {
			if seen[client+" "+outcome] == 0 {
				t.Errorf("no case in which %s %s", client, outcome)
			}
		}
	}
}

// TestNeeds checks answers that were not recorded.
func TestNeeds(t *testing.T) {
	body := func(text string) Answer {
		return Answer{Status: 200, ContentType: "application/json", Body: []byte(text)}
	}
	frames := func(all ...string) Answer {
		a := Answer{ID: id}
		for _, f := range all {
			a.Frames = append(a.Frames, []byte(f))
		}
		return a
	}
	for _, c := range []struct {
		client, method string
		a              Answer
		resolves       bool
	}{
		{REST, Claim, body(`{}`), true},
		{REST, Claim, body(`null`), false},
		{REST, List, body(`{"jobs":[]}`), true},
		{REST, List, body(`{"jobs":[{"createdAt":1,"heartbeat":"2"}]}`), true},
		{REST, List, body(`{"jobs":[{"createdAt":1,"heartbeat":null}]}`), false},
		{REST, List, body(`{"jobs":[null]}`), false},
		{REST, Stats, Answer{Status: 302}, false},
		{WS, Heartbeat, frames(`{"id":"1","ok":true}`), true},
		{WS, Heartbeat, frames(`{"id":"1","ok":0}`), false},
		{WS, Heartbeat, frames(`{"id":"1","ok":""}`), false},
		{WS, Heartbeat, frames(`{"id":"1"}`), false},
		{WS, Heartbeat, frames(`{"id":true,"ok":true}`, `[1]`), false},
		{WS, List, frames(`{"id":1,"ok":true,"result":{"jobs":[{"createdAt":1.5,"heartbeat":0}]}}`), false},
		{ConnectWeb, Claim, body(`{"jobId":"j","payload":"eyI="}`), false},
		{ConnectWeb, Stats, body(`{"total":"x"}`), false},
		{Connect, Stats, Answer{Status: 200, ContentType: "application/proto", Body: []byte{8}}, false},
		{"telnet", Stats, body(`{}`), false},
	} {
		if err := Check(c.client, c.method, c.a); (err == nil) != c.resolves {
			t.Errorf("%s %s, %s %q: %v", c.client, c.method, c.a.Body, c.a.Frames, err)
		}
	}
}
