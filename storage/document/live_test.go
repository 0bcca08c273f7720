package document_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"osqueue/fsm"
	"osqueue/storage/document"
)

// liveJobs returns the ids in the list liveJobs of a document; nil without the list.
func liveJobs(t *testing.T, data []byte) []string {
	t.Helper()
	var doc struct{ LiveJobs []struct{ ID string } }
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, j := range doc.LiveJobs {
		ids = append(ids, j.ID)
	}
	return ids
}

// fewLive returns a state with four jobs that have not ended, of all statuses, and many
// that have.
func fewLive(t *testing.T) *fsm.View {
	t.Helper()
	var ended strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&ended, `{"id":"c%d","status":"completed","finishedAt":1},`, i)
	}
	_, m := machine(t, []byte(`{"osqueue":{"format":1,"state":{"now":99,"lastToken":99}},
		"jobs":[{"id":"b","status":"unclaimed","seq":2,"payload":{"n":1}},{"id":"d","status":"in_progress","seq":4,"token":1}],
		"scheduled":[{"id":"a","status":"scheduled","seq":1,"runAt":999}],
		"blocked":[{"id":"c","status":"blocked","seq":3,"waitsFor":["a"]}],
		"finished":[`+strings.TrimSuffix(ended.String(), ",")+`],"dead":[{"id":"x","status":"dead"}]}`))
	return m.View()
}

// TestLiveJobs checks that a large document lists the jobs that have not ended, in the form
// of the list jobs, and that no reader takes them for a part of the document.
func TestLiveJobs(t *testing.T) {
	v := fewLive(t)
	c := document.Inline(v)
	inline := document.Encode(c, header, "a:1", 5)
	c.Archive, c.InlineMax = reaching(v.LSN()), 16<<10
	data, large := document.AppendTo(nil, c, header, "a:1", 5)
	if got := liveJobs(t, data); !large || !slices.Equal(got, []string{"a", "b", "c", "d"}) {
		t.Errorf("large %v, live jobs %v", large, got)
	}
	job := []byte(`{"id":"b","status":"unclaimed","payload":{"n":1},"createdAt":0,"attempts":0,"seq":2}`)
	if !bytes.Contains(inline, job) || !bytes.Contains(data, job) {
		t.Errorf("no %s in %s", job, data)
	}
	edited := bytes.Replace(data, []byte(`"liveJobs":[`), []byte(`"liveJobs":[5,`), 1)
	for _, text := range [][]byte{data, edited} {
		doc, err := document.Decode(text)
		if err != nil || len(doc.Jobs) != 0 || doc.Lost != 0 || doc.Meta != v.Meta() || doc.Counts != v.Counts() {
			t.Errorf("it is read as %+v (%v)", doc, err)
		}
	}
	c.State = nil // a renewal of a document that was taken over
	if data := document.Encode(c, header, "a:1", 5); liveJobs(t, data) != nil {
		t.Errorf("without a state it has live jobs: %s", data)
	}
}

// TestLiveJobsBound checks that the list is left out as a whole if it is too long, and that
// the encoder stops at the bound.
func TestLiveJobsBound(t *testing.T) {
	v := fewLive(t)
	size, fits := document.TryLiveJobs(v, 16<<10)
	if !fits || size > 1000 {
		t.Fatalf("the four live jobs take %d bytes (fit %v)", size, fits)
	}
	for bound, want := range map[int]bool{size: true, size - 1: false} {
		if n, fits := document.TryLiveJobs(v, bound); fits != want || n > size {
			t.Errorf("within %d: %d bytes appended, fit %v", bound, n, fits)
		}
	}
	if n, fits := document.TryLiveJobs(hundredThousand(), 64<<10); fits || n != 0 {
		t.Errorf("of a deep queue: %d bytes appended, fit %v", n, fits)
	}
	m := fsm.New()
	apply(t, m, 1, 1, enqueue(newJob("a", "1"), newJob("b", `"`+strings.Repeat("x", 1<<20)+`"`)))
	if n, fits := document.TryLiveJobs(m.View(), 64<<10); fits || n > 200 {
		t.Errorf("before a job with a large payload: %d bytes appended, fit %v", n, fits)
	}
	c := document.Inline(m.View())
	c.Archive, c.InlineMax = reaching(m.Meta().LSN), 1<<20
	if data, large := document.AppendTo(nil, c, header, "a:1", 5); !large || len(data) > 2000 || liveJobs(t, data) != nil {
		t.Errorf("large %v, %d bytes", large, len(data))
	}
	if n, fits := document.TryLiveJobs(fsm.New().View(), 64<<10); !fits || n != len(`"liveJobs":[]`) {
		t.Errorf("of an empty queue: %d bytes, fit %v", n, fits)
	}
}
