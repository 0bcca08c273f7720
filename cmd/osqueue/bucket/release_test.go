package bucket

import (
	"testing"
	"time"

	"osqueue/cmd/osqueue/view"
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
	if err != nil {
		t.Fatal(err)
	}
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
