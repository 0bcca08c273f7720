package document_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"testing"

	"osqueue/fsm"
	"osqueue/storage/document"
)

// originalJob is a job in the form of a legacy broker.
type originalJob struct {
	ID, Status  string
	Payload     json.RawMessage
	Type        string
	CreatedAt   int64
	Attempts    int32
	MaxAttempts *int32
	WorkerID    *string
	Heartbeat   int64
}

// originalDocument has the fields that a legacy broker reads.
type originalDocument struct {
	Broker          *string
	BrokerHeartbeat int64
	Jobs            []originalJob
	CompletedTotal  uint64
}

// transcripts is the directory of the project's recordings.
const transcripts = "../../compat/osqueue/testdata/transcripts/"

// recordedTexts returns all documents of the recordings by the names of their cases: the
// documents that brokers wrote, and those that they were started on.
func recordedTexts(t *testing.T) map[string][]byte {
	t.Helper()
	texts := make(map[string][]byte)
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
				texts[c.Name] = []byte(text)
			}
		}
	}
	if len(texts) < 35 {
		t.Fatalf("only %d documents", len(texts))
	}
	return texts
}

// TestOriginalJobs reads every recorded document: the jobs, in their order and with
// attempts, and the counter equal those in the text.
func TestOriginalJobs(t *testing.T) {
	jobs := 0
	for name, text := range recordedTexts(t) {
		want := readOriginal(t, name, text)
		doc, m := machine(t, text)
		if got := doc.BrokerAddress(); want.Broker != nil && got != *want.Broker || want.Broker == nil && doc.Broker != nil {
			t.Errorf("%s: the broker is %q", name, got)
		}
		if doc.BrokerHeartbeat != want.BrokerHeartbeat || m.Meta().CompletedTotal != want.CompletedTotal {
			t.Errorf("%s: heartbeat %d, completed %d, want %d, %d", name,
				doc.BrokerHeartbeat, m.Meta().CompletedTotal, want.BrokerHeartbeat, want.CompletedTotal)
		}
		var got []originalJob
		m.View().Merged([]fsm.Status{fsm.Unclaimed, fsm.InProgress}, 0, func(j *fsm.Job) bool {
			got = append(got, asOriginalJob(j))
			return true
		})
		if len(got) != len(want.Jobs) || len(got) > 0 && !reflect.DeepEqual(got, want.Jobs) {
			t.Errorf("%s: jobs\n%+v\nwant\n%+v", name, got, want.Jobs)
		}
		jobs += len(got)
	}
	if jobs < 15 {
		t.Errorf("only %d jobs", jobs)
	}
}

// readOriginal reads a document as a legacy broker does.
func readOriginal(t *testing.T, name string, text []byte) originalDocument {
	t.Helper()
	var d originalDocument
	var loose struct{ BrokerHeartbeat any }
	if err := json.Unmarshal(text, &loose); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if _, ok := loose.BrokerHeartbeat.(string); ok { // JavaScript still computes with it
		var quoted struct {
			BrokerHeartbeat int64 `json:",string"`
		}
		if err := json.Unmarshal(text, &quoted); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var all map[string]json.RawMessage
		if err := json.Unmarshal(text, &all); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		delete(all, "brokerHeartbeat")
		text, _ = json.Marshal(all)
		d.BrokerHeartbeat = quoted.BrokerHeartbeat
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return d
}

func asOriginalJob(j *fsm.Job) originalJob {
	o := originalJob{
		ID: j.ID, Status: j.Status.String(), Payload: j.Payload(), Type: j.Type, CreatedAt: j.CreatedAt,
		Attempts: j.Attempts, Heartbeat: j.Execution().Heartbeat,
	}
	if j.MaxAttempts != fsm.MaxAttemptsUnset {
		o.MaxAttempts = new(j.MaxAttempts)
	}
	if j.Status == fsm.InProgress && j.Execution().Worker != fsm.Anonymous {
		o.WorkerID = new(j.Execution().Worker)
	}
	return o
}

// TestOriginalReadsOurs writes every recorded state as a document of this program and lets
// a legacy broker take it over. The broker finds the same jobs and counter in it and keeps
// all other fields, so that Decode finds the state again and detects the takeover.
func TestOriginalReadsOurs(t *testing.T) {
	const address, ours = "192.0.2.9:8080", "10.0.0.1:8080"
	for name, text := range recordedTexts(t) {
		_, m := machine(t, text)
		now := m.Meta().Now
		doc := document.Encode(document.Inline(m.View()), header, ours, now)
		before := readOriginal(t, name, doc)
		want := readOriginal(t, name, text)
		if !reflect.DeepEqual(before.CompletedTotal, want.CompletedTotal) || len(before.Jobs) != len(want.Jobs) {
			t.Errorf("%s: the original reads %+v, and wrote %+v", name, before, want)
			continue
		}
		for i := range want.Jobs {
			if !reflect.DeepEqual(before.Jobs[i], want.Jobs[i]) {
				t.Errorf("%s: the original reads job %+v, and wrote %+v", name, before.Jobs[i], want.Jobs[i])
			}
		}

		taken := takeOver(t, doc, address, now+60_000)
		after, again := machine(t, taken)
		switch {
		case !after.Overtaken || after.BrokerAddress() != address:
			t.Errorf("%s: overtaken is %v, the broker %s", name, after.Overtaken, after.BrokerAddress())
		case after.Header == nil || after.Header.LSN() != header.LSN() || after.Header.Write != header.Write || after.Lineage() != header.Lineage:
			t.Errorf("%s: the header is %+v", name, after.Header)
		case asOriginal(t, doc) == asOriginal(t, taken):
			t.Errorf("%s: the original has changed nothing", name)
		case again.Meta().CompletedTotal != m.Meta().CompletedTotal || again.Counts() != m.Counts():
			t.Errorf("%s: came back as %+v, was %+v", name, again.Counts(), m.Counts())
		}
		if got, want := membersOf(t, taken), membersOf(t, doc); !slices.Equal(got, want) {
			t.Errorf("%s: members %v, were %v", name, got, want)
		}
	}
}

// takeOver returns the document that a legacy broker writes at its start: with its address and
// heartbeat, and all else as it was.
func takeOver(t *testing.T, doc []byte, address string, now int64) []byte {
	t.Helper()
	for field, value := range map[string]string{
		`"broker":("[^"]*"|null)`: fmt.Sprintf(`"broker":%q`, address), `"brokerHeartbeat":\d+`: fmt.Sprintf(`"brokerHeartbeat":%d`, now),
	} {
		at := regexp.MustCompile(field).FindIndex(doc)
		if at == nil {
			t.Fatalf("no %s in %s", field, doc)
		}
		doc = slices.Concat(doc[:at[0]], []byte(value), doc[at[1]:])
	}
	return doc
}

func membersOf(t *testing.T, doc []byte) []string {
	t.Helper()
	var all map[string]json.RawMessage
	if err := json.Unmarshal(doc, &all); err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(all))
}

// TestOriginalUnknownMembers takes over the recorded fields that neither system knows. A
// legacy broker and this program keep them, except the tags of a job, which have the name
// of a field of this package.
func TestOriginalUnknownMembers(t *testing.T) {
	texts := recordedTexts(t)
	for name, want := range map[string]struct {
		top, job []string
		lost     int
	}{
		"document/18 a document with unknown members, after a broker started: they are kept": {top: []string{"schema", "extra"}, lost: 1},
		"election/30 unknown members are kept":                                               {top: []string{"version", "meta"}, job: []string{"note"}},
	} {
		text := texts[name]
		doc, m := machine(t, text)
		if doc.Lost != want.lost {
			t.Errorf("%s: %d are lost, want %d", name, doc.Lost, want.lost)
		}
		out := document.Encode(document.Inline(m.View()), header, "a:1", 1)
		sameMembers(t, name, text, out, want.top)
		sameMembers(t, name, firstJob(t, text), firstJob(t, out), want.job)
		if len(want.job) == 0 && bytes.Contains(firstJob(t, out), []byte("tags")) {
			t.Errorf("%s: somebody else's tags mean something: %s", name, out)
		}
	}
}

// sameMembers compares fields of two objects byte for byte, without white space.
func sameMembers(t *testing.T, what string, before, after []byte, names []string) {
	t.Helper()
	var was, is map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(before, &was), json.Unmarshal(after, &is)); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		var want bytes.Buffer
		if err := json.Compact(&want, was[name]); err != nil {
			t.Fatal(err)
		}
		if string(is[name]) != want.String() {
			t.Errorf("%s: the member %s is %s, was %s", what, name, is[name], want.String())
		}
	}
}

func firstJob(t *testing.T, doc []byte) []byte {
	t.Helper()
	var d struct{ Jobs []json.RawMessage }
	if err := json.Unmarshal(doc, &d); err != nil || len(d.Jobs) == 0 {
		t.Fatalf("%v, or no job in %s", err, doc)
	}
	return d.Jobs[0]
}
