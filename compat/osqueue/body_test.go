package osqueue

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/compat"
	"osqueue/compat/compattest"
)

func TestLimitsAreTheAPIs(t *testing.T) {
	if l := core.DefaultLimits(); nameBytes != l.NameBytes || claimTypes != l.ClaimTypes {
		t.Errorf("the API's are %d and %d", l.NameBytes, l.ClaimTypes)
	}
}

// reread returns the target and the body of the call for a request.
func reread(t testing.TB, path, body string) (target, got string) {
	t.Helper()
	target, out, err := new(Handler).translate(&answer{r: httptest.NewRequest(http.MethodPost, path, nil)}, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return target, string(out)
}

const (
	longName = 300
	beatPath = "/v1/jobs/abc/heartbeat"
)

func TestBodiesAreReadAsTheOriginalDid(t *testing.T) {
	long := strings.Repeat("x", longName)
	for _, test := range []struct{ path, body, want string }{
		// A body that the API accepts keeps its bytes.
		{v1.PathClaim, ` { "workerId" : "w", "types":["a" , "b"],"waitMs":5 } `, ` { "workerId" : "w", "types":["a" , "b"],"waitMs":5 } `},
		{v1.PathClaim, `{"types":[]}`, `{"types":[]}`},
		{v1.PathClaim, `{"types":null}`, `{"types":null}`},
		{v1.PathClaim, `{"types":["\u0061"]}`, `{"types":["\u0061"]}`},
		{beatPath, `{"workerId":"w"}`, `{"workerId":"w"}`},
		{beatPath, `{}`, `{}`},
		// What neither reads stays, too.
		{v1.PathClaim, `{"types":`, `{"types":`},
		{v1.PathClaim, `{"types":[1]} {}`, `{"types":[1]} {}`},
		{v1.PathClaim, `[1]`, `[1]`},
		{v1.PathClaim, `null`, `null`},
		{v1.PathClaim, ``, ``},
		{v1.PathClaim, `{"types":5,"workerId":7}`, `{"types":5,"workerId":7}`},
		{beatPath, `{"workerId":7}`, `{"workerId":7}`},
		// Of a member that is there again the last one counts.
		{v1.PathClaim, `{"workerId":"a","x":1,"workerId":"b"}`, `{"x":1,"workerId":"b"}`},
		{v1.PathClaim, `{"workerId":"a","worker\u0049d":"b"}`, `{"worker\u0049d":"b"}`},
		{beatPath, `{"workerId":"a","workerId":"b"}`, `{"workerId":"b"}`},
		// A mark before the text, and bytes that are none.
		{v1.PathClaim, "\ufeff{\"workerId\":\"w\"}", `{"workerId":"w"}`},
		{v1.PathClaim, "\ufeff\ufeff{}", "\ufeff{}"},
		{v1.PathClaim, "{\"workerId\":\"\xff\"}", "{\"workerId\":\"\ufffd\"}"},
		// Types that no job has.
		{v1.PathClaim, `{"types":["a","` + long + `","a\u0000"]}`, `{"types":["a"]}`},
		{v1.PathClaim, `{"types":["` + long + `"]}`, `{"types":[""]}`},
		{v1.PathClaim, `{"types":[1,null,{},"a","a"]}`, `{"types":["a"]}`},
		{v1.PathClaim, `{"types":[1]}`, `{"types":[""]}`},
		{v1.PathClaim, `{"types":[""]}`, `{"types":[""]}`},
	} {
		target, got := reread(t, test.path, test.body)
		if got != test.want || target != test.path {
			t.Errorf("%s %q becomes %s %q, want %q", test.path, test.body, target, got, test.want)
		}
	}
}

func TestSubmissionsAreReadAsTheOriginalDid(t *testing.T) {
	for in, want := range map[string]string{
		`{"maxAttempts":5}`:                      `{"maxAttempts":5,`,
		`{"maxAttempts":0}`:                      `{"maxAttempts":0,`,
		`{"maxAttempts":2147483647}`:             `{"maxAttempts":2147483647,`,
		`{"maxAttempts":-1}`:                     `{"maxAttempts":0,`,
		`{"maxAttempts":1.5}`:                    `{"maxAttempts":2,`,
		`{"maxAttempts":2.0}`:                    `{"maxAttempts":2,`,
		`{"maxAttempts":1e2}`:                    `{"maxAttempts":100,`,
		`{"maxAttempts":2147483648}`:             `{"maxAttempts":2147483647,`,
		`{"maxAttempts":1e999}`:                  `{"maxAttempts":2147483647,`,
		`{"maxAttempts":-1e999}`:                 `{"maxAttempts":0,`,
		`{"maxAttempts":-0}`:                     `{"maxAttempts":0,`,
		`{"maxAttempts":"5"}`:                    `{"maxAttempts":"5",`,
		`{"maxAttempts":null}`:                   `{"maxAttempts":null,`,
		`{"payload":1,"payload":{"a":1,"a":2}}`:  `{"payload":{"a":1,"a":2},`,
		`{"payload":{"maxAttempts":-1}}`:         `{"payload":{"maxAttempts":-1},`,
		"\ufeff{\"payload\":1}":                  `{"payload":1,`,
		"{\"payload\":\"\xff\xfe\"}":             "{\"payload\":\"\ufffd\ufffd\",",
		`{"id":"a","status":"x","id":"b"}`:       `{"status":"x",`,
		`{"type":"a","type":null,"payload":[1]}`: `{"type":null,"payload":[1],`,
	} {
		_, got := reread(t, v1.PathJobs, in)
		if !strings.HasPrefix(got, want) || !jsontext.Value(got).IsValid(compat.Lenient) {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

func TestIDsAreAdded(t *testing.T) {
	for in, want := range map[string]string{
		`{}`:                        `{"id":"ID"}`,
		` { } `:                     `{"id":"ID"}`,
		`{"payload":{"id":"x"}}`:    `{"payload":{"id":"x"},"id":"ID"}`,
		`{"id":"mine","foo":1}`:     `{"id":"mine","foo":1}`,
		`{"id":"","payload":1}`:     `{"id":"ID","payload":1}`,
		`{"id":null}`:               `{"id":"ID"}`,
		`{"id": 5 ,"payload":1}`:    `{"id":"ID","payload":1}`,
		`{"id":{"a":1}}`:            `{"id":"ID"}`,
		`{"id":"a","status":"x"}`:   `{"id":"ID","status":"x"}`,
		`{"attempts":9,"id":"a"}`:   `{"attempts":9,"id":"ID"}`,
		`{"createdAt":1}`:           `{"createdAt":1,"id":"ID"}`,
		`{"payload":1}}`:            `{"payload":1}}`,
		`{"payload":1} {}`:          `{"payload":1} {}`,
		`{"payload" 1}`:             `{"payload" 1}`,
		`[1]`:                       `[1]`,
		``:                          ``,
		`{"payload":{"a":1,"a":2}}`: `{"payload":{"a":1,"a":2},"id":"ID"}`,
	} {
		_, got := reread(t, v1.PathJobs, in)
		if got = regexp.MustCompile(strings.Trim(uuid4.String(), "^$")).ReplaceAllString(got, "ID"); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

// A report with an impossible name goes to a job that does not exist.
func TestReportsOfStrangers(t *testing.T) {
	long := strings.Repeat("x", longName)
	for _, test := range []struct {
		path, body, want string
		stays            bool
	}{
		{beatPath, `{"workerId":"` + long + `"}`, `{"workerId":""}`, false},
		{beatPath, `{"workerId":"a\u0000"}`, `{"workerId":""}`, false},
		{"/v1/jobs/" + strings.Repeat("j", idMax+1) + "/heartbeat", `{"workerId":"w"}`, `{"workerId":"w"}`, false},
		{"/v1/jobs/" + strings.Repeat("%6A", idMax) + "/heartbeat", `{"workerId":"w"}`, `{"workerId":"w"}`, true},
		{beatPath, `{"workerId":"` + long + `","token":5}`, `{"workerId":"` + long + `","token":5}`, true},
		{"/v1/jobs/a%2Fb/heartbeat", `{"workerId":"w"}`, `{"workerId":"w"}`, true},
	} {
		target, got := reread(t, test.path, test.body)
		id, action, _ := strings.Cut(strings.TrimPrefix(target, "/v1/jobs/"), "/")
		if got != test.want || action != "heartbeat" || (target == test.path) != test.stays || !test.stays && !uuid4.MatchString(id) {
			t.Errorf("%.80s %.80s becomes %.80s %s", test.path, test.body, target, got)
		}
	}
}

// The API gets the values that JavaScript parses; a body that JavaScript does not parse
// stays for the API to refuse.
func FuzzBodies(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"maxAttempts":-1.5,"payload":[{"a":1}]}`, `{"types":["a",1,"a"],"workerId":"w","workerId":"v"}`, "\ufeff{\"a\":\"\xff\"}",
		`[`, `{"types":[[["x"]]]}`, `{"":0,"":1}`, `{"types":["` + strings.Repeat("x", longName) + `"]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, path := range []string{v1.PathClaim, beatPath, v1.PathJobs} {
			before, after := map[string]jsontext.Value{}, map[string]jsontext.Value{}
			plain := strings.TrimPrefix(string(validText(body)), "\ufeff")
			_, got := reread(t, path, string(body))
			if json.Unmarshal([]byte(plain), &before, compat.Lenient) != nil || !strings.HasPrefix(strings.TrimLeft(plain, " \t\r\n"), "{") {
				if got != plain {
					t.Fatalf("%q became %q", body, got)
				}
				continue
			}
			if err := json.Unmarshal([]byte(got), &after, namesOnce); err != nil {
				t.Fatalf("%q became %q: %v", body, got, err)
			}
			for _, name := range []string{"id", "maxAttempts", "types", "workerId"} {
				delete(before, name)
				delete(after, name)
			}
			if !reflect.DeepEqual(before, after) {
				t.Fatalf("%q became %q", body, got)
			}
		}
	})
}

// namesOnce refuses a field that occurs twice in the body, but not in a payload.
var namesOnce = json.WithUnmarshalers(json.UnmarshalFromFunc(func(dec *jsontext.Decoder, into *map[string]jsontext.Value) error {
	raw, err := dec.ReadValue()
	if err != nil {
		return err
	}
	members, ok := membersOf(raw)
	for i := range members {
		if _, twice := (*into)[members[i].name]; twice || !ok {
			return fmt.Errorf("%q is there twice", members[i].name)
		}
		(*into)[members[i].name] = members[i].value
	}
	return nil
}))

// Names that nothing can have are no error and match nothing, on each transport.
func TestNamesThatNothingHas(t *testing.T) {
	t.Parallel()
	c := start(t, 2, Limits{})
	long := strings.Repeat("x", longName)
	far := strings.Repeat("j", idMax+1)
	for who, n := range c.asked() {
		var job v1.ClaimedJob
		p := dial(t, n.address)
		readJSON(t, request(t, "POST", n.address, v1.PathJobs, `{"type":"t","maxAttempts":2.0}`), new(v1.Enqueued))
		var none claimed
		for _, types := range []string{`["` + long + `"]`, `["a\u0000"]`, `["` + long + `",""]`} {
			if got := request(t, "POST", n.address, v1.PathClaim, `{"workerId":"w","types":`+types+`}`); got.status != 200 || got.body != `{}` {
				t.Errorf("%s: REST claim: %d %s", who, got.status, got.body)
			}
			p.call("claimJob", `{"workerId":"w","types":`+types+`}`, &none)
			if got := request(t, "POST", n.address, rpcPrefix+"ClaimJob", `{"workerId":"w","types":`+types+`}`); got.status != 200 || got.body != `{}` {
				t.Errorf("%s: ClaimJob: %d %s", who, got.status, got.body)
			}
		}
		readJSON(t, request(t, "POST", n.address, v1.PathClaim, `{"workerId":"w","types":["`+long+`","t"]}`), &job)
		if job.JobID == "" || none.JobID != "" {
			t.Fatalf("%s: claimed %+v and %+v", who, job, none)
		}
		for _, action := range []string{"heartbeat", "complete"} {
			for _, path := range []string{job.JobID, far} {
				worker := long
				if path == far {
					worker = "w"
				}
				if got := request(t, "POST", n.address, v1.PathJobs+"/"+path+"/"+action, `{"workerId":"`+worker+`"}`); got.status != 204 {
					t.Errorf("%s: %s: %d %s", who, action, got.status, got.body)
				}
				method := map[string]string{"heartbeat": "heartbeat", "complete": "completeJob"}[action]
				p.call(method, `{"jobId":"`+path+`","workerId":"`+worker+`"}`, new(nothing))
				method = map[string]string{"heartbeat": "Heartbeat", "complete": "CompleteJob"}[action]
				if got := request(t, "POST", n.address, rpcPrefix+method, `{"jobId":"`+path+`","workerId":"`+worker+`"}`); got.status != 200 || got.body != `{}` {
					t.Errorf("%s: %s: %d %s", who, method, got.status, got.body)
				}
			}
		}
		var list v1.JobList
		readJSON(t, request(t, "GET", n.address, v1.PathJobs, ""), &list)
		if len(list.Jobs) != 1 || list.Jobs[0].Status != v1.StatusInProgress || list.Jobs[0].MaxAttempts != 2 {
			t.Errorf("%s: the job is %+v", who, list.Jobs)
		}
		p.close()
		c.reset()
	}
}

// A claim may name as many types as fit into a body.
func TestClaimOfManyTypes(t *testing.T) {
	t.Parallel()
	c := start(t, 2, Limits{})
	var names []string
	for i := range 100_000 {
		names = append(names, fmt.Sprintf("%06d", i))
	}
	filter := `["` + strings.Join(names, `","`) + `"]`
	for who, n := range c.asked() {
		p := dial(t, n.address)
		claim := map[string]func() (id string){
			"REST": func() string {
				var got v1.ClaimedJob
				readJSON(t, request(t, "POST", n.address, v1.PathClaim, `{"workerId":"w","types":`+filter+`}`), &got)
				return got.JobID
			},
			"WebSocket": func() string {
				var got claimed
				p.call("claimJob", `{"workerId":"w","types":`+filter+`}`, &got)
				return got.JobID
			},
			"Connect": func() string {
				var got struct {
					JobID string `json:"jobId"`
				}
				readJSON(t, request(t, "POST", n.address, rpcPrefix+"ClaimJob", `{"workerId":"w","types":`+filter+`}`), &got)
				return got.JobID
			},
		}
		for transport, one := range claim {
			began := time.Now()
			if id := one(); id != "" {
				t.Errorf("%s, %s: claimed %q of nothing", who, transport, id)
			}
			readJSON(t, request(t, "POST", n.address, v1.PathJobs, `{"type":"other"}`), new(v1.Enqueued))
			readJSON(t, request(t, "POST", n.address, v1.PathJobs, `{"type":"099999"}`), new(v1.Enqueued))
			first := one()
			if first == "" {
				t.Errorf("%s, %s: the job was not found", who, transport)
			}
			if again := one(); again != "" {
				t.Errorf("%s, %s: claimed %q, too", who, transport, again)
			}
			t.Logf("%s, %s: three claims of %d types took %s", who, transport, len(names), time.Since(began))
			c.reset()
		}
		// More than any other call may hold is refused, and not read in vain.
		p.send(`{"id":1,"method":"claimJob","params":{"types":[` + strings.Repeat(`"a",`, 2_000_000) + `"a"]}}`)
		if in := p.receive(); in.OK || in.Error.Tag != protocolError || !strings.Contains(in.Error.Message, "longer than") {
			t.Errorf("%s: %+v", who, in)
		}
		p.close()
	}
}

// A client that uses the API's features gets its errors.
func TestMistakesAreReported(t *testing.T) {
	t.Parallel()
	c := start(t, 2, Limits{})
	var many []string
	for i := range claimTypes + 1 {
		many = append(many, fmt.Sprint(i))
	}
	for who, n := range c.asked() {
		for _, test := range []struct {
			path, body string
			headers    []string
		}{
			{v1.PathJobs, `{"maxAttempts":-1}`, []string{"Accept", "application/json, application/problem+json"}},
			{v1.PathJobs, `{"maxAttempts":1.5}`, []string{"Prefer", "wait=5, Handling=Strict"}},
			{v1.PathJobs, `{"payload":1,"payload":2}`, []string{"Idempotency-Key", "k"}},
			{v1.PathClaim, `{"types":["` + strings.Repeat("x", longName) + `"]}`, []string{"Prefer", v1.PreferStrict}},
			{v1.PathClaim, `{"types":["` + strings.Join(many, `","`) + `"],"waitMs":1}`, nil},
			{v1.PathJobs + "/abc/heartbeat", `{"workerId":"` + strings.Repeat("w", longName) + `"}`, []string{"Prefer", v1.PreferStrict}},
		} {
			if got := request(t, "POST", n.address, test.path, test.body, test.headers...); got.status != 400 {
				t.Errorf("%s: %.40s %.40s %v: %d %.100s", who, test.path, test.body, test.headers, got.status, got.body)
			}
		}
	}
}

// A claim keeps the first thousand types with jobs, those with available jobs first.
func TestNarrow(t *testing.T) {
	stats := v1.Stats{Types: map[string]v1.TypeStats{
		"ended": {Completed: 5, Dead: 1}, "runs": {InProgress: 1}, "later": {Scheduled: 1}, "waits": {Unclaimed: 7}, "other": {Unclaimed: 1},
	}}
	for i := range claimTypes {
		stats.Types[fmt.Sprint("r", i)] = v1.TypeStats{InProgress: 1}
	}
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RequestURI() != v1.PathStats+"?types=true" {
			t.Errorf("asked %s", r.URL)
		}
		_ = json.MarshalWrite(w, &stats)
	})
	cfg := Config{Calls: compattest.API{Handler: api}}.withDefaults()
	n, c := newNative(&cfg), caller{ctx: t.Context()}
	ask := func(types ...string) []string {
		for i := range claimTypes {
			types = append(types, fmt.Sprint("none", i))
		}
		got, err := n.narrow(c, types)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := ask("ended", "runs", "later", "waits"); !reflect.DeepEqual(got, []string{"waits", "runs", "later"}) {
		t.Errorf("%q", got)
	}
	if got := ask("ended"); !reflect.DeepEqual(got, matchesNone) {
		t.Errorf("%q", got)
	}
	var all []string
	for i := range claimTypes {
		all = append(all, fmt.Sprint("r", i))
	}
	if got := ask(append(all, "waits")...); len(got) != claimTypes || got[0] != "waits" || got[1] != "r0" {
		t.Errorf("%d types: %q, …", len(got), got[:2])
	}
	if got, err := n.narrow(c, all); err != nil || len(got) != claimTypes {
		t.Errorf("%d types, %v", len(got), err)
	}
}

// A body of Connect may begin with a byte order mark, which TextDecoder skips.
func TestMarkBeforeConnect(t *testing.T) {
	t.Parallel()
	c := start(t, 1, Limits{})
	at := c.leader().address
	payload := base64.StdEncoding.EncodeToString([]byte(`{"a":1}`))
	for _, body := range []string{"\ufeff{\"payload\":\"" + payload + "\"}", "{\"payload\":\"" + payload + "\"}"} {
		if got := request(t, "POST", at, rpcPrefix+"SubmitJob", body); got.status != 200 {
			t.Errorf("%q: %d %s", body, got.status, got.body)
		}
	}
	for _, body := range []string{"\ufeff", "\ufeff\ufeff{}", ""} {
		if got := request(t, "POST", at, rpcPrefix+"GetStats", body); got.status != 400 {
			t.Errorf("%q: %d %s", body, got.status, got.body)
		}
	}
}
