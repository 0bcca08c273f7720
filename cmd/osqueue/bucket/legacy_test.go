package bucket

import (
	"strings"
	"testing"

	"osqueue/cmd/osqueue/view"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage/document"
)

// The way back: the printed document has the jobs and nothing of this program.
func TestLegacyPrintsTheWayBack(t *testing.T) {
	r := story(t, true)
	got := offlineRun(t, "bucket", "legacy", r.url())
	if got.Code != view.ExitOK {
		t.Fatalf("%+v", got)
	}
	doc, err := document.Decode([]byte(got.Out))
	if err != nil || doc.Header != nil {
		t.Fatalf("%v in %s", err, got.Out)
	}
	m, err := doc.Legacy()
	if err != nil || m.Counts() != (fsm.Counts{fsm.Unclaimed: 4}) || m.Meta().CompletedTotal != r.m.Meta().CompletedTotal {
		t.Errorf("%v, %v of %v in %s", err, m.Counts(), r.m.Counts(), got.Out)
	}
	fails(t, []string{"bucket", "legacy", r.url() + "-not"}, "has no queue.json")
}

// A payload that is not JSON has no place in the legacy form: the command names its job.
func TestLegacyNamesPayloadsThatAreNotJSON(t *testing.T) {
	r := newRecorded(t)
	r.enqueue("mail", "m1")
	op := &fsmpb.Enqueue{Jobs: []*fsmpb.NewJob{{Id: "raw", Type: "mail", Payload: []byte("not JSON")}}}
	r.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: op}})
	r.flush(true, begunAt)
	got := offlineRun(t, "bucket", "legacy", r.url())
	if got.Code != view.ExitFailure || !strings.Contains(got.Err, "the payloads of 1 job, because they are not JSON: raw\n") || !strings.Contains(got.Out, `"m1"`) {
		t.Errorf("%+v", got)
	}
}
