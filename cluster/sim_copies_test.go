package cluster

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"osqueue/cluster/raftlog"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/storagetest"
	"osqueue/internal/storagetest/script"
	"osqueue/storage"
	"osqueue/storage/archive"
)

// copyFaults returns the faults in which a disk or the document is not the one that the
// nodes wrote last.
func copyFaults() []simFault {
	return []simFault{
		{name: "log lost", times: 2, alone: true, begin: (*simRun).loseLog},
		{name: "disks copied", times: 1, alone: true, loses: true, begin: (*simRun).copyDisks},
		{name: "edited between leaders", times: 2, alone: true, begin: (*simRun).editBetween},
	}
}

// loseLog crashes all three nodes and restarts two: one that lags, and one whose log is
// lost, or replaced by an older copy, while its identity and its witness are kept. The
// second must refuse to start: with its vote the first would lead without the writes that
// were acknowledged since.
func (s *simRun) loseLog() func() string {
	lead, lagging := s.leader(), s.follower()
	if lead == nil || len(s.a.nodes) != 3 {
		return nil
	}
	var lost *simNode
	for _, n := range s.a.nodes {
		if n != lagging && n != lead {
			lost = n
		}
	}
	lagging.crash()
	older := lost.mark(false).image(0)
	s.pass(6)
	time.Sleep(2 * raftlog.WitnessInterval)
	lead.crash()
	lost.crash()
	if s.r.IntN(2) == 0 {
		older = nil
	}
	lost.replace(lost.mark(false).withoutLog(older))
	lagging.start()
	refusal := lost.tryStart()
	time.Sleep(3 * time.Second)
	return func() string {
		if s.a.active() != nil {
			s.failf("%s and %s lead without the only node that has everything", lagging.name, lost.name)
		}
		lead.start()
		if lost.alive() == nil {
			lost.wipe()
		}
		if !s.calm() || refusal == nil {
			return ""
		}
		return fmt.Sprintf("%s refused to start: %v", lost.name, refusal)
	}
}

// copiesLack is the number of entries of the document that the copies of disks lack, at
// least: more than an election adds.
const copiesLack = 20

// copyDisks restarts the cluster on copies of its disks that were made before the last
// election. The cluster has to take the document over, which is newer.
func (s *simRun) copyDisks() func() string {
	lead := s.leader()
	if lead == nil {
		return nil
	}
	copies, reached := make([]*simDisk, len(s.a.nodes)), uint64(0)
	for i, n := range s.a.nodes {
		copies[i] = n.mark(false).image(0)
		reached = max(reached, copies[i].end())
	}
	// Otherwise the copies commit entries that nobody else ever commits.
	if err := simAwait(10*time.Second, func() string {
		if l := s.a.active(); l == nil || l.View().LSN().Index < reached {
			return "the copies have entries that are not committed"
		}
		return ""
	}); err != nil || s.leader() != lead {
		return nil
	}
	lead.crash()
	s.pass(6)
	if !s.calm() {
		return nil
	}
	// Otherwise the copies lack little of the document, and may go on by themselves. Their
	// entries would have the LSNs of those that are lost.
	if err := simAwait(time.Minute, func() string {
		if doc := s.document(); doc == nil || doc.Header.LSN().Index < reached+copiesLack {
			return "the document is not ahead of the copies"
		}
		return ""
	}); err != nil {
		return nil // the users wait for something else
	}
	before := s.adopted()
	for i, n := range s.a.nodes {
		n.crash()
		n.replace(copies[i])
	}
	return func() string {
		s.a.startAll()
		if !s.calm() || s.adopted() == before {
			return ""
		}
		return "the state came from the document"
	}
}

// editBetween puts a job into the document while no node leads. The next leader has to
// enqueue it, and to keep a copy of the document.
func (s *simRun) editBetween() func() string {
	lead := s.leader()
	if lead == nil {
		return nil
	}
	id := fmt.Sprintf("by-hand-%d", s.counts.Count("edit of the document"))
	s.counts.One("edit of the document")
	s.ask(id)
	if s.r.IntN(2) == 0 {
		lead.crash()
	} else {
		s.crashAll()
	}
	if !s.editDocument(id) {
		return nil
	}
	return func() string {
		if !s.calm() {
			return ""
		}
		if err := simAwait(time.Minute, func() string {
			switch {
			case !s.enqueued(id):
				return "it is not in the queue"
			case !s.keptCopyWith(id):
				return "no copy of the document has it"
			}
			return ""
		}); err != nil {
			s.failf("job %s was put into the document: %v", id, err)
			return ""
		}
		return id + " is in the queue, and in a copy"
	}
}

// editDocument adds a job to the document in the bucket. It returns false if the document
// does not show the jobs.
func (s *simRun) editDocument(id string) bool {
	ctx := context.Background()
	for {
		o, err := s.store.Get(ctx, DocumentKey)
		if err != nil || !bytes.Contains(o.Data, []byte(`"jobs":[`)) {
			return false
		}
		edited := strings.Replace(byHand(string(o.Data), id), ",]", "]", 1) // of an empty list
		if w := s.store.PutIfMatch(ctx, DocumentKey, []byte(edited), o.Version); w.Outcome == storage.Committed {
			s.trace.printf("job %s was put into the document", id)
			return true
		}
	}
}

// enqueued reports whether the cluster has enqueued a job.
func (s *simRun) enqueued(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.ledgers[s.a.name]
	return l != nil && l.jobs[id] != nil
}

// keptCopyWith reports whether a copy of a document in the bucket has a job.
func (s *simRun) keptCopyWith(id string) (kept bool) {
	ctx := context.Background()
	var keys []string
	if err := s.store.List(ctx, archive.CopyPrefix, func(i storage.Info) bool {
		keys = append(keys, i.Key)
		return true
	}); err != nil {
		return false
	}
	for _, key := range keys {
		o, err := s.store.Get(ctx, key)
		kept = kept || err == nil && bytes.Contains(o.Data, []byte(`"`+id+`"`))
	}
	return kept
}

// Each of these faults has an effect in a short scene.
func TestSimCopies(t *testing.T) {
	for _, f := range copyFaults() {
		t.Run(strings.ReplaceAll(f.name, " ", "-"), func(t *testing.T) {
			simScene(t, 3, func(s *simRun) {
				for range 2 {
					s.suffer(f, nil)
				}
				if s.counts.Count("fault: "+f.name) == 0 {
					s.failf("%s has not hit", f.name)
				}
			})
		})
	}
}

// goOnFrom begins a line of history at a state that was left behind, as nodes do that have lost what came after it.
func (w *simWorld) goOnFrom(v *fsm.View) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := v.LSN()
	line := newSimLedger(w, "a")
	line.base, line.last, line.token, line.end = at, at, v.Meta().LastToken, &at
	line.firedUpTo(v)
	for _, status := range []fsm.Status{fsm.Scheduled, fsm.Unclaimed, fsm.InProgress, fsm.Completed, fsm.Dead, fsm.Cancelled, fsm.Blocked, fsm.Expired} {
		v.Jobs(status, 0, func(j *fsm.Job) bool {
			line.jobs[j.ID] = &simJob{enqueued: at, status: j.Status, token: j.Execution().Token}
			return true
		})
	}
	w.ledgers["a"] = line
}

// The majority is lost, with what it had committed and flushed. The cluster goes on from the disk of a leader that was cut
// off before, and that had other entries in these places, and even more of them. What the bucket has stays.
func TestSimRecoveryFromAMinority(t *testing.T) {
	simScene(t, 3, func(s *simRun) {
		lead := s.leader()
		life, disk := lead.alive(), lead.mark(true)
		mend := s.a.net.cut(true, between([]*simNode{lead}, s.without(lead))...)
		for i := range 300 {
			id := fmt.Sprint("lost-", i)
			s.ask(id)
			data, err := fsm.EncodeEntry(&fsmpb.Batch{NowMs: time.Now().UnixMilli(), Mutations: []*fsmpb.Mutation{script.Enqueue(id)}})
			if err != nil {
				s.failf("%v", err)
			}
			life.raft.Apply(data, 0)
		}
		time.Sleep(200 * time.Millisecond)
		behind := life.View() // what was committed before
		disk = disk.image(0)
		s.await(10*time.Second, simWhile("no other node leads", func() bool { l := s.a.active(); return l == nil || l == life }))
		s.flushes(5*time.Second, lead)
		doc := s.document().LSN()
		mend()
		high := disk.end()
		if high < behind.LSN().Index+100 || doc.Index > high || doc.Compare(behind.LSN()) <= 0 {
			s.failf("the old leader was at %s and has %d entries, the document is at %s", behind.LSN(), high, doc)
			return
		}
		s.allowAdoption(true)
		before := s.adopted()
		for _, n := range s.a.nodes {
			n.crash()
			copied := n.mark(false).withoutLog(disk)
			copied.unwitnessed = true
			n.replace(copied)
		}
		s.goOnFrom(behind)
		if s.calm() && s.adopted() == before {
			s.failf("the document was not adopted")
		}
		s.allowAdoption(false)
	})
}

// Nodes without a witness vote with a log that is lost or older.
func TestSimFindsALostLog(t *testing.T) {
	sabotage(t, func(seed uint64) *simRun {
		s := newSimRun(seed, 3, storagetest.NewCounts())
		for _, n := range s.a.nodes {
			n.mark(false).unwitnessed = true
		}
		return s
	}, []string{"log lost", "log lost"},
		"lead without the only node that has everything", "though nothing was lost", "than the node before it")
}
