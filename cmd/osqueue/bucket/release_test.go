package bucket

import (
	"strings"
	"testing"
	"time"

	"osqueue/cmd/osqueue/view"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage/archive"
	"osqueue/storage/document"
)

// A document is given up only if its cluster does not write it any more; the rest of it stays.
func TestRelease(t *testing.T) {
	r := newRecorded(t)
	r.next = 100 * time.Millisecond
	r.flush(false, time.Now())
	if got := offlineRun(t, "bucket", "release", r.url()); got.Code != view.ExitUsage {
		t.Errorf("without a confirmation: %+v", got)
	}

	ended := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
				r.flush(false, time.Now())
			}
		}
	}()
	fails(t, []string{"bucket", "release", "--yes", r.url()}, "is alive")
	close(stop)
	<-ended

	before := r.document()
	if got := offlineRun(t, "bucket", "release", "--yes", r.url()); got.Code != view.ExitOK {
		t.Fatalf("%+v", got)
	}
	after := r.document()
	if after.Broker != nil || after.Overtaken || after.Edited || after.Header.LSN() != before.Header.LSN() || after.Header.Cluster != before.Header.Cluster {
		t.Errorf("after the release: broker %v, overtaken %v, %+v", after.Broker, after.Overtaken, after.Header)
	}
	m, err := archive.Machine(t.Context(), r.bucket, after)
	check(t, err)
	want, err := archive.Machine(t.Context(), r.bucket, before)
	if err != nil || m.View().Hash() != want.View().Hash() {
		t.Errorf("the state has changed: %v", err)
	}
}

// document reads the document.
func (r *recorded) document() *document.File {
	r.t.Helper()
	o, err := look(r.ctx(), r.bucket)
	if err != nil || o.err != nil {
		r.t.Fatal(err, o.err)
	}
	return o.doc
}

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
