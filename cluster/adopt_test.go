package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"osqueue/election"
	"osqueue/fsm"
	"osqueue/internal/storagetest/fault"
	"osqueue/internal/storagetest/recording"
	"osqueue/storage"
	"osqueue/storage/document"
)

// put writes the document without the cluster, as another broker would.
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

// A node adopts a document of a legacy broker. Jobs of that broker's dead workers return
// to the queue at once, at their old position; jobs of its live workers stay leased.
func TestOriginalDocumentIsAdopted(t *testing.T) {
	t.Parallel()
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

// A legacy broker that takes the document over keeps the header of this cluster. When it is
// silent, the jobs that it has added are enqueued, and a job that it has completed runs again.
func TestTenureOfAnOriginalBroker(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"the same cluster", "another one"} {
		l := newLab(t)
		first := l.leader(l.start("a", 1, nil)...)
		lsn := l.enqueue(first, "kept", "taken")
		l.eventually("the flush", func() bool { return l.document().Header.LSN().Compare(lsn) >= 0 })
		first.stop()
		before := l.document()
		l.put(originalTenure(t, []byte(l.stored())))
		var next *member
		if by == "another one" {
			next = l.leader(l.start("b", 1, nil)...)
		} else {
			next = l.leader(l.again(first, first.cfg.DataDir, nil))
		}
		if next.Job("kept") == nil || next.Job("theirs") == nil || next.Job("taken") == nil || l.copies() != 1 {
			t.Fatalf("%s: jobs: kept %v, theirs %v, taken %v; %d copies", by, next.Job("kept"), next.Job("theirs"), next.Job("taken"), l.copies())
		}
		l.eventually("the take-over to be written", func() bool { return l.document().Header.Epoch > before.Header.Epoch })
		if after := l.document().Header; after.LSN().Compare(before.Header.LSN()) <= 0 || after.Lineage != before.Header.Lineage {
			t.Fatalf("LSN %s after %s, lineage %s after %s", after.LSN(), before.Header.LSN(), after.Lineage, before.Header.Lineage)
		}
	}
}

// originalTenure returns the document after a legacy broker has worked on it and died:
// the broker completed one job, which it removed, and accepted one.
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

// A leader is deposed while it adopts a document, and elected again. It must not replace
// the writes that its successor has answered in between.
func TestAdoptionOfALostTerm(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.leader(l.start("n", 1, nil)...)
	l.enqueue(n, "first")
	l.eventually("the flush", func() bool { return l.document().Header.Counts[fsm.Unclaimed] == 1 })
	doc := election.Observed{Doc: l.document()}
	l.enqueue(n, "answered since")

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, adopt := range map[string]func() error{
		"a candidate whose term has ended": func() error { return n.leader.Adopt(ended, n.raft.CurrentTerm(), doc) },
		"an earlier term":                  func() error { return n.leader.Adopt(t.Context(), n.raft.CurrentTerm()-1, doc) },
	} {
		if err := adopt(); err == nil {
			t.Errorf("%s: the document is adopted", name)
		}
		if n.Job("answered since") == nil {
			t.Errorf("%s: a write that was answered is gone", name)
		}
	}
}

// The first heartbeat in an adopted document has the time when the document was written,
// and not a time from before its checkpoint was written. Otherwise another broker could
// take this one for dead at once.
func TestFirstHeartbeatAfterAnAdoption(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var based, beat int64 // ms
	l := newLab(t)
	l.put(`{"broker":"192.0.2.7:80","brokerHeartbeat":1,"completedTotal":5,"jobs":[]}`)
	slow := fault.New(recording.New(l.bucket, func(e recording.Entry) {
		mu.Lock()
		defer mu.Unlock()
		switch doc, err := document.Decode(e.Data); {
		case strings.HasSuffix(e.Key, "/manifest.json") && beat == 0: // the test does not wait for later ones
			based = time.Now().UnixMilli()
		case e.Key == DocumentKey && e.How == recording.Replaced && err == nil && beat == 0:
			beat = doc.BrokerHeartbeat
		}
	}), 1)
	slow.Inject(fault.Rule{Kind: fault.Slow, KeyPrefix: "base/", Delay: 300 * time.Millisecond})
	t.Cleanup(func() { _ = slow.Close() })
	l.bucket = slow
	l.leader(l.start("n", 1, nil)...)
	mu.Lock()
	defer mu.Unlock()
	if based == 0 || beat < based {
		t.Fatalf("the checkpoint was there at %d ms, and the first heartbeat is of %d", based, beat)
	}
}

// A candidate that takes longer to adopt a document than it may pause between two reads of it
// continues to read it, and takes it over without waiting for another broker timeout. It reads the
// state once, while it waits.
func TestSlowAdoption(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	large := func(c *Config) { c.Flush.TailMax, c.Flush.TailMin, c.Flush.CheckpointMin = 64, 16, 0 }
	a := l.leader(l.start("a", 1, large)...)
	l.enqueue(a, "kept")
	l.eventually("a checkpoint", func() bool {
		d := l.document()
		return d.Archive.Checkpoint.Key != "" && d.Header.Counts[fsm.Unclaimed] == 1
	})
	a.stop()
	counting := &countedReads{Bucket: l.bucket, of: make(map[string]int)}
	slow := fault.New(counting, 1)
	const timeout = 2 * time.Second // of the lab
	slow.Inject(fault.Rule{Kind: fault.Slow, Ops: []storage.Op{storage.OpGet}, KeyPrefix: "base/", Delay: 2 * timeout})
	t.Cleanup(func() { _ = slow.Close() })
	l.bucket = slow
	b := l.start("b", 1, large)[0]
	l.eventually("the adoption", func() bool { return b.Job("kept") != nil })
	adopted := time.Now()
	l.leader(b)
	if took := time.Since(adopted); took >= timeout {
		t.Errorf("active %v after the adoption: the candidate waited for another broker timeout", took)
	}
	counting.mu.Lock()
	defer counting.mu.Unlock()
	for key, n := range counting.of {
		if strings.HasPrefix(key, "base/") && n > 1 {
			t.Errorf("%s was read %d times", key, n)
		}
	}
}

// countedReads counts the reads of a bucket by key.
type countedReads struct {
	storage.Bucket
	mu sync.Mutex
	of map[string]int
}

// Get implements storage.Bucket.
func (c *countedReads) Get(ctx context.Context, key string) (storage.Object, error) {
	c.mu.Lock()
	c.of[key]++
	c.mu.Unlock()
	return c.Bucket.Get(ctx, key)
}

// A document that cannot be adopted, because the bucket has lost objects that it names, leaves the node a standby with the reason.
func TestDocumentThatCannotBeAdopted(t *testing.T) {
	t.Parallel()
	const head = `{"broker":"b:1","brokerHeartbeat":1,"completedTotal":0,%s"osqueue":{"format":%d,"lineage":"L","cluster":"B",` +
		`"epoch":4,"node":"n9","address":"b:1","term":3,"index":%s,"write":"w","heartbeat":1}%s}`
	const base = "base/L/00000000000000000003-00000000000000000008~3-8~0~A/manifest.json"
	for reason, data := range map[string]string{
		base: fmt.Sprintf(head, "", 1, "8", `,"checkpoint":{"key":"`+base+`","lsn":"3-8","prev":"3-8"},"tail":{"after":"3-8","last":"3-8"}`),
	} {
		l := newLab(t)
		l.put(data)
		n := l.start("n", 1, nil)[0]
		l.eventually("the reason", func() bool { return strings.Contains(n.Status().FenceReason, reason) })
		if got := n.Status().Fence; got != FenceStandby {
			t.Errorf("the node is %s", got)
		}
		n.stop()
	}
}

// Jobs that are added by hand while no leader is active, to a document that shows no jobs, are in
// the queue as soon as one is active, and no longer in the document.
func TestJobsAddedToADocumentWithoutJobs(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	bare := func(c *Config) { c.Flush.ViewMax = 2 }
	first := l.leader(l.start("a", 1, bare)...)
	l.enqueue(first, "kept")
	l.eventually("the flush", func() bool { d := l.document(); return !d.Viewed && d.Header.Counts[fsm.Unclaimed] == 1 })
	first.stop()
	l.put(strings.Replace(l.stored(), `"completedTotal":`, `"jobs":[{"id":"by-hand","status":"unclaimed","payload":7}],"completedTotal":`, 1))
	next := l.leader(l.start("b", 1, bare)...)
	if j := next.Job("by-hand"); j == nil || string(j.Payload()) != "7" || next.Job("kept") == nil {
		t.Fatalf("jobs: %+v, %+v", j, next.Job("kept"))
	}
	l.eventually("the document without them", func() bool {
		d := l.document()
		return !d.Viewed && d.Header.Counts[fsm.Unclaimed] == 2
	})
	if l.copies() != 1 || next.Status().Fence != FenceActive {
		t.Errorf("%d copies, the node is %s", l.copies(), next.Status().Fence)
	}
}

// A heartbeat in the future, from a dead broker whose clock was ahead, delays a takeover
// by at most the broker timeout, also when its time has become the machine's time.
func TestAHeartbeatThatLiesAheadIsAdopted(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ahead := time.Now().Add(time.Hour).UnixMilli()
	l.put(fmt.Sprintf(`{"broker":"192.0.2.7:80","brokerHeartbeat":%d,"completedTotal":5,"jobs":[]}`, ahead))
	n := l.leader(l.start("n", 1, func(c *Config) { c.StandbyRetry = 500 * time.Millisecond })...)
	if got := n.View().Meta().CompletedTotal; got != 5 {
		t.Errorf("completed %d in total, want 5", got)
	}
}

// A leader has adopted a document, and loses its leadership before the document's broker counts as
// dead. The next leader has that state in its log, and does not adopt the document again, although
// the state has changed since, as after the adoption of a legacy document.
func TestAdoptionCountsAfterAnElection(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a := l.leader(l.start("a", 1, nil)...)
	l.enqueue(a, "flushed")
	l.idle(a)
	a.stop()
	// The document's broker stays alive for as long as the test wants.
	nodes := l.start("n", 3, func(c *Config) { c.StandbyRetry = 200 * time.Millisecond })
	var first *member
	l.eventually("a leader of raft that waits", func() bool {
		for _, n := range nodes {
			if s := n.Status(); s.Fence == FenceStandby && strings.Contains(s.FenceReason, "alive") {
				first = n
			}
		}
		return first != nil
	})
	seen, err := election.Read(t.Context(), l.bucket, DocumentKey)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.leader.Adopt(t.Context(), first.raft.CurrentTerm(), seen); err != nil {
		t.Fatal(err)
	}
	if _, err := first.leader.Apply(t.Context(), time.Now().UnixMilli()); err != nil {
		t.Fatal(err)
	}
	l.eventually("all nodes to have the state", func() bool {
		for _, n := range nodes {
			if n.Job("flushed") == nil {
				return false
			}
		}
		return true
	})
	adopted := first.View().LSN()
	if err := first.raft.LeadershipTransfer().Error(); err != nil {
		t.Fatal(err)
	}
	next := l.leader(nodes...)
	if at := next.View().LSN(); at.Term >= adopted.Term+1<<10 || at.Compare(adopted) < 0 {
		t.Errorf("the state is at %s after the election, and was adopted at %s: it was adopted again", at, adopted)
	}
	if next.Job("flushed") == nil {
		t.Error("the job is gone")
	}
	if got := next.View().Meta().Adopted; got != "" {
		t.Errorf("the document has been written since it was adopted in version %q", got)
	}
}

// A legacy broker registers in the document of a leader that lives, whether the document shows the
// jobs or not. The leader stops. When that broker is silent, the cluster takes over with its own
// state, which is newer than that of the document.
func TestAnotherBrokerRegisters(t *testing.T) {
	t.Parallel()
	for name, viewMax := range map[string]int{"with jobs": 1 << 20, "without jobs": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			n := l.leader(l.start("n", 1, func(c *Config) { c.Flush.ViewMax = viewMax })...)
			l.flushed(n, l.enqueue(n, "kept"))
			epoch := l.document().Header.Epoch
			l.eventually("the registration", func() bool {
				obj, err := l.bucket.Get(t.Context(), DocumentKey)
				if err != nil {
					t.Fatal(err)
				}
				text := regexp.MustCompile(`"broker":"[^"]*","brokerHeartbeat":\d+`).ReplaceAllString(string(obj.Data),
					fmt.Sprintf(`"broker":"192.0.2.9:80","brokerHeartbeat":%d`, time.Now().UnixMilli()))
				return l.bucket.PutIfMatch(t.Context(), DocumentKey, []byte(text), obj.Version).Outcome == storage.Committed
			})
			l.eventually("the leader to stop", func() bool { s := n.Status(); return s.Fence != FenceActive })
			n = l.leader(n)
			if n.Job("kept") == nil {
				t.Error("a job is gone")
			}
			l.eventually("the take-over", func() bool {
				d := l.document()
				return !d.Overtaken && d.Header.Epoch > epoch && d.Header.Counts[fsm.Unclaimed] == 1
			})
			if l.copies() != 0 {
				t.Errorf("%d copies of a document in which nothing has changed", l.copies())
			}
		})
	}
}
