package cluster

import (
	"context"
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
	slow.Inject(fault.Rule{Kind: fault.Slow, KeyPrefix: "checkpoint/", Delay: 300 * time.Millisecond})
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
	var mu sync.Mutex
	reads := make(map[string]int) // by key
	slow := fault.New(storage.Decorate(l.bucket, func(ctx context.Context, c storage.Call, next func(context.Context) storage.Answer) storage.Answer {
		if c.Op == storage.OpGet {
			mu.Lock()
			reads[c.Key]++
			mu.Unlock()
		}
		return next(ctx)
	}), 1)
	const timeout = 2 * time.Second // of the lab
	slow.Inject(fault.Rule{Kind: fault.Slow, Ops: []storage.Op{storage.OpGet}, KeyPrefix: "checkpoint/", Delay: 2 * timeout})
	t.Cleanup(func() { _ = slow.Close() })
	l.bucket = slow
	b := l.start("b", 1, large)[0]
	l.eventually("the adoption", func() bool { return b.Job("kept") != nil })
	adopted := time.Now()
	l.leader(b)
	if took := time.Since(adopted); took >= timeout {
		t.Errorf("active %v after the adoption: the candidate waited for another broker timeout", took)
	}
	mu.Lock()
	defer mu.Unlock()
	for key, n := range reads {
		if strings.HasPrefix(key, "checkpoint/") && n > 1 {
			t.Errorf("%s was read %d times", key, n)
		}
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
