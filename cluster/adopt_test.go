package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"osqueue/fsm"
	"osqueue/storage"
)

// put writes the document as somebody else would.
func (l *lab) put(data string) {
	l.t.Helper()
	obj, err := l.bucket.Get(l.t.Context(), DocumentKey)
	var r storage.Write
	if err != nil {
		r = l.bucket.PutIfAbsent(l.t.Context(), DocumentKey, []byte(data))
	} else {
		r = l.bucket.PutIfMatch(l.t.Context(), DocumentKey, []byte(data), obj.Version)
	}
	if r.Outcome != storage.Committed {
		l.t.Fatalf("put the document: %v", r)
	}
}

// An original broker's document: what its dead workers held goes back to the
// queue at once, in its place; what a live one holds stays.
func TestOriginalDocumentIsAdopted(t *testing.T) {
	l := newLab(t)
	now := time.Now().UnixMilli()
	const job = `{"id":"%s","status":"%s","payload":{"n":1},"createdAt":1,"attempts":1,"maxAttempts":3%s}`
	held := func(id string, heartbeat int64) string {
		return fmt.Sprintf(job, id, "in_progress", fmt.Sprintf(`,"workerId":"w","heartbeat":%d`, heartbeat))
	}
	l.put(fmt.Sprintf(`{"broker":"192.0.2.7:80","brokerHeartbeat":%d,"completedTotal":5,"jobs":[%s,%s,%s]}`,
		now-60_000, held("abandoned", now-120_000), held("alive", now), fmt.Sprintf(job, "waiting", "unclaimed", "")))
	n := l.leader(l.start("n", 1, nil)...)
	for id, want := range map[string]fsm.Status{"abandoned": fsm.Unclaimed, "alive": fsm.InProgress, "waiting": fsm.Unclaimed} {
		j := n.Job(id)
		if j == nil || j.Status != want {
			t.Errorf("job %s is %+v, want it %s", id, j, want)
		}
	}
	if got := n.View().Meta().CompletedTotal; got != 5 {
		t.Errorf("completed %d in total, want 5", got)
	}
	l.eventually("a header of ours", func() bool { h := l.document().Header; return h != nil && h.Lineage != "" })
}

// An original broker that takes our document over leaves our header as it was.
// What we write after its tenure must not share an LSN with what we wrote
// before.
func TestTenureOfAnOriginalBroker(t *testing.T) {
	l := newLab(t)
	first := l.leader(l.start("a", 1, nil)...)
	lsn := l.enqueue(first, "kept", "taken")
	l.eventually("the flush", func() bool { return l.document().Header.LSN().Compare(lsn) >= 0 })
	first.stop()
	before := l.document()

	obj, err := l.bucket.Get(t.Context(), DocumentKey)
	if err != nil {
		t.Fatal(err)
	}
	l.put(originalTenure(t, obj.Data))
	next := l.leader(l.start("b", 1, nil)...)
	if next.Job("kept") == nil || next.Job("theirs") == nil || next.Job("taken") != nil {
		t.Fatalf("jobs: kept %v, theirs %v, taken %v", next.Job("kept"), next.Job("theirs"), next.Job("taken"))
	}
	l.eventually("the take-over to be written", func() bool { return l.document().Header.Epoch > before.Header.Epoch })
	if after := l.document().Header; after.LSN().Compare(before.Header.LSN()) <= 0 || after.Lineage != before.Header.Lineage {
		t.Fatalf("LSN %s after %s, lineage %s after %s", after.LSN(), before.Header.LSN(), after.Lineage, before.Header.Lineage)
	}
}

// originalTenure is the document after an original broker has worked on it,
// and died: it completed one job, which it drops, and took one in.
func originalTenure(t *testing.T, data []byte) string {
	t.Helper()
	var doc map[string]json.RawMessage
	var jobs []json.RawMessage
	if err := errors.Join(json.Unmarshal(data, &doc), json.Unmarshal(doc["jobs"], &jobs)); err != nil {
		t.Fatal(err)
	}
	jobs = slices.DeleteFunc(jobs, func(j json.RawMessage) bool { return strings.Contains(string(j), `"taken"`) })
	jobs = append(jobs, json.RawMessage(`{"id":"theirs","status":"unclaimed","payload":{},"createdAt":2,"attempts":0,"maxAttempts":3}`))
	if len(jobs) != 2 {
		t.Fatalf("%d jobs in %s", len(jobs), data)
	}
	var err error
	if doc["jobs"], err = json.Marshal(jobs); err != nil {
		t.Fatal(err)
	}
	doc["broker"], doc["brokerHeartbeat"], doc["completedTotal"] = []byte(`"192.0.2.9:80"`), []byte("3"), []byte("1")
	out, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
