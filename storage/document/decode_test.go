package document_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"osqueue/fsm"
	"osqueue/storage/document"
)

func TestDecodeErrors(t *testing.T) {
	top := func(members string) string { return `{"jobs":[],"osqueue":{"format":1},` + members + `}` }
	job := func(members string) string {
		return `{"osqueue":{"format":1},"jobs":[{"id":"a","status":"unclaimed"},{"id":"b","status":"unclaimed",` + members + `}]}`
	}
	cases := []struct{ text, want string }{
		{``, "the document is empty"},
		{"\n", "the document is empty"},
		{`null`, "must be an object, not null"},
		{`[]`, "must be an object, not an array"},
		{`{`, "unexpected EOF"},
		{`{"jobs":[`, "unexpected EOF"},
		{`{"jobs":[]`, "unexpected EOF"},
		{`{"jobs":[],}`, "invalid character"},
		{`{} {}`, "trailing data"},
		{`{}x`, "invalid character"},
		{`{"jobs":{}}`, "at /jobs"},
		{`{"jobs":[],"jobs":[]}`, `"jobs" occurs twice`},
		{`{"broker":null,"broker":null}`, `"broker" occurs twice`},
		{top(`"broker":5`), "at /broker (byte 44): must be a string, not a number"},
		{top(`"brokerHeartbeat":true`), "at /brokerHeartbeat"},
		{top(`"brokerHeartbeat":"soon"`), "must be an integer"},
		{top(`"brokerHeartbeat":1e30`), "out of range"},
		{top(`"brokerHeartbeat":99999999999999999999`), "out of range"},
		{top(`"completedTotal":-1`), "out of range"},
		{top(`"completedTotal":1.5`), "must be an integer"},
		{top(`"workers":5`), "at /workers"},
		{job(`"attempts":2147483648`), "at /jobs/1/attempts"},
		{job(`"type":{}`), "at /jobs/1/type"},
		{job(`"status":"sleeping"`), `at /jobs/1/status (byte 114): the status "sleeping" is not known`},
		{job(`"attemptEnd":"odd"`), `"odd" is not known`},
		{job(`"attemptEnd":3`), "must be a string, not a number"},
		{job(`"payloadBase64":"%"`), "at /jobs/1/payloadBase64"},
		{job(`"tags":"x"`), "at /jobs/1/tags"},
		{job(`"after":[5]`), "at /jobs/1/after/0"},
		{job(`"backoff":5`), "at /jobs/1/backoff"},
		{job(`"backoff":{"kind":"wild"}`), `"wild" is not known`},
		{job(`"backoff":{"jitter":256}`), "at /jobs/1/backoff/jitter"},
		{job(`"uniqueScope":"unknown"`), `"unknown" is not known`},
		{job(`"afterFailure":""`), `"" is not known`},
		{job(`"progress":{"percent":-1}`), "at /jobs/1/progress/percent"},
		{job(`"history":{}`), "at /jobs/1/history"},
		{job(`"history":[5]`), "at /jobs/1/history/0"},
		{job(`"history":[{"end":"completely"}]`), "at /jobs/1/history/0/end"},
		{top(`"queues":[{"paused":"no"}]`), "at /queues/0/paused"},
		{top(`"crons":[{"missed":"two"}]`), `"two" is not known`},
		{top(`"crons":[{"job":[]}]`), "at /crons/0/job"},
		{top(`"batches":[{"callback":{"maxAttempts":1.5}}]`), "at /batches/0/callback/maxAttempts"},
		{top(`"batches":[{"callbackOn":1}]`), "must be a string, not a number"},
		{top(`"requests":[{"fingerprintBase64":"%"}]`), "must be base64"},
		{top(`"requests":[{"items":[{"code":"unknown"}]}]`), "at /requests/0/items/0/code"},
		{top(`"turns":[7]`), "at /turns/0"},
		{top(`"holds":[],"holds":[]`), `"holds" occurs twice`},
		{job(`"id":null,"id":""`), "no id"},
		{`{"jobs":[{"id":"a"}],"osqueue":{"format":1}}`, "no status"},
		{`{"jobs":[null],"osqueue":{"format":1}}`, "at /jobs/0"},
		{`{"jobs":[{"id":"a","status":"unclaimed","type":5}]} {}`, "trailing data"},
		{`{"jobs":[{"type":5}],"osqueue":"gone"}`, "at /jobs/0/type"},
		{`{"jobs":[],"osqueue":"gone"}`, "at /osqueue"},
		{`{"jobs":[],"osqueue":{}}`, "the document has format 0"},
		{`{"jobs":[],"osqueue":{"format":3}}`, "the document has format 3"},
		{`{"jobs":[],"osqueue":{"format":1,"state":{"level":1000}}}`, "the document has feature level 1000"},
		{`{"jobs":[],"osqueue":{"format":2}}`, "the checkpoint is missing"},
		{`{"osqueue":{"format":1}}`, "no jobs"},
		{`{"jobs":[{"id":"a","status":"unclaimed","seq":"18446744073709551615"},{"id":"b","status":"unclaimed"}],
			"osqueue":{"format":1}}`, "out of range"},
		{`{"jobs":[{"id":"a","status":"unclaimed","seq":"9223372036854775808"}],"osqueue":{"format":1}}`, "out of range"},
	}
	for _, c := range cases {
		_, err := document.Decode([]byte(c.text))
		if !errors.Is(err, document.ErrFormat) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Decode(%s)\n  says %v\n  want %q", c.text, err, c.want)
		}
	}
}

func TestMachineErrors(t *testing.T) {
	for _, text := range []string{
		`"jobs":[{"id":"a","status":"unclaimed"},{"id":"a","status":"unclaimed"}]`,
		`"jobs":[{"id":"a","status":"unclaimed","attempts":-1}]`,
		`"jobs":[],"workers":[{"name":"w"},{"name":"w"}]`,
		`"jobs":[],"claims":[{"worker":"w","requestId":"r"}]`,
		`"jobs":[],"blocked":[{"id":"a","status":"blocked"}]`,
		`"jobs":[{"id":"a","status":"unclaimed","waitsFor":["b"]}]`,
		`"jobs":[],"queues":[{"type":"a"},{"type":"a"}]`,
		`"jobs":[],"crons":[{"name":"a"},{"name":"a"}]`,
		`"jobs":[],"crons":[{"name":"a","paused":true,"nextAt":9}]`,
		`"jobs":[],"batches":[{"id":"a"},{"id":"a"}]`,
		`"jobs":[],"holds":[{"type":"a","key":"k"},{"type":"a","key":"k"}]`,
		`"jobs":[],"requests":[{"key":"a"},{"key":"a"}]`,
		`"jobs":[{"id":"a","status":"unclaimed","group":"g"}],"turns":[{"group":"g","turn":1},{"group":"g","turn":2}]`,
	} {
		text := `{"osqueue":{"format":1},` + text + `}`
		doc, err := document.Decode([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := doc.Machine(); !errors.Is(err, fsm.ErrState) {
			t.Errorf("machine of %s: %v, want ErrState", text, err)
		}
	}
}

// TestLenient reads documents of people and their tools.
func TestLenient(t *testing.T) {
	doc, m := machine(t, []byte(` { "jobs" : [ {"status":"unclaimed","x":{"y":[1]},"id":"a\u0041\ud800","createdAt":1.7e12,
		"workerId":null,"attempts":"2","type":null,"payload":{"a":1,"a":2},"result":null} ],
		"later":{"jobs":[]}, "jobsBase64":5, "brokerHeartbeat":1700000000001.0, "osqueue":null, "broker":null } `))
	j := m.Job("aA\ufffd")
	if j == nil || j.CreatedAt != 1_700_000_000_000 || j.Attempts != 2 || string(j.Payload()) != `{"a":1,"a":2}` ||
		j.Execution().Worker != "" {
		t.Errorf("job %+v", j)
	}
	if doc.Broker != nil || doc.BrokerHeartbeat != 1_700_000_000_001 || doc.Header != nil {
		t.Errorf("document %+v", doc)
	}
}

// TestBase64Fields checks that a Base64 field only counts if it matches the plain field.
func TestBase64Fields(t *testing.T) {
	_, m := machine(t, []byte(`{"jobs":[
		{"id":"a\ufffd","idBase64":"Yf8=","status":"unclaimed","payloadBase64":"AA==","type":"\ufffd","typeBase64":["/w=="],
			"lastError":"","lastErrorBase64":[]},
		{"id":"b","status":"in_progress","payload":1,"payloadBase64":"AA==","workerId":"w","workerIdBase64":"/w==",
			"result":1,"resultBase64":"MSA="},
		{"id":"c","status":"in_progress","payload":2,"payloadBase64":"MSA=","workerIdBase64":"/w==","heartbeat":1}],
		"workers":[{"name":"w","types":["\ufffd","x"],"typesBase64":["/w==","eA=="]},
			{"name":"v","types":["y","x"],"typesBase64":["/w==","eA=="]}],"osqueue":{"format":1}}`))
	a, b, c := m.Job("a\xff"), m.Job("b"), m.Job("c")
	if a == nil || string(a.Payload()) != "\x00" || a.Type != "\ufffd" || a.Execution().LastError != "" {
		t.Errorf("a is %+v", a)
	}
	if string(b.Payload()) != "1" || b.Execution().Worker != "w" || string(b.Execution().Result) != "1 " {
		t.Errorf("b is %+v", b)
	}
	if string(c.Payload()) != "2" || c.Execution().Worker != fsm.Anonymous {
		t.Errorf("c is %+v", c)
	}
	m.View().Workers(func(w *fsm.Worker) bool {
		if want := map[string]string{"w": "\xff x", "v": "y x"}[w.Name]; strings.Join(w.Types, " ") != want {
			t.Errorf("worker %+v, want types %q", w, want)
		}
		return true
	})
}

func order(m *fsm.Machine) string {
	var ids []string
	m.View().Merged([]fsm.Status{fsm.Unclaimed, fsm.InProgress}, 0, func(j *fsm.Job) bool {
		ids = append(ids, j.ID)
		return true
	})
	return strings.Join(ids, " ")
}

// TestEditedOrder changes the list of jobs of a document of this program by hand.
func TestEditedOrder(t *testing.T) {
	checkpoint := func(jobs string) string {
		return `{"broker":"a","brokerHeartbeat":5,"jobs":[` + jobs + `],"osqueue":{"format":1,"address":"a","heartbeat":5,
			"state":{"now":7,"lastSeq":9}},"dead":[{"id":"d","status":"dead","seq":2}]}`
	}
	job := func(id, seq string) string {
		if seq != "" {
			seq = `,"seq":` + seq
		}
		return `{"id":"` + id + `","status":"unclaimed"` + seq + `}`
	}
	join := func(jobs ...string) string { return checkpoint(strings.Join(jobs, ",")) }
	cases := []struct {
		text, order string
		lastSeq     uint64
		kept        bool // a and b keep their positions
	}{
		{join(job("a", "1"), job("b", "8")), "a b", 9, true},
		{join(job("a", "1"), job("b", "8"), job("c", ""), job("e", "")), "a b c e", 11, true},
		{join(job("b", "8"), job("a", "1")), "b a", 11, false},
		{join(job("c", ""), job("a", "1"), job("b", "8")), "c a b", 12, false},
		{join(job("a", "1"), job("b", "1")), "a b", 11, false},
		{join(job("a", "2"), job("b", "8")), "a b", 11, false}, // the dead job has 2
		{join(job("a", "1"), job("b", "20")), "a b", 20, true},
	}
	for _, c := range cases {
		_, m := machine(t, []byte(c.text))
		kept := m.Job("a").Seq == 1 && m.Job("b").Seq > 1 && m.Job("b").Seq != 11
		if order(m) != c.order || m.Meta().LastSeq != c.lastSeq || kept != c.kept || m.Job("d").Seq != 2 || m.Meta().Now != 7 {
			t.Errorf("%s\n  has order %q, last %d, a at %d, b at %d; want %+v", c.text, order(m), m.Meta().LastSeq,
				m.Job("a").Seq, m.Job("b").Seq, c)
		}
	}
}

// TestHeaderWithoutState restores a document whose state was removed from the header.
func TestHeaderWithoutState(t *testing.T) {
	_, m := machine(t, []byte(`{"broker":"a","brokerHeartbeat":5,"jobs":[{"id":"a","status":"in_progress","heartbeat":77,
		"attempts":1,"token":30064771073}],"osqueue":{"format":1,"address":"a","heartbeat":5,"epoch":7,"term":3,"index":4,
		"lineage":"L","cluster":"C","node":"n"}}`))
	meta := m.Meta()
	if meta.Now != 77 || meta.Token != 7<<32+1 || meta.Broker.Epoch != 7 || meta.Lineage != "L" || meta.Cluster != "C" ||
		meta.LSN != (fsm.LSN{Term: 3, Index: 4}) {
		t.Errorf("meta %+v", meta)
	}
}

// TestEditedTurns edits jobs so that the turns do not match their groups any more.
func TestEditedTurns(t *testing.T) {
	_, m := machine(t, []byte(`{"osqueue":{"format":1,"state":{"lastTurn":7}},"jobs":[{"id":"a","status":"unclaimed","group":"b"},
		{"id":"b","status":"unclaimed","group":"a"},{"id":"c","status":"unclaimed","group":"c"},{"id":"d","status":"unclaimed","type":"t"}],
		"turns":[{"group":"gone","turn":3},{"group":"c","turn":12},{"type":"t","turn":5}]}`))
	var got []string
	m.View().Turns(func(turn *fsm.Turn) bool {
		got = append(got, fmt.Sprintf("%s%s%d", turn.Type, turn.Group, turn.Turn))
		return true
	})
	if strings.Join(got, " ") != "a14 b13 c12 t5" || m.Meta().LastTurn != 14 {
		t.Errorf("turns %q, last %d", got, m.Meta().LastTurn)
	}
}

func FuzzDecode(f *testing.F) {
	for _, rec := range recordedDocuments(f) {
		f.Add([]byte(rec.Response.DocumentText))
	}
	f.Add(document.Encode(document.Inline(rich(f).View()), header, "10.0.0.1:8080", 1_706_000_003_000))
	f.Add([]byte(`{"jobs":[7,{"id":"a","status":"x"},{"id":"a","attempts":-1,"createdAt":1e99}],"dead":[{"id":"a","type":[]}],"workers":1}`))
	for _, text := range detailed {
		f.Add([]byte(text))
	}
	f.Add([]byte(`{"broker":"b","jobs":[{"id":"a","seq":"9e9","type":5,"typeBase64":5},null],"osqueue":{"format":1,"state":{"lastSeq":3}}}`))
	f.Add([]byte(`{"jobs":[{"id":"a","status":"unclaimed","payloadBase64":"AA==","seq":"9007199254740993"}]}`))
	f.Add([]byte(`{"broker":"b","jobs":[{"idBase64":"/w==","status":"in_progress","workerIdBase64":"/w=="}],"osqueue":{"format":1}}`))
	f.Add([]byte(`{"schema":3,"broker":"b","a":{"b" : "\ud800"},"jobs":[{"id":"a","status":"unclaimed","note":1,"note":[2],"typeBase64":5,` +
		`"xBase64":null},{"id":"b","status":"in_progress","\ufffd":{}}],"osqueue":{"format":1},"jobsBase64":7,"dead":[{"x":1}]}`))
	past := document.Inline(rich(f).View())
	past.Archive = archive()
	f.Add(document.Encode(past, header, "10.0.0.1:8080", 1_706_000_003_000))
	past.InlineMax = 1
	f.Add(document.Encode(past, header, "10.0.0.1:8080", 1_706_000_003_000))
	f.Add(bytes.Replace(document.Encode(past, header, "10.0.0.1:8080", 1_706_000_003_000), []byte(`"counts":`), []byte(`"note":{"a":[]},"counts":`), 1))
	f.Add([]byte(`{"broker":"b","jobs":[7],"osqueue":{"format":2,"term":1,"index":4},"base":{"key":"b","lsn":"1-3"},` +
		`"tail":{"after":"1-3","last":"1-4","entries":1,"zstd":"AA=="}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		before := bytes.Clone(data)
		doc, err := document.Decode(data)
		if !bytes.Equal(data, before) {
			t.Fatal("Decode wrote to its input")
		}
		if err != nil {
			return
		}
		if doc.Large {
			checkLarge(t, doc)
			return
		}
		m, err := doc.Machine()
		if err != nil {
			return
		}
		h := document.Header{}
		if doc.Header != nil {
			h = *doc.Header
		}
		again, back := machine(t, document.Encode(document.Inline(m.View()), h, doc.BrokerAddress(), doc.BrokerHeartbeat))
		if again.Overtaken {
			t.Fatal("our own document counts as overtaken")
		}
		if back.View().Hash() != m.View().Hash() {
			t.Fatalf("the state changed on its way:\n%+v\n%+v", m.Meta(), back.Meta())
		}
	})
}

// FuzzHeader decodes documents with any header. A decoded header comes back unchanged from
// the document that Encode makes of it.
func FuzzHeader(f *testing.F) {
	h := header
	h.Handovers = []document.Handover{{Cluster: "before", Epoch: 2, Term: 3, Index: 4, LastSeq: 5, Token: 6, Now: 7}}
	written := document.Encode(document.Inline(rich(f).View()), h, "10.0.0.1:8080", 1_706_000_003_000)
	var top struct {
		Header jsontext.Value `json:"osqueue"`
	}
	if err := json.Unmarshal(written, &top, jsontext.AllowInvalidUTF8(true)); err != nil || len(top.Header) == 0 {
		f.Fatal(err, len(top.Header))
	}
	f.Add([]byte(top.Header))
	f.Add([]byte(`{"format":1,"lineage":"L","cluster":"C","epoch":7,"node":"n","term":3,"index":4,"write":"w","writes":["v","w"]}`))
	f.Add([]byte(`{"format":1,"writes":["\ud800",""],"lineageBase64":"/w==","handovers":[{},{"cluster":"","now":-1}],"state":{"level":1}}`))
	f.Add([]byte(`{"format":9}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := document.Decode(fmt.Appendf(nil, `{"broker":"b","brokerHeartbeat":5,"jobs":[],"osqueue":%s}`, data))
		if err != nil || doc.Header == nil || doc.Large {
			return
		}
		m, err := doc.Machine()
		if err != nil {
			return
		}
		want := *doc.Header
		again, _ := machine(t, document.Encode(document.Inline(m.View()), want, doc.BrokerAddress(), doc.BrokerHeartbeat))
		want.Format, want.Address, want.Heartbeat = again.Header.Format, doc.BrokerAddress(), doc.BrokerHeartbeat
		want.Term, want.Index = m.Meta().LSN.Term, m.Meta().LSN.Index
		if got := *again.Header; !sameHeader(&got, &want) {
			t.Fatalf("%+v came back as %+v", want, got)
		}
	})
}

// sameHeader compares two headers. An empty list equals a nil one.
func sameHeader(a, b *document.Header) bool {
	x, y := *a, *b
	if !slices.Equal(x.Writes, y.Writes) || !slices.Equal(x.Handovers, y.Handovers) {
		return false
	}
	x.Writes, y.Writes, x.Handovers, y.Handovers = nil, nil, nil, nil
	return reflect.DeepEqual(x, y)
}

// checkLarge checks that a decoded large document can be carried over unchanged.
func checkLarge(t *testing.T, doc *document.File) {
	c := contentOf(doc)
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	again, err := document.Decode(document.Encode(c, *doc.Header, doc.BrokerAddress(), doc.BrokerHeartbeat))
	if err != nil || again.Overtaken || again.Meta != doc.Meta || again.Counts != doc.Counts ||
		!reflect.DeepEqual(again.Archive, doc.Archive) {
		t.Fatalf("it came back as\n%+v\nand was\n%+v\n%v", again, doc, err)
	}
}

// TestForeignJSONIsRefused checks that JSON of another kind does not pass for a queue
// without jobs.
func TestForeignJSONIsRefused(t *testing.T) {
	for _, text := range []string{`{"hello":1}`, `{"name":"package","version":"1.0.0","scripts":{}}`} {
		if doc, err := document.Decode([]byte(text)); !errors.Is(err, document.ErrFormat) || !strings.Contains(err.Error(), "not a queue document") {
			t.Errorf("%s: %+v, %v", text, doc, err)
		}
	}
	for _, text := range []string{`{}`, `{"jobs":[]}`, `{"broker":null,"hello":1}`} {
		if _, err := document.Decode([]byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestFence checks that the header keeps the fence, and that a document of no leader has none.
func TestFence(t *testing.T) {
	f := document.Fence{
		Heartbeat: 3 * time.Second, Timeout: 10 * time.Second, Outage: 5 * time.Minute,
		Members:  []document.Member{{Name: "n1", Address: "127.0.0.1:1", Host: "here"}, {Name: "n2", Address: "10.0.0.2:1"}, {Name: "n3"}},
		Standbys: []string{"b", "c"},
	}
	for _, want := range []document.Fence{{}, f} {
		data := document.Encode(document.Inline(fsm.New().View()), document.Header{Lineage: "L", Fence: want}, "b:1", 1000)
		doc, err := document.Decode(data)
		if err != nil || !reflect.DeepEqual(doc.Fence(), want) {
			t.Errorf("%+v, %v, want %+v in %s", doc.Fence(), err, want, data)
		}
		doc.Overtaken = true
		if got := doc.Fence(); !reflect.DeepEqual(got, document.Fence{}) {
			t.Errorf("of a broker that knows none: %+v", got)
		}
	}
}
