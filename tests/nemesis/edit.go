package nemesis

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"osqueue/storage"
	"osqueue/tests/cluster"
	"osqueue/tests/history"
)

// editBetween adds a job to the document by hand while no node runs. The next leader
// has to take it in, and to keep a copy of what was edited.
func editBetween(w *World, s *history.FaultSpan) func() {
	w.Cluster.KillAll()
	w.Store.Settle()
	b, ctx := w.Store.Bucket(), w.Cluster.Context(time.Minute)
	restart := func() { w.start(w.Cluster.Nodes...) }
	o, err := b.Get(ctx, docKey)
	if err != nil {
		w.T.Fatal(err)
	}
	id := uuid.NewString()
	job := `{"id":"` + id + `","status":"unclaimed","payload":7,"createdAt":1,"attempts":0}`
	edited := strings.Replace(string(o.Data), `"jobs":[`, `"jobs":[`+job+`,`, 1)
	if edited = strings.Replace(edited, job+`,]`, job+`]`, 1); edited == string(o.Data) { // it shows no jobs
		edited = strings.Replace(edited, `"completedTotal":`, `"jobs":[`+job+`],"completedTotal":`, 1)
	}
	// An edit is never acknowledged: its outcome stays unknown.
	w.Rec.Op(w.Rec.Begin(history.Op{
		Client: "nemesis", Kind: history.Enqueue, Job: id, Payload: "7", Outcome: history.Unknown, Error: "written into the document",
	}))
	if r := b.PutIfMatch(ctx, docKey, []byte(edited), o.Version); r.Outcome != storage.Committed {
		w.T.Fatalf("edit the document: %s %v", r.Outcome, r.Err)
	}
	w.copies++
	return func() {
		restart()
		w.Cluster.Eventually(cluster.LeaderTimeout, "the job that was written into the document", func() error {
			j, err := w.job(id)
			if err == nil {
				s.Hit(fmt.Sprintf("job %s was written into the document, and is %s", id, j.Status))
			}
			return err
		})
		if n := len(w.conflicts()); n < w.copies {
			w.T.Errorf("%d copies of edited documents, after %d edits", n, w.copies)
		}
	}
}

// conflicts returns the keys of the copies of documents that a leader has taken for
// edited. The jobs and records that a fenced cluster could not carry over have copies too,
// which are not counted.
func (w *World) conflicts() (keys []string) {
	err := w.Store.Bucket().List(w.Cluster.Context(time.Minute), "conflicts/", func(i storage.Info) bool {
		if !strings.Contains(i.Key, "-jobs-") && !strings.Contains(i.Key, "-records-") {
			keys = append(keys, i.Key)
		}
		return true
	})
	if err != nil {
		w.T.Error(err)
	}
	return keys
}
