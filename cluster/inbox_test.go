package cluster

import (
	"errors"
	"testing"
	"time"

	"osqueue/fsm/fsmpb"
	"osqueue/storage"
)

// A file that a producer puts into the inbox becomes a job of the cluster, and is removed
// when the document contains the job.
func TestDropBox(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.leader(l.start("n", 3, func(c *Config) {
		c.InboxInterval = 10 * time.Millisecond
		c.ReadJob = func(func() int64) func(string, []byte) (*fsmpb.Mutation, error) { return readDropped }
	})...)
	for id, payload := range map[string]string{"good": `{"n":1}`, "bad": `no`} {
		if w := l.bucket.PutIfAbsent(t.Context(), "inbox/"+id+".json", []byte(payload)); w.Outcome != storage.Committed {
			t.Fatal(w)
		}
	}
	l.eventually("the good one to be a job", func() bool { return n.Job("good") != nil })
	l.eventually("both to be out of the box", func() bool { return l.absent("inbox/good.json") && l.absent("inbox/bad.json") })
	doc := l.document()
	found := false
	for _, j := range doc.Jobs {
		found = found || j.ID == "good"
	}
	if !found {
		t.Error("the file is gone and the document does not have the job")
	}
	if l.absent("inbox-rejected/bad.json") {
		t.Error("the bad one was not kept")
	}
	if s := n.Status().Inbox; s.Taken != 1 || s.Rejected != 1 {
		t.Errorf("%+v", s)
	}
}

func (l *lab) absent(key string) bool {
	_, err := l.bucket.Get(l.t.Context(), key)
	return errors.Is(err, storage.ErrNotFound)
}

func readDropped(id string, data []byte) (*fsmpb.Mutation, error) {
	if string(data) == "no" {
		return nil, errors.New("it is no job")
	}
	op := &fsmpb.Enqueue{Jobs: []*fsmpb.NewJob{{Id: id, Type: "t", Payload: data}}}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: op}}, nil
}
