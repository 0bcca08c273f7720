package transcript

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// one returns the only case of a text.
func one(t *testing.T, text string) *Case {
	t.Helper()
	cases, err := Load([]byte("[" + text + "]"))
	if err != nil {
		t.Fatal(err)
	}
	return &cases[0]
}

// answer returns one with a status, headers as "name: value" and a body.
func answer(status int, body string, headers ...string) Answer {
	a := Answer{Status: status, Header: http.Header{}, Body: []byte(body)}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		a.Header.Add(name, value)
	}
	return a
}

// TestCheckHTTP passes correct and wrong answers to every check.
func TestCheckHTTP(t *testing.T) {
	vars := Vars{"id": "j-1", "n": Number("41")}
	for _, c := range []struct {
		name     string
		response string
		rules    string
		answer   Answer
		where    string // of the difference; "" for none
	}{
		{"status", `"status":200`, ``, answer(200, ""), ""},
		{"wrong status", `"status":200`, ``, answer(201, ""), "status"},
		{"another status", `"status":500,"statusAlso":[400,413]`, ``, answer(413, ""), ""},
		{"none of the statuses", `"status":500,"statusAlso":[400,413]`, ``, answer(415, ""), "status"},

		{"header", `"status":200,"headers":{"x-a":"1"}`, ``, answer(200, "", "X-A: 1", "X-B: 2"), ""},
		{"header missing", `"status":200,"headers":{"x-a":"1"}`, ``, answer(200, ""), "header x-a"},
		{"header wrong", `"status":200,"headers":{"x-a":"1"}`, ``, answer(200, "", "X-A: 2"), "header x-a"},
		{"header twice", `"status":200,"headers":{"x-a":"1"}`, ``, answer(200, "", "X-A: 1", "X-A: 1"), "header x-a"},
		{"header of the transport", `"status":200,"headers":{"date":"1","content-encoding":"gzip"}`, ``, answer(200, ""), ""},
		{"header absent", `"status":200,"headersAbsent":["x-a"]`, ``, answer(200, "", "X-B: 1"), ""},
		{"header not absent", `"status":200,"headersAbsent":["x-a"]`, ``, answer(200, "", "X-A: 1"), "header x-a"},
		{"media type", `"status":200,"headers":{"content-type":"application/json"}`, ``, answer(200, "", "Content-Type: application/json; charset=UTF-8"), ""},
		{"other media type", `"status":200,"headers":{"content-type":"application/json"}`, ``, answer(200, "", "Content-Type: application/problem+json"), "header content-type"},
		{"no charset", `"status":200,"headers":{"content-type":"application/json; charset=utf-8"}`, ``, answer(200, "", "Content-Type: application/json"), "header content-type"},
		{"other charset", `"status":200,"headers":{"content-type":"application/json"}`, ``, answer(200, "", "Content-Type: application/json; charset=latin1"), "header content-type"},
		{"list with more", `"status":200,"headers":{"vary":"Origin"}`, ``, answer(200, "", "Vary: Accept-Encoding", "Vary: origin"), ""},
		{"list without", `"status":200,"headers":{"vary":"Origin"}`, ``, answer(200, "", "Vary: Accept-Encoding"), "header vary"},
		{"list in any order", `"status":200,"headers":{"allow":"POST, OPTIONS"}`, ``, answer(200, "", "Allow: OPTIONS,POST"), ""},
		{"list with too much", `"status":200,"headers":{"allow":"POST, OPTIONS"}`, ``, answer(200, "", "Allow: OPTIONS,POST,GET"), "header allow"},

		{"text", `"status":200,"bodyText":"a"`, ``, answer(200, "a"), ""},
		{"other text", `"status":200,"bodyText":"a"`, ``, answer(200, "b"), "body"},
		{"text where there is none", `"status":204,"bodyText":""`, ``, answer(204, "{}"), "body"},
		{"soft text", `"status":200,"bodyText":"a"`, `"soft":["$text"]`, answer(200, "b"), ""},
		{"bytes", `"status":200,"bodyBase64":"YQ=="`, ``, answer(200, "a"), ""},
		{"other bytes", `"status":200,"bodyBase64":"YQ=="`, ``, answer(200, "b"), "body"},

		{"order", `"status":200,"body":{"a":1,"b":[2]}`, ``, answer(200, `{"b":[2],"a":1}`), ""},
		{"number written otherwise", `"status":200,"body":[10,0.5]`, ``, answer(200, `[1.0e1,5E-1]`), ""},
		{"number that a float cannot tell", `"status":200,"body":9007199254740993`, ``, answer(200, `9007199254740992`), "$"},
		{"no JSON", `"status":200,"body":{}`, ``, answer(200, `{`), "body"},
		{"more than JSON", `"status":200,"body":{}`, ``, answer(200, `{}{}`), "body"},
		{"a name twice", `"status":200,"body":{"a":1}`, ``, answer(200, `{"a":1,"a":1}`), "body"},
		{"no body", `"status":200,"body":{}`, ``, answer(200, ``), "body"},
		{"value", `"status":200,"body":{"a":"x"}`, ``, answer(200, `{"a":"y"}`), "$.a"},
		{"number as text", `"status":200,"body":{"a":1}`, ``, answer(200, `{"a":"1"}`), "$.a"},
		{"null for absent", `"status":200,"body":{"a":1}`, ``, answer(200, `{"a":1,"b":null}`), "$.b"},
		{"absent for null", `"status":200,"body":{"a":null}`, ``, answer(200, `{}`), "$.a"},
		{"elements", `"status":200,"body":[1,2]`, ``, answer(200, `[2,1]`), "$[0]"},
		{"number of elements", `"status":200,"body":[1]`, ``, answer(200, `[1,2]`), "$"},
		{"deep", `"status":200,"body":{"a":[{"b":false}]}`, ``, answer(200, `{"a":[{"b":true}]}`), "$.a[0].b"},
		{"object for array", `"status":200,"body":[]`, ``, answer(200, `{}`), "$"},

		{"volatile", `"status":200,"body":{"a":1}`, `"volatile":["$.a"]`, answer(200, `{"a":2}`), ""},
		{"volatile of another type", `"status":200,"body":{"a":1}`, `"volatile":["$.a"]`, answer(200, `{"a":"2"}`), "$.a"},
		{"volatile and missing", `"status":200,"body":{"a":1}`, `"volatile":["$.a"]`, answer(200, `{}`), "$.a"},
		{"volatile elements", `"status":200,"body":[{"a":1},{"a":2}]`, `"volatile":["$[*].a"]`, answer(200, `[{"a":3},{"a":4}]`), ""},
		{"soft", `"status":200,"body":{"a":"x"}`, `"soft":["$.a"]`, answer(200, `{"a":"y"}`), ""},
		{"soft and no text", `"status":200,"body":{"a":"x"}`, `"soft":["$.a"]`, answer(200, `{"a":null}`), "$.a"},
		{"optional and there", `"status":200,"body":{"a":1}`, `"optional":["$.a"]`, answer(200, `{"a":1}`), ""},
		{"optional and missing", `"status":200,"body":{"a":1}`, `"optional":["$.a"]`, answer(200, `{}`), ""},
		{"optional and wrong", `"status":200,"body":{"a":1}`, `"optional":["$.a"]`, answer(200, `{"a":2}`), "$.a"},
		{"optional, not recorded", `"status":200,"body":{}`, `"optional":["$.a"]`, answer(200, `{"a":2}`), ""},

		{"reference", `"status":200,"body":{"a":"x"}`, `"refs":{"$.a":"$id"}`, answer(200, `{"a":"j-1"}`), ""},
		{"wrong reference", `"status":200,"body":{"a":"x"}`, `"refs":{"$.a":"$id"}`, answer(200, `{"a":"x"}`), "$.a"},
		{"reference and more", `"status":200,"body":{"a":1}`, `"refs":{"$.a":"$n+1"}`, answer(200, `{"a":42}`), ""},
		{"reference and too little", `"status":200,"body":{"a":1}`, `"refs":{"$.a":"$n+1"}`, answer(200, `{"a":41}`), "$.a"},
		{"reference to nothing", `"status":200,"body":{"a":1}`, `"refs":{"$.a":"$none"}`, answer(200, `{"a":1}`), "$.a"},
		{"number after a text", `"status":200,"body":{"a":1}`, `"refs":{"$.a":"$id+1"}`, answer(200, `{"a":1}`), "$.a"},

		{"JSON in Base64", `"status":200,"body":{"a":"eyJiIjoxfQ=="}`, `"jsonBytes":["$.a"]`, answer(200, `{"a":"eyAiYiI6IDEuMCB9"}`), ""},
		{"other JSON in Base64", `"status":200,"body":{"a":"eyJiIjoxfQ=="}`, `"jsonBytes":["$.a"]`, answer(200, `{"a":"eyJiIjoyfQ=="}`), "$.a"},
		{"no JSON in Base64", `"status":200,"body":{"a":"eyJiIjoxfQ=="}`, `"jsonBytes":["$.a"]`, answer(200, `{"a":"eyJi"}`), "$.a"},
		{"no Base64", `"status":200,"body":{"a":"eyJiIjoxfQ=="}`, `"jsonBytes":["$.a"]`, answer(200, `{"a":"{}"}`), "$.a"},
		{"JSON itself", `"status":200,"body":{"a":"eyJiIjoxfQ=="}`, `"jsonBytes":["$.a"]`, answer(200, `{"a":{"b":1}}`), "$.a"},
	} {
		text := `{"name":"n","seq":"s","request":{"method":"GET","path":"/x"},"response":{` + c.response + `}`
		if c.rules != "" {
			text += "," + c.rules
		}
		d := one(t, text+"}").CheckHTTP(c.answer, vars)
		switch {
		case d == nil && c.where != "":
			t.Errorf("%s: nothing was noticed", c.name)
		case d != nil && d.Where != c.where:
			t.Errorf("%s: %v, want a difference at %q", c.name, d, c.where)
		}
	}
}

func TestFormats(t *testing.T) {
	for _, c := range []struct {
		format string
		value  string
		ok     bool
	}{
		{"uuid4", `"9fde8277-7d08-4c3a-8f5e-0123456789ab"`, true},
		{"uuid4", `"019aa6f0-7d08-7c3a-8f5e-0123456789ab"`, false}, // version 7
		{"uuid4", `"9fde8277-7d08-4c3a-7f5e-0123456789ab"`, false}, // variant
		{"uuid4", `"9FDE8277-7D08-4C3A-8F5E-0123456789AB"`, false},
		{"uuid4", `"9fde82777d084c3a8f5e0123456789ab"`, false},
		{"uuid4", `1`, false},
		{"epoch_ms", `1795233332562`, true},
		{"epoch_ms", `1795233332`, false},
		{"epoch_ms", `1795233332562.5`, false},
		{"epoch_ms", `"1795233332562"`, false},
		{"epoch_ms", `0`, false},
		{"epoch_ms_str", `"1795233332562"`, true},
		{"epoch_ms_str", `1795233332562`, false},
		{"epoch_ms_str", `"1795233332"`, false},
		{"iso_local", `"2026-11-21T04:11:22.969345"`, true},
		{"iso_local", `"2026-11-21T04:11:22"`, true},
		{"iso_local", `"2026-11-21T04:11:22.969"`, false},
		{"iso_local", `"2026-11-21T04:11:22.969345Z"`, false},
		{"iso_local", `"2026-11-21 04:11:22.969345"`, false},
		{"iso_local", `"2026-13-21T04:11:22.969345"`, false},
		{"iso_local", `1`, false},
	} {
		v, err := Decode([]byte(c.value))
		if err != nil {
			t.Fatal(err)
		}
		if got := formats[c.format](v); got != c.ok {
			t.Errorf("%s as %s: %v", c.value, c.format, got)
		}
		// The format counts even if the value does not.
		text := `{"name":"n","seq":"s","request":{"method":"GET","path":"/x"},"response":{"status":200,"body":{"a":` + c.value +
			`}},"volatile":["$.a"],"formats":{"$.a":"` + c.format + `"}}`
		if d := one(t, text).CheckHTTP(answer(200, `{"a":`+c.value+`}`), nil); (d == nil) != c.ok {
			t.Errorf("%s as %s: difference %v", c.value, c.format, d)
		}
	}
}

// TestSupersets adds fields to the recorded ones: fields that clients skip are allowed, known
// fields are not, and on a route that is not native no field is.
func TestSupersets(t *testing.T) {
	for _, c := range []struct {
		method, path, recorded, got string
		status                      int
		ok                          bool
	}{
		{"POST", "/v1/jobs", `{"jobId":"j"}`, `{"jobId":"j","lsn":"1-2"}`, 200, true},
		{"POST", "/v1/jobs/claim", `{"jobId":"j"}`, `{"jobId":"j","token":1}`, 200, true},
		{"POST", "/v1/jobs/claim", `{"jobId":"j"}`, `{"jobId":"j","payload":null}`, 200, false},
		{"POST", "/v1/jobs/claim", `{"jobId":"j"}`, `{"jobId":"j","type":""}`, 200, false},
		{"POST", "/v1/jobs/claim", `{}`, `{"jobId":"j"}`, 200, false},
		{"GET", "/v1/stats", `{"total":0}`, `{"total":0,"dead":0}`, 200, true},
		{"GET", "/v1/jobs", `{"jobs":[{"id":"j"}]}`, `{"jobs":[{"id":"j","priority":1}]}`, 200, true},
		{"GET", "/v1/jobs", `{"jobs":[{"id":"j"}]}`, `{"jobs":[{"id":"j","workerId":""}]}`, 200, false},
		{"GET", "/v1/jobs", `{"jobs":[{"id":"j","payload":{}}]}`, `{"jobs":[{"id":"j","payload":{"x":1}}]}`, 200, false},
		{"GET", "/state", `{"jobs":[{"id":"j"}]}`, `{"jobs":[{"id":"j","seq":1}],"osqueue":{}}`, 200, true},
		{"GET", "/state", `{"jobs":[{"id":"j"}]}`, `{"jobs":[{"id":"j","heartbeat":0}]}`, 200, false},
		{"GET", "/status", `{"tasks":{"total":1},"term":1}`, `{"tasks":{"total":1,"dead":0},"term":1,"pid":1}`, 200, true},
		{"GET", "/status", `{"tasks":{"total":1},"term":1}`, `{"tasks":{"total":1},"term":1,"leader":null}`, 200, false},
		{"GET", "/task/1", `{"status":"pending"}`, `{"status":"pending","token":1}`, 200, false},
		{"POST", "/get_pending_task", `{"task_id":"1"}`, `{"task_id":"1","worker_id":"w"}`, 200, false},
		{"POST", "/v1/jobs", `{"_tag":"X","message":"m"}`, `{"_tag":"X","message":"m","type":"urn:x","status":400}`, 500, true},
		{"POST", "/v1/jobs", `{"_tag":"X","message":"m"}`, `{"_tag":"X","message":"m","statusCode":500}`, 500, false},
		{"GET", "/nope", `{"message":"m","statusCode":404}`, `{"message":"m","statusCode":404,"_tag":"x"}`, 404, true},
		{"GET", "/nope", `{"message":"m","statusCode":404}`, `{"message":"m","statusCode":404,"error":"x"}`, 404, false},
		{"GET", "/nope", `{"message":"m","statusCode":404}`, `{"message":"m","statusCode":404,"title":"x"}`, 404, true},
		{"GET", "/task/1", `{"error":"Task not found"}`, `{"error":"Task not found","title":"x"}`, 404, false},
		{"POST", "/osqueue.v1.QueueService/ClaimJob", `{}`, `{"lsn":"1-2"}`, 200, false},
		{"POST", "/osqueue.v1.QueueService/ClaimJob", `{"code":"internal"}`, `{"code":"internal","title":"x"}`, 500, false},
	} {
		text := `{"name":"n","seq":"s","request":{"method":"` + c.method + `","path":"` + c.path + `"},"response":{"status":` +
			strconv.Itoa(c.status) + `,"body":` + c.recorded + `}}`
		if d := one(t, text).CheckHTTP(answer(c.status, c.got), nil); (d == nil) != c.ok {
			t.Errorf("%s %s, %d, %s: difference %v", c.method, c.path, c.status, c.got, d)
		}
	}
}

// TestMessages checks correct and wrong answers in protobuf.
func TestMessages(t *testing.T) {
	const head = `{"name":"n","seq":"s","request":{"method":"POST","path":"/osqueue.v1.QueueService/X"},"response":{"status":200,`
	stats := one(t, head+`"proto":{"message":"GetStatsResponse","fields":{"total":2}}}}`)
	framed := one(t, head+`"envelope":true,"grpcStatus":0,"proto":{"message":"GetStatsResponse","fields":{"total":2}}}}`)
	list := one(t, head+`"proto":{"message":"ListJobsResponse","fields":{"jobs":[{"id":"a"}]}}}}`)
	trailer := func(text string) string { return string(appendFrame(nil, trailerFrame, []byte(text))) }
	message := string(appendFrame(nil, 0, []byte("\x08\x02")))
	for _, c := range []struct {
		name string
		c    *Case
		body string
		ok   bool
	}{
		{"right", stats, "\x08\x02", true},
		{"other value", stats, "\x08\x03", false},
		{"missing", stats, "", false},
		{"another field", stats, "\x08\x02\x10\x01", false},
		{"unknown field", stats, "\x08\x02\x28\x01", false},
		{"cut off", stats, "\x08", false},
		{"nested", list, "\x0a\x03\x0a\x01a", true},
		{"nested, unknown field", list, "\x0a\x05\x0a\x01a\x50\x01", false},
		{"frames", framed, message + trailer("grpc-status: 0\r\n"), true},
		{"another status", framed, message + trailer("grpc-status: 13\r\n"), false},
		{"no trailer", framed, message, false},
		{"no message", framed, trailer("grpc-status: 0\r\n"), false},
		{"two messages", framed, message + message + trailer("grpc-status: 0\r\n"), false},
		{"frame cut off", framed, message + trailer("grpc-status: 0\r\n")[:9], false},
		{"head cut off", framed, message + "\x80\x00", false},
		{"trailer without status", framed, message + trailer("grpc-message: x\r\n"), false},
		{"no frames", framed, "\x08\x02", false},
	} {
		if d := c.c.CheckHTTP(answer(200, c.body), nil); (d == nil) != c.ok {
			t.Errorf("%s: difference %v", c.name, d)
		}
	}
}

func TestOtherTransports(t *testing.T) {
	parallel := one(t, `{"name":"n","seq":"s","request":{"method":"POST","path":"/x","parallel":3},"response":{"parallel":{"200":2,"503":1}}}`)
	if d := parallel.CheckParallel([]int{200, 503, 200}); d != nil {
		t.Error(d)
	}
	for _, wrong := range [][]int{{200, 200}, {200, 200, 200}, {200, 200, 503, 503}} {
		if parallel.CheckParallel(wrong) == nil {
			t.Errorf("%v passed", wrong)
		}
	}

	start := one(t, `{"name":"n","seq":"s","request":{"transport":"start"},"response":{"started":false},"seed":{}}`)
	if start.CheckStart(false) != nil || start.CheckStart(true) == nil {
		t.Error("a start is not told from none")
	}

	shake := one(t, `{"name":"n","seq":"s","request":{"transport":"ws-handshake","path":"/w","headers":{}},`+
		`"response":{"status":101,"headers":{"upgrade":"websocket"},"closeCode":1005}}`)
	for _, c := range []struct {
		a    Answer
		code int
		ok   bool
	}{
		{answer(101, "", "Upgrade: WebSocket"), 1005, true},
		{answer(101, "", "Upgrade: WebSocket"), -1, false},
		{answer(101, ""), 1005, false},
		{answer(404, "", "Upgrade: WebSocket"), 1005, false},
	} {
		if d := shake.CheckHandshake(c.a, c.code); (d == nil) != c.ok {
			t.Errorf("%d %v, closed with %d: %v", c.a.Status, c.a.Header, c.code, d)
		}
	}
}

func TestCheckMessages(t *testing.T) {
	single := one(t, `{"name":"n","seq":"s","request":{"transport":"ws","path":"/w","message":{"id":1}},"response":{"message":{"id":1,"ok":true}},"capture":{"x":"$.got"}}`)
	several := one(t, `{"name":"n","seq":"s","request":{"transport":"ws","path":"/w","messages":[{"id":"a"},{"id":"b"}]},`+
		`"response":{"messages":[{"id":"a","v":1},{"id":"b","v":2}]}}`)
	for _, c := range []struct {
		c      *Case
		frames string // one a line
		ok     bool
	}{
		{single, `{"ok":true,"id":1}`, true},
		{single, `{"ok":true,"id":"1"}`, false},
		{single, `{"ok":true,"id":1,"lsn":"1-2"}`, false},
		{single, `hello`, false},
		{single, "{\"id\":1,\"ok\":true}\n{\"id\":1,\"ok\":true}", false},
		{several, "{\"id\":\"a\",\"v\":1}\n{\"id\":\"b\",\"v\":2}", true},
		{several, "{\"id\":\"b\",\"v\":2}\n{\"id\":\"a\",\"v\":1}", true},
		{several, "{\"id\":\"b\",\"v\":1}\n{\"id\":\"a\",\"v\":2}", false},
		{several, "{\"id\":\"a\",\"v\":1}\n{\"id\":\"a\",\"v\":1}", false},
		{several, "{\"id\":\"a\",\"v\":1}", false},
	} {
		var frames [][]byte
		for frame := range strings.SplitSeq(c.frames, "\n") {
			frames = append(frames, []byte(frame))
		}
		if d := c.c.CheckMessages(frames, Vars{}); (d == nil) != c.ok {
			t.Errorf("%s: difference %v", c.frames, d)
		}
	}
	vars := Vars{}
	if single.CheckMessages([][]byte{[]byte(`{"id":2,"got":"x"}`)}, vars) == nil || vars["x"] != "x" {
		t.Errorf("a wrong answer was not noticed, or nothing was captured of it: %v", vars)
	}
}
