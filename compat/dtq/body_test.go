package dtq

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestDecode(t *testing.T) {
	in, err := decode([]byte(` {"task_type":"t","payload":{"b":1,"a":[ ]},"worker_id":7,"task_id":"x","max":5,"payload":{"n": 2}}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		got  jsontext.Value
		want string
	}{
		"task_type": {in.TaskType, `"t"`}, "payload": {in.Payload, `{"n": 2}`}, "worker_id": {in.WorkerID, `7`},
		"task_id": {in.TaskID, `"x"`}, "result": {in.Result, `null`}, "type": {in.Type, `null`},
	} {
		if string(c.got) != c.want {
			t.Errorf("%s is %s, want %s", name, c.got, c.want)
		}
	}
	if in, err := decode([]byte("\ufeff{\"payload\":1}")); err != nil || string(in.Payload) != "1" {
		t.Errorf("after a byte order mark: %+v, %v", in, err)
	}
	for _, bad := range []string{"\ufeff", "\ufeff\ufeff{}", "", " ", `{"a":`, "null", "[]", `"x"`, "7", "{} {}", "{}x", "{\"a\":\"\xff\"}", `{a:1}`, `{"payload":NaN}`} {
		if in, err := decode([]byte(bad)); err == nil {
			t.Errorf("%q was read as %+v", bad, in)
		}
	}
}

func TestContentTypes(t *testing.T) {
	for given, want := range map[string]bool{
		"application/json": true, "Application/JSON; charset=utf-8": true, "application/vnd.x+json": true,
		"application/json; broken": true,
		"":                         false, "text/plain": false, "text/json": false, "application/jsonx": false, "x/y+json": false, "application/": false,
	} {
		if isJSON(given) != want {
			t.Errorf("%q: %v", given, !want)
		}
	}
}

func TestRead(t *testing.T) {
	for name, c := range map[string]struct {
		media, body string
		status      int
	}{
		"fine":      {"application/json", `{"a":1}`, 0},
		"at most":   {"application/json", `{"a":"` + strings.Repeat("x", 12) + `"}`, 0},
		"too large": {"application/json", `{"a":"` + strings.Repeat("x", 13) + `"}`, http.StatusRequestEntityTooLarge},
		"no type":   {"", `{}`, http.StatusBadRequest},
		"text":      {"text/plain", `{}`, http.StatusBadRequest},
		"no body":   {"application/json", ``, http.StatusBadRequest},
		"null":      {"application/json", `null`, http.StatusBadRequest},
	} {
		r := httptest.NewRequest(http.MethodPost, "/submit_task", strings.NewReader(c.body))
		r.Header.Set("Content-Type", c.media)
		in, refused := (&call{w: httptest.NewRecorder(), r: r, max: 20}).read()
		switch {
		case c.status == 0 && (in == nil || refused != nil):
			t.Errorf("%s: %+v", name, refused)
		case c.status != 0 && (in != nil || refused == nil || refused.status != c.status):
			t.Errorf("%s: %+v, %+v", name, in, refused)
		}
	}
}

// A decoded body is JSON and can be encoded in an answer, with its fields in order.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{`{}`, `{"payload":{"b":1,"a":2}}`, `{"payload":1,"payload":2}`, `{"payload":"\ud800"}`, `null`, `{"result":[{}]} `, `{"worker_id":{"a":{"b":null}}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		in, err := decode(data)
		if err != nil {
			if in != nil {
				t.Fatalf("%q: %+v and %v", data, in, err)
			}
			return
		}
		for _, v := range []jsontext.Value{in.TaskType, in.Payload, in.TaskID, in.Result, in.WorkerID, in.Type, in.Candidate, in.Leader} {
			if !v.IsValid(lenient) {
				t.Fatalf("%q: the member %q is not JSON", data, v)
			}
		}
		a := jsonReply(http.StatusOK, task{Payload: in.Payload, Result: in.Result, TaskType: taskTypeOf(typeOf(in.TaskType)), WorkerID: valueOf(nameOf(in.WorkerID))})
		if a.status != http.StatusOK || !jsontext.Value(a.body).IsValid(lenient) || !bytes.Contains(a.body, []byte(`"payload":`)) {
			t.Fatalf("%q is answered as %d %s", data, a.status, a.body)
		}
	})
}
