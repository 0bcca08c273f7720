package document_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage/document"
)

// transcripts is the directory of the project's recordings.
const transcripts = "../../compat/osqueue/testdata/transcripts/"

// recorded returns all documents of the recordings by the names of their cases: the documents that
// brokers wrote, and those that they were started on.
func recorded(t *testing.T) map[string]string {
	t.Helper()
	texts := make(map[string]string)
	for _, file := range []string{"queue_documents.json", "broker_election.json"} {
		data, err := os.ReadFile(transcripts + file)
		if err != nil {
			t.Fatal(err)
		}
		var cases []struct {
			Name    string
			Request struct {
				Document     json.RawMessage
				DocumentText *string
			}
			Response struct{ DocumentText string }
		}
		if err := json.Unmarshal(data, &cases); err != nil {
			t.Fatal(err)
		}
		for _, c := range cases {
			text := cmp.Or(c.Response.DocumentText, string(c.Request.Document))
			// The election refuses a document that is invalid on purpose.
			if text != "" && text != "null" && c.Request.DocumentText == nil {
				texts[c.Name] = text
			}
		}
	}
	if len(texts) < 35 {
		t.Fatalf("only %d documents", len(texts))
	}
	return texts
}

// legacyFields are the fields of the legacy broker, of a document and of a job.
type legacyFields struct {
	CompletedTotal uint64
	Jobs           []struct {
		ID, Status, Type string
		Payload          json.RawMessage
		CreatedAt        int64
		Attempts         int32
		MaxAttempts      *int32
		WorkerID         *string
		Heartbeat        int64
	}
}

func fieldsOf(t *testing.T, name, text string) string {
	t.Helper()
	var d legacyFields
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for i := range d.Jobs {
		var compact bytes.Buffer
		if len(d.Jobs[i].Payload) > 0 && json.Compact(&compact, d.Jobs[i].Payload) == nil {
			d.Jobs[i].Payload = compact.Bytes()
		}
	}
	out, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Replace(string(out), `"Jobs":null`, `"Jobs":[]`, 1) // of an old document
}

// TestRecordedDocuments reads every recorded document. The legacy fields come out again, in the
// legacy form and in a document of this program, and only they.
func TestRecordedDocuments(t *testing.T) {
	jobs := 0
	for name, text := range recorded(t) {
		d, m := legacyOf(t, text)
		if d.Header != nil || d.Overtaken || d.Archive != nil || d.Edited {
			t.Errorf("%s: %+v", name, d)
		}
		want := fieldsOf(t, name, text)
		ours := document.Encode(contentOf(m.View()), header, address, heartbeat)
		for form, out := range map[string][]byte{"legacy": document.EncodeLegacy(m.View()), "ours": ours} {
			if got := fieldsOf(t, name, string(out)); got != want {
				t.Errorf("%s, %s: came back as\n%s\nwant\n%s", name, form, got, want)
			}
		}
		if bytes.Contains(ours, []byte(`"schema"`)) || bytes.Contains(ours, []byte(`"note"`)) {
			t.Errorf("%s: unknown fields are kept: %s", name, ours)
		}
		jobs += m.Counts().Sum()
	}
	if jobs < 15 {
		t.Errorf("only %d jobs", jobs)
	}
}

// TestLegacyState checks the values that the legacy fields do not show.
func TestLegacyState(t *testing.T) {
	d, m := legacyOf(t, `{"broker":"b","brokerHeartbeat":9000,"jobs":[
		{"id":"a","status":"unclaimed","createdAt":9500,"attempts":0},
		{"id":"b","status":"in_progress","createdAt":100,"attempts":2,"heartbeat":9100,"workerId":""},
		{"id":"c","status":"in_progress","createdAt":100,"attempts":1,"heartbeat":9200}],"completedTotal":41}`)
	meta := m.Meta()
	if meta.NowMs != 9500 || d.Now() != 9500 || meta.LastSeq != 3 || meta.LastToken != 0 || meta.CompletedTotal != 41 || !meta.LSN().IsZero() ||
		!proto.Equal(meta.Settings, fsm.DefaultSettings()) || d.Lineage() != "" || d.CompletedTotal != 41 {
		t.Errorf("meta %+v", meta)
	}
	if a := m.Job("a"); a.Seq != 1 || a.MaxAttempts != fsm.MaxAttemptsUnset || a.Payload() != nil || a.Execution().Worker != "" {
		t.Errorf("a is %+v", a)
	}
	if b := m.Job("b"); b.Execution().Worker != "" || b.Execution().HeldMs != 30_000 || b.Execution().ClaimedAt != 9100 || b.Attempts != 2 {
		t.Errorf("b is %+v", b)
	}
	if c := m.Job("c"); c.Execution().Worker != fsm.Anonymous {
		t.Errorf("c is %+v", c)
	}
	if _, err := d.Legacy(); err != nil || m.Job("a") == nil {
		t.Errorf("a second machine: %v", err)
	}
}

// TestLegacyTakeover replays the recorded takeover: two jobs of a silent worker return to
// their positions, a job without attempts left leaves the queue, and a live worker keeps
// its job.
func TestLegacyTakeover(t *testing.T) {
	text := strings.NewReplacer("$60", "1699999940000", "$90", "1699999910000", "$1", "1699999999000").Replace(
		`{"broker":"192.0.2.9:8080","brokerHeartbeat":$60,"jobs":[
		{"id":"1","status":"unclaimed","payload":{"n":1},"createdAt":$90,"attempts":0,"type":"email"},
		{"id":"2","status":"in_progress","payload":{"n":2},"createdAt":$90,"attempts":1,"workerId":"w-old","heartbeat":$1},
		{"id":"3","status":"in_progress","payload":{"n":3},"createdAt":$90,"attempts":1,"workerId":"w-gone","heartbeat":$60,"type":"sms"},
		{"id":"4","status":"in_progress","payload":{"n":4},"createdAt":$90,"attempts":3,"workerId":"w-gone","heartbeat":$60},
		{"id":"5","status":"in_progress","payload":{"n":5},"createdAt":$90,"attempts":3,"workerId":"w-gone","heartbeat":$60,"maxAttempts":5}
		],"completedTotal":41}`)
	_, m := legacyOf(t, text)
	apply(t, m) // expire the leases of the legacy broker, before the takeover extends the rest
	apply(t, m, &fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterBroker{RegisterBroker: &fsmpb.RegisterBroker{
		Node: "n1", Address: "a:1", Epoch: 1, Cluster: "cl", Lineage: "li",
	}}})
	want := strings.NewReplacer("$90", "1699999910000", "$1", "1699999999000").Replace(`{"broker":null,"brokerHeartbeat":0,"jobs":[` +
		`{"id":"1","status":"unclaimed","payload":{"n":1},"type":"email","createdAt":$90,"attempts":0},` +
		`{"id":"2","status":"in_progress","payload":{"n":2},"createdAt":$90,"attempts":1,"workerId":"w-old","heartbeat":$1},` +
		`{"id":"3","status":"unclaimed","payload":{"n":3},"type":"sms","createdAt":$90,"attempts":1},` +
		`{"id":"5","status":"unclaimed","payload":{"n":5},"createdAt":$90,"attempts":3,"maxAttempts":5}` +
		`],"completedTotal":41}`)
	if got := string(document.EncodeLegacy(m.View())); got != want {
		t.Fatalf("after the takeover\n%s\nwant\n%s", got, want)
	}
	if j := m.Job("4"); j == nil || j.Status != fsm.Dead {
		t.Errorf("job 4 is %+v, want it kept as dead", j)
	}
}

// TestWayBack checks that jobs that wait are available in the legacy form.
func TestWayBack(t *testing.T) {
	out := string(document.EncodeLegacy(queue(t).View()))
	_, m := legacyOf(t, out)
	if m.Counts() != (fsm.Counts{fsm.Unclaimed: 4, fsm.InProgress: 1}) || strings.Contains(out, "osqueue") {
		t.Errorf("%v in %s", m.Counts(), out)
	}
}

// odd returns a legacy document with one job that has odd fields.
func odd(members string) string {
	return fmt.Sprintf(`{"broker":"b","brokerHeartbeat":1700000000009,"jobs":[{"id":"a","status":"unclaimed",%s},`+
		`{"id":"next","status":"unclaimed","payload":1,"createdAt":3,"attempts":0}],"completedTotal":0}`, members)
}

// TestOddMembersOfAJob checks that a job with values that only the legacy broker accepts
// keeps its position and all values that can be interpreted.
func TestOddMembersOfAJob(t *testing.T) {
	for members, check := range map[string]func(*fsm.Job) bool{
		`"type":5`:        func(j *fsm.Job) bool { return j.Type == "5" },
		`"type":{"x":1}`:  func(j *fsm.Job) bool { return j.Type == `{"x":1}` },
		`"type":null`:     func(j *fsm.Job) bool { return j.Type == "" },
		`"type":true`:     func(j *fsm.Job) bool { return j.Type == "true" },
		`"type":"\ud800"`: func(j *fsm.Job) bool { return j.Type == "\ufffd" },
		`"status":"in_progress"`: func(j *fsm.Job) bool {
			return j.Execution().Worker == fsm.Anonymous && j.Execution().Heartbeat == 0 && j.Execution().HeldMs == 30_000
		},
		`"status":"in_progress","workerId":17`: func(j *fsm.Job) bool { return j.Execution().Worker == "17" },
		`"maxAttempts":2.7`:                    func(j *fsm.Job) bool { return j.MaxAttempts == 2 },
		`"maxAttempts":1e99`:                   func(j *fsm.Job) bool { return j.MaxAttempts == math.MaxInt32 },
		`"maxAttempts":"4"`:                    func(j *fsm.Job) bool { return j.MaxAttempts == 4 },
		`"maxAttempts":"many"`:                 func(j *fsm.Job) bool { return j.MaxAttempts == fsm.MaxAttemptsUnset },
		`"maxAttempts":[3]`:                    func(j *fsm.Job) bool { return j.MaxAttempts == fsm.MaxAttemptsUnset },
		`"maxAttempts":null`:                   func(j *fsm.Job) bool { return j.MaxAttempts == fsm.MaxAttemptsUnset },
		`"maxAttempts":-7`:                     func(j *fsm.Job) bool { return j.MaxAttempts == -7 },
		`"attempts":false`:                     func(j *fsm.Job) bool { return j.Attempts == 0 },
		`"attempts":-1`:                        func(j *fsm.Job) bool { return j.Attempts == 0 },
		`"attempts":9999999999`:                func(j *fsm.Job) bool { return j.Attempts == math.MaxInt32 },
		`"createdAt":1699999999999.5`:          func(j *fsm.Job) bool { return j.CreatedAt == 1_699_999_999_999 },
		`"createdAt":-1e300`:                   func(j *fsm.Job) bool { return j.CreatedAt == 0 },
		`"createdAt":"2024-01-23"`:             func(j *fsm.Job) bool { return j.CreatedAt == 0 },
		// Microseconds must not set the clock thousands of years ahead.
		`"createdAt":1700000000000000`: func(j *fsm.Job) bool { return j.CreatedAt == 1_700_000_000_009 },
		`"heartbeat":1e300`:            func(j *fsm.Job) bool { return j.Execution().Heartbeat == 1_700_000_000_009 },
		"\"payload\":\"\xff\"":         func(j *fsm.Job) bool { return string(j.Payload()) == "\"\xff\"" },
		`"payload":null`:               func(j *fsm.Job) bool { return string(j.Payload()) == "null" },
		`"payload":1,"payload":2`:      func(j *fsm.Job) bool { return string(j.Payload()) == "2" },
		`"unknown":{"x":[1]}`:          func(j *fsm.Job) bool { return j.Payload() == nil },
		`"seq":9,"priority":9,"runAt":5,"token":9,"result":1,"tags":["x"],"lastError":"x"`: func(j *fsm.Job) bool {
			return j.Priority == 0 && j.RunAt == 0 && j.Execution().Token == 0 && j.Execution().Result == nil && j.Opt == nil && j.Det == nil &&
				j.Execution().LastError == ""
		},
		`"status":"queued"`: func(j *fsm.Job) bool {
			return j.Status == fsm.Dead && strings.Contains(j.Execution().LastError, `the status "queued"`)
		},
		`"status":"scheduled"`: func(j *fsm.Job) bool { return j.Status == fsm.Dead },
		`"status":1`: func(j *fsm.Job) bool {
			return j.Status == fsm.Dead && strings.Contains(j.Execution().LastError, `the status "1"`)
		},
	} {
		text := odd(members)
		_, m := legacyOf(t, text)
		a := m.Job("a")
		if a == nil || !check(a) || a.Seq != 1 || m.Job("next") == nil || m.Now() != 1_700_000_000_009 {
			t.Errorf("%s: read as %+v, now %d", text, a, m.Now())
		}
	}
}

// TestOddIDs checks that no job is lost because of a missing or duplicate id, and that a
// second reading gives the same ids.
func TestOddIDs(t *testing.T) {
	text := `{"jobs":[{"id":"a","status":"unclaimed","payload":1},{"id":"a","status":"in_progress","payload":2},
		{"status":"unclaimed","payload":3},{"id":"","status":"unclaimed","payload":4},{"id":null,"status":"unclaimed","payload":5},
		{"id":7,"status":"unclaimed","payload":6},{"id":"unnamed-1","status":"unclaimed","payload":7},
		{"id":"a-1","status":"unclaimed","payload":8},{"id":"a","status":"unclaimed","payload":9},9,null,"x"]}`
	_, m := legacyOf(t, text)
	var got []string
	m.View().List(fsm.Index{}, []fsm.Status{fsm.Unclaimed, fsm.InProgress}, 0, func(j *fsm.Job) bool {
		got = append(got, j.ID+":"+string(j.Payload()))
		return true
	})
	if want := "a:1 a-2:2 unnamed-2:3 unnamed-3:4 unnamed-4:5 7:6 unnamed-1:7 a-1:8 a-3:9"; strings.Join(got, " ") != want {
		t.Errorf("became %s\n  want   %s", got, want)
	}
	for id, payload := range map[string]string{"unnamed-5": "9", "unnamed-6": "null", "unnamed-7": `"x"`} {
		if j := m.Job(id); j == nil || j.Status != fsm.Dead || string(j.Payload()) != payload || !strings.Contains(j.Execution().LastError, "no job") {
			t.Errorf("%s is %+v", id, j)
		}
	}
}

// TestOddTop checks that the fields of a legacy document other than jobs count as the
// nearest value, too.
func TestOddTop(t *testing.T) {
	for members, want := range map[string]string{
		``:                              "<nil> 0 0",
		`"broker":5`:                    "5 0 0",
		`"broker":null`:                 "<nil> 0 0",
		`"brokerHeartbeat":"1700"`:      "<nil> 1700 0",
		`"brokerHeartbeat":1700.9`:      "<nil> 1700 0",
		`"brokerHeartbeat":"soon"`:      "<nil> 0 0",
		`"brokerHeartbeat":null`:        "<nil> 0 0",
		`"completedTotal":-1`:           "<nil> 0 0",
		`"completedTotal":2.5`:          "<nil> 0 2",
		`"completedTotal":[]`:           "<nil> 0 0",
		`"jobs":null`:                   "<nil> 0 0",
		`"osqueue":null,"broker":{}`:    "{} 0 0",
		`"log":5,"tail":{},"broker":""`: " 0 0",
		`"brokerHeartbeat":-5,"x":{}`:   "<nil> -5 0",
	} {
		d, m := legacyOf(t, "{"+members+"}")
		broker := "<nil>"
		if d.Broker != nil {
			broker = *d.Broker
		}
		if got := fmt.Sprint(broker, " ", d.BrokerHeartbeat, " ", m.Meta().CompletedTotal); got != want {
			t.Errorf("{%s} is %s, want %s", members, got, want)
		}
	}
}

// garbage generates values that people and clients write in place of a valid one.
var garbage = rapid.SampledFrom([]string{
	`null`, `5`, `-5`, `1e99`, `2.5`, `"x"`, `"\ufffd"`, `""`, `true`, `[]`, `{}`, `[5]`, `["x",null]`, `[{}]`, `"9223372036854775807"`,
	`"blocked"`, `"in_progress"`, `"unclaimed"`, `"cancelled"`, `99999999999999999999`,
})

// TestGarbledJobs checks that no queue is lost because of values that legacy brokers accept:
// whatever their list has, there is a machine with all of its jobs, which keeps working.
func TestGarbledJobs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 8).Draw(t, "jobs")
		list := make([]string, n)
		for i := range list {
			if rapid.IntRange(0, 9).Draw(t, "no job") == 0 {
				list[i] = garbage.Draw(t, "element")
				continue
			}
			members := []string{fmt.Sprintf(`"id":"%d"`, rapid.IntRange(0, 4).Draw(t, "id")), `"status":"unclaimed"`}
			for range rapid.IntRange(0, 4).Draw(t, "members") {
				name := rapid.SampledFrom(strings.Fields("id status type payload createdAt attempts maxAttempts workerId heartbeat seq token x")).Draw(t, "name")
				members = append(members, fmt.Sprintf("%q:%s", name, garbage.Draw(t, "value")))
			}
			list[i] = "{" + strings.Join(members, ",") + "}"
		}
		d, err := document.Decode([]byte(`{"brokerHeartbeat":` + garbage.Draw(t, "heartbeat") + `,"jobs":[` + strings.Join(list, ",") + `]}`))
		if err != nil {
			t.Fatal(err)
		}
		m, err := d.Legacy()
		if err != nil || m.Counts().Sum() != n {
			t.Fatalf("%v: %d jobs are left of %d in %s", err, m.Counts().Sum(), n, list)
		}
		m.Apply(1, 1, &fsmpb.Batch{NowMs: m.Now() + 1, Mutations: []*fsmpb.Mutation{claim("w", 100)}})
	})
}
