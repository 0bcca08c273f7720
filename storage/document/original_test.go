package document_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"osqueue/fsm"
	"osqueue/storage/document"
)

var update = flag.Bool("update", false, "write the golden files anew")

// object is a JSON object with its fields in order.
type object []member

type member struct {
	name  string
	value json.RawMessage
}

func parseObject(t testing.TB, data []byte) object {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(data))
	if _, err := dec.Token(); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	var o object
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		m := member{name: name.(string)}
		if err := dec.Decode(&m.value); err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		o = append(o, m)
	}
	return o
}

// project keeps the named fields.
func (o object) project(names ...string) object {
	var kept object
	for _, m := range o {
		for _, name := range names {
			if m.name == name {
				kept = append(kept, m)
			}
		}
	}
	return kept
}

func (o object) String() string {
	var b strings.Builder
	for i, m := range o {
		b.WriteString([]string{"{", ","}[min(i, 1)] + `"` + m.name + `":` + string(m.value))
	}
	return b.String() + "}"
}

// asOriginal returns the fields of a document that a legacy broker reads, in the form in
// which it writes them.
func asOriginal(t testing.TB, data []byte) string {
	t.Helper()
	top := parseObject(t, data).project("broker", "brokerHeartbeat", "jobs", "completedTotal")
	for i, m := range top {
		if m.name != "jobs" {
			continue
		}
		var jobs []json.RawMessage
		if err := json.Unmarshal(m.value, &jobs); err != nil {
			t.Fatal(err)
		}
		var texts []string
		for _, j := range jobs {
			texts = append(texts, parseObject(t, j).project("id", "status", "payload", "type", "createdAt",
				"attempts", "maxAttempts", "workerId", "heartbeat").String())
		}
		top[i].value = json.RawMessage("[" + strings.Join(texts, ",") + "]")
	}
	return top.String()
}

type recordedDocument struct {
	Name     string
	Response struct{ DocumentText string }
}

func recordedDocuments(t testing.TB) []recordedDocument {
	t.Helper()
	data, err := os.ReadFile("testdata/original_documents.json")
	if err != nil {
		t.Fatal(err)
	}
	var all, docs []recordedDocument
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		if d.Response.DocumentText != "" {
			docs = append(docs, d)
		}
	}
	if len(docs) < 10 {
		t.Fatalf("only %d recorded documents", len(docs))
	}
	return docs
}

// TestOriginalDocuments reads legacy documents and writes them again: the legacy fields
// come out byte for byte, in the same order.
func TestOriginalDocuments(t *testing.T) {
	for _, rec := range recordedDocuments(t) {
		text := rec.Response.DocumentText
		doc, m := machine(t, []byte(text))
		if doc.Header != nil || doc.Overtaken {
			t.Errorf("%s: header %+v, overtaken %v", rec.Name, doc.Header, doc.Overtaken)
		}
		got := asOriginal(t, document.Encode(document.Inline(m.View()), header, doc.BrokerAddress(), doc.BrokerHeartbeat))
		want := asOriginal(t, []byte(text))
		if !strings.Contains(text, "completedTotal") { // an old document without a count gets one
			want = strings.TrimSuffix(want, "}") + `,"completedTotal":0}`
		}
		if got != want {
			t.Errorf("%s: came back as\n%s\nwant\n%s", rec.Name, got, want)
		}
	}
}

// TestOriginalState checks the values that the legacy fields do not show.
func TestOriginalState(t *testing.T) {
	doc, m := machine(t, []byte(`{"broker":"b","brokerHeartbeat":9000,"jobs":[
		{"id":"a","status":"unclaimed","createdAt":9500,"attempts":0},
		{"id":"b","status":"in_progress","createdAt":100,"attempts":2,"heartbeat":9100,"workerId":""},
		{"id":"c","status":"in_progress","createdAt":100,"attempts":1,"heartbeat":9200}],"completedTotal":41}`))
	meta := m.Meta()
	if meta.Now != 9500 || meta.LastSeq != 3 || meta.Token != 0 || meta.CompletedTotal != 41 || !meta.LSN.IsZero() ||
		meta.Settings != fsm.DefaultSettings() || doc.Lineage() != "" {
		t.Errorf("meta %+v", meta)
	}
	if a := m.Job("a"); a.Seq != 1 || a.MaxAttempts != fsm.MaxAttemptsUnset || a.Payload() != nil || a.Execution().Worker != "" {
		t.Errorf("a is %+v", a)
	}
	if b := m.Job("b"); b.Execution().Worker != "" || b.Execution().HeldMs != 30_000 || b.Execution().ClaimedAt != 9100 || b.Execution().Token != 0 || b.Attempts != 2 {
		t.Errorf("b is %+v", b)
	}
	if c := m.Job("c"); c.Execution().Worker != fsm.Anonymous {
		t.Errorf("c is %+v", c)
	}
}

// TestOriginalTakeover replays the recorded takeover: two jobs of a silent worker return to
// their positions, a job without attempts left leaves the queue, and a live worker keeps
// its job.
func TestOriginalTakeover(t *testing.T) {
	const now = 1_700_000_000_000
	text := strings.NewReplacer("$60", "1699999940000", "$90", "1699999910000", "$1", "1699999999000").Replace(
		`{"broker":"192.0.2.9:8080","brokerHeartbeat":$60,"jobs":[
		{"id":"1","status":"unclaimed","payload":{"n":1},"createdAt":$90,"attempts":0,"type":"email"},
		{"id":"2","status":"in_progress","payload":{"n":2},"createdAt":$90,"attempts":1,"workerId":"w-old","heartbeat":$1},
		{"id":"3","status":"in_progress","payload":{"n":3},"createdAt":$90,"attempts":1,"workerId":"w-gone","heartbeat":$60,"type":"sms"},
		{"id":"4","status":"in_progress","payload":{"n":4},"createdAt":$90,"attempts":3,"workerId":"w-gone","heartbeat":$60},
		{"id":"5","status":"in_progress","payload":{"n":5},"createdAt":$90,"attempts":3,"workerId":"w-gone","heartbeat":$60,"maxAttempts":5}
		],"completedTotal":41}`)
	_, m := machine(t, []byte(text))
	apply(t, m, 1, now) // expire the leases of the legacy broker, before the takeover extends the rest
	apply(t, m, 2, now, registerBroker("n1", "a:1", 1))
	got := asOriginal(t, document.Encode(document.Inline(m.View()), header, "a:1", now))
	want := strings.NewReplacer("$90", "1699999910000", "$1", "1699999999000").Replace(
		`{"broker":"a:1","brokerHeartbeat":1700000000000,"jobs":[` +
			`{"id":"1","status":"unclaimed","payload":{"n":1},"type":"email","createdAt":$90,"attempts":0},` +
			`{"id":"2","status":"in_progress","payload":{"n":2},"createdAt":$90,"attempts":1,"workerId":"w-old","heartbeat":$1},` +
			`{"id":"3","status":"unclaimed","payload":{"n":3},"type":"sms","createdAt":$90,"attempts":1},` +
			`{"id":"5","status":"unclaimed","payload":{"n":5},"createdAt":$90,"attempts":3,"maxAttempts":5}` +
			`],"completedTotal":41}`)
	if got != want {
		t.Fatalf("after the takeover\n%s\nwant\n%s", got, want)
	}
	if j := m.Job("4"); j == nil || j.Status != fsm.Dead {
		t.Errorf("job 4 is %+v, want it kept as dead", j)
	}
}

// TestGolden pins the form of a document with every kind of record.
func TestGolden(t *testing.T) {
	want := golden(t, "testdata/rich.json", document.Inline(rich(t).View()))
	if _, m := machine(t, want); m.View().Hash() != rich(t).View().Hash() {
		t.Error("the state changed on its way")
	}
	checkRich(t, string(want))
}

// checkRich checks that the rich document has every field.
func checkRich(t *testing.T, text string) {
	t.Helper()
	for _, members := range []string{
		"broker brokerHeartbeat jobs completedTotal osqueue scheduled blocked finished dead workers claims",
		"queues turns crons batches holds requests",
		"format lineage cluster epoch node address term index write writes heartbeat state",
		"now lastSeq lastToken leasesFrom lastTurn deadTotal cancelledTotal termBase settings",
		"maxAttempts leaseMs workerTimeoutMs retainCompletedMs retainCompletedCount requestMs requestCount maxJobs maxBytes maxPayload",
		"id status payload payloadBase64 type createdAt attempts workerId seq priority runAt token claimedAt heldMs attemptEnd",
		"finishedAt result lastError backoff kind baseMs capMs jitter timeoutMs group tags tagsBase64 uniqueKey uniqueScope uniqueMs",
		"after afterFailure batchId cron waitsFor attemptTimeoutMs cancelAt progress percent message at",
		"history number startedAt endedAt error end attemptLog",
		"name types version registeredAt lastSeen worker requestId leases job",
		"paused maxRunning maxRunningPerGroup rateMilli burst retainMs retainCount level levelAt turn",
		"spec timeZone overlap missed nextAt updatedAt lastAt lastJobId fired skipped missedCount",
		"total completed dead cancelled callback callbackOn called key until fingerprintBase64 items code count next",
	} {
		for name := range strings.FieldsSeq(members) {
			if !strings.Contains(text, `"`+name+`":`) {
				t.Errorf("the rich document has no %s", name)
			}
		}
	}
}
