package document_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"osqueue/fsm"
	"osqueue/storage/document"
)

// odd returns a legacy document with one job that has odd fields.
func odd(members string) string {
	return fmt.Sprintf(`{"broker":"b","brokerHeartbeat":1700000000009,"jobs":[{"id":"a","status":"unclaimed",%s},`+
		`{"id":"next","status":"unclaimed","payload":1,"createdAt":3,"attempts":0}],"completedTotal":0}`, members)
}

// oddOvertaken returns a document of this program, with the same jobs, that a legacy broker
// has taken over.
func oddOvertaken(members string) string {
	return strings.TrimSuffix(odd(members), "}") +
		`,"osqueue":{"format":1,"address":"ours","heartbeat":5,"state":{"now":7,"lastSeq":9}}}`
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
		`"workerId":17`:               func(j *fsm.Job) bool { return j.Execution().Worker == "17" },
		`"maxAttempts":2.7`:           func(j *fsm.Job) bool { return j.MaxAttempts == 2 },
		`"maxAttempts":1e99`:          func(j *fsm.Job) bool { return j.MaxAttempts == math.MaxInt32 },
		`"maxAttempts":"4"`:           func(j *fsm.Job) bool { return j.MaxAttempts == 4 },
		`"maxAttempts":"many"`:        func(j *fsm.Job) bool { return j.MaxAttempts == fsm.MaxAttemptsUnset },
		`"maxAttempts":[3]`:           func(j *fsm.Job) bool { return j.MaxAttempts == fsm.MaxAttemptsUnset },
		`"maxAttempts":null`:          func(j *fsm.Job) bool { return j.MaxAttempts == fsm.MaxAttemptsUnset },
		`"maxAttempts":-7`:            func(j *fsm.Job) bool { return j.MaxAttempts == -7 },
		`"attempts":false`:            func(j *fsm.Job) bool { return j.Attempts == 0 },
		`"attempts":-1`:               func(j *fsm.Job) bool { return j.Attempts == 0 },
		`"attempts":9999999999`:       func(j *fsm.Job) bool { return j.Attempts == math.MaxInt32 },
		`"createdAt":1699999999999.5`: func(j *fsm.Job) bool { return j.CreatedAt == 1_699_999_999_999 },
		`"createdAt":-1e300`:          func(j *fsm.Job) bool { return j.CreatedAt == 0 },
		`"createdAt":"2024-01-23"`:    func(j *fsm.Job) bool { return j.CreatedAt == 0 },
		// Microseconds must not set the clock thousands of years ahead.
		`"createdAt":1700000000000000`: func(j *fsm.Job) bool { return j.CreatedAt == 1_700_000_000_009 },
		`"heartbeat":1e300`:            func(j *fsm.Job) bool { return j.Execution().Heartbeat == 1_700_000_000_009 },
		`"token":5,"attemptEnd":"odd"`: func(j *fsm.Job) bool { return j.Execution().Token == 0 && j.AttemptEnd == fsm.NoEnd },
		`"attemptEnd":200,"seq":-1`:    func(j *fsm.Job) bool { return j.AttemptEnd == fsm.NoEnd },
		`"payload":2,"payloadBase64":"%","typeBase64":7,"idBase64":[{}]`: func(j *fsm.Job) bool {
			return string(j.Payload()) == "2" && j.Type == ""
		},
		"\"payload\":\"\xff\"": func(j *fsm.Job) bool { return string(j.Payload()) == "\"\xff\"" },
		`"unknown":{"x":[1]}`:  func(j *fsm.Job) bool { return j.Payload() == nil },
		`"status":"queued"`: func(j *fsm.Job) bool {
			return j.Status == fsm.Dead && strings.Contains(j.Execution().LastError, `the status "queued"`)
		},
		`"status":1`: func(j *fsm.Job) bool {
			return j.Status == fsm.Dead && strings.Contains(j.Execution().LastError, `the status "1"`)
		},
	} {
		for _, text := range []string{odd(members), oddOvertaken(members), odd(`"type":{},` + members)} {
			doc, m := machine(t, []byte(text))
			a := m.Job("a")
			if a == nil || !check(typeless(a)) || doc.Jobs[0].ID != "a" || m.Job("next") == nil || m.Meta().Now != 1_700_000_000_009 {
				t.Errorf("%s: read as %+v, now %d", text, a, m.Meta().Now)
			}
		}
	}
}

// typeless returns j without the type that the test has added.
func typeless(j *fsm.Job) *fsm.Job {
	j = new(*j)
	if j.Type == "{}" {
		j.Type = ""
	}
	return j
}

// TestOursInAnOriginal checks that fields with names of this package have no meaning in the
// jobs of a legacy document.
func TestOursInAnOriginal(t *testing.T) {
	_, m := machine(t, []byte(odd(`"seq":"18446744073709551615","priority":9,"runAt":5,"token":9,"claimedAt":5,"leaseMs":-1,
		"heldMs":5,"finishedAt":5,"result":1,"lastError":"x"`)))
	if j := m.Job("a"); j.Priority != 0 || j.RunAt != 0 || j.Execution().Token != 0 || j.Execution().LeaseMs != 0 || j.Execution().Result != nil ||
		j.Execution().LastError != "" || j.Seq != 1 || order(m) != "a next" || m.Meta().Token != 0 {
		t.Errorf("job %+v, order %s", j, order(m))
	}
	_, m = machine(t, []byte(`{"jobs":[],"workers":[{"name":"w"},{"name":"w"},7],"claims":"x","finished":3,
		"scheduled":[{"id":"s","status":"scheduled","runAt":77,"priority":2},5],"dead":[{"id":"d","status":"dead","lastError":"x"}]}`))
	s, d := m.Job("s"), m.Job("d")
	if s == nil || s.RunAt != 77 || s.Priority != 2 || d == nil || d.Execution().LastError != "x" || m.View().WorkerCount() != 0 {
		t.Errorf("scheduled %+v, dead %+v", s, d)
	}
	if n := m.Job("unnamed-1"); n == nil || n.Status != fsm.Dead || string(n.Payload()) != "5" {
		t.Errorf("what is no job became %+v", n)
	}
}

// TestOddIDs checks that no job is lost because of a missing or duplicate id, and that a
// second reading gives the same ids.
func TestOddIDs(t *testing.T) {
	list := `{"id":"a","status":"unclaimed","payload":1},{"id":"a","status":"in_progress","payload":2},
		{"status":"unclaimed","payload":3},{"id":"","status":"unclaimed","payload":4},{"id":null,"status":"unclaimed","payload":5},
		{"id":7,"status":"unclaimed","payload":6},{"id":"unnamed-1","status":"unclaimed","payload":7},
		{"id":"a-1","status":"unclaimed","payload":8},{"id":"a","status":"unclaimed","payload":9},9,null,"x"`
	want := "a:1 a-2:2 unnamed-2:3 unnamed-3:4 unnamed-4:5 7:6 unnamed-1:7 a-1:8 a-3:9"
	for _, text := range []string{
		`{"jobs":[` + list + `]}`,
		`{"broker":"b","jobs":[` + list + `],"osqueue":{"format":1,"state":{}}}`,
	} {
		_, m := machine(t, []byte(text))
		var got []string
		m.View().Merged([]fsm.Status{fsm.Unclaimed, fsm.InProgress}, 0, func(j *fsm.Job) bool {
			got = append(got, j.ID+":"+string(j.Payload()))
			return true
		})
		if strings.Join(got, " ") != want {
			t.Errorf("%s\n  became %s\n  want   %s", text, got, want)
		}
		for id, payload := range map[string]string{"unnamed-5": "9", "unnamed-6": "null", "unnamed-7": `"x"`} {
			if j := m.Job(id); j == nil || j.Status != fsm.Dead || string(j.Payload()) != payload || !strings.Contains(j.Execution().LastError, "no job") {
				t.Errorf("%s is %+v", id, j)
			}
		}
	}
	doc, m := machine(t, []byte(`{"jobs":[{"id":"a","status":"unclaimed"}],"dead":[{"id":"a","status":"dead"}]}`))
	if len(doc.Jobs) != 2 || m.Job("a").Status != fsm.Unclaimed || m.Job("a-1").Status != fsm.Dead {
		t.Errorf("an id of two lists: %+v", doc.Jobs)
	}
}

// TestOddTop checks that the fields of a legacy document other than jobs count as the
// nearest value, too.
func TestOddTop(t *testing.T) {
	for members, want := range map[string]string{
		``:                               "<nil> 0 0",
		`"broker":5`:                     "5 0 0",
		`"broker":null`:                  "<nil> 0 0",
		`"brokerHeartbeat":"1700"`:       "<nil> 1700 0",
		`"brokerHeartbeat":1700.9`:       "<nil> 1700 0",
		`"brokerHeartbeat":"soon"`:       "<nil> 0 0",
		`"brokerHeartbeat":null`:         "<nil> 0 0",
		`"completedTotal":-1`:            "<nil> 0 0",
		`"completedTotal":2.5`:           "<nil> 0 2",
		`"completedTotal":[]`:            "<nil> 0 0",
		`"jobs":null`:                    "<nil> 0 0",
		`"osqueue":null,"broker":{}`:     "{} 0 0",
		`"brokerBase64":5,"broker":"b"`:  "b 0 0",
		`"brokerHeartbeat":-5,"dead":{}`: "<nil> -5 0",
	} {
		doc, m := machine(t, []byte("{"+members+"}"))
		broker := "<nil>"
		if doc.Broker != nil {
			broker = *doc.Broker
		}
		if got := fmt.Sprint(broker, " ", doc.BrokerHeartbeat, " ", m.Meta().CompletedTotal); got != want {
			t.Errorf("{%s} is %s, want %s", members, got, want)
		}
	}
}

// TestOddOvertaken checks that a legacy broker only affects the list of jobs of a document
// of this program: the rest is read strictly.
func TestOddOvertaken(t *testing.T) {
	for _, members := range []string{
		`"dead":[{"id":"d","status":"deader"}]`, `"dead":[5]`, `"scheduled":{}`, `"workers":5`, `"completedTotal":"x"`, `"brokerHeartbeat":"x"`,
	} {
		text := `{"broker":"b","jobs":[{"id":"a","status":"unclaimed","type":1}],` + members + `,"osqueue":{"format":1}}`
		if doc, err := document.Decode([]byte(text)); err == nil {
			t.Errorf("%s was read as %+v", text, doc)
		}
	}
}

// TestOddPlaceOvertaken checks that a position that was never assigned does not exhaust the
// positions.
func TestOddPlaceOvertaken(t *testing.T) {
	_, m := machine(t, []byte(oddOvertaken(`"seq":9e18`)))
	if m.Meta().LastSeq != 11 || order(m) != "a next" {
		t.Errorf("last place %d, order %s", m.Meta().LastSeq, order(m))
	}
}

// own returns a document of this program.
func own(t *testing.T) string {
	t.Helper()
	return string(document.Encode(document.Inline(rich(t).View()), header, header.Address, header.Heartbeat))
}

func TestOursStaysStrict(t *testing.T) {
	text := strings.Replace(own(t), `"jobs":[`, `"jobs":[{"id":"x","status":"unclaimed","type":1},`, 1)
	if _, err := document.Decode([]byte(text)); err == nil {
		t.Error("a document of ours with a type that is a number was read")
	}
}
