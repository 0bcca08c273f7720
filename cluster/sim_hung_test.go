package cluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	"osqueue/cluster/transport"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/storagetest/fault"
	"osqueue/internal/storagetest/script"
	"osqueue/storage"
	"osqueue/storage/archive"
	"osqueue/storage/document"
)

// hungFaults returns the faults in which a component hangs and does not fail, and those
// whose effect only shows when no other fault is active.
func hungFaults() []simFault {
	faults := []simFault{
		{name: "disk hangs", times: 2, begin: (*simRun).hangDisk},
		{name: "bucket hangs", times: 1, begin: (*simRun).hangBucket},
		{name: "nodes without the bucket", times: 3, begin: (*simRun).bucketPaths},
		{name: "bucket and disk hang", times: 1, begin: (*simRun).hangBoth},
		{name: "standby without bucket", times: 1, alone: true, begin: (*simRun).standbyAway},
		{name: "outage for leader and standby", times: 1, alone: true, begin: (*simRun).standbyOutage},
		{name: "object removed", times: 1, alone: true, begin: (*simRun).removeObject},
		{name: "follower lags by large entries", times: 1, alone: true, begin: (*simRun).lagLarge},
	}
	if fsm.MaxLevel > fsm.BaseLevel { // build tag nextlevel
		faults = append(faults, simFault{name: "rolling upgrade", times: 1, alone: true, begin: (*simRun).upgradeAll})
	}
	return faults
}

// hangDisk makes all writes and reads of a node's log hang. The node has to end while they hang.
func (s *simRun) hangDisk() func() string {
	n := s.leader()
	if s.r.IntN(3) == 0 {
		n = s.follower()
	}
	if n == nil {
		return nil
	}
	return s.hangDiskOf(n)
}

// hungEnd bounds how long a node with a hung disk continues: the limit, and the rounds of
// the watchdog.
const hungEnd = 20 * time.Second

func (s *simRun) hangDiskOf(n *simNode) func() string {
	life := n.alive()
	if life == nil {
		return nil
	}
	disk := n.mark(true)
	disk.hang()
	_ = simAwait(hungEnd, simWhile("it runs", func() bool { return n.alive() == life }))
	return func() string {
		ended := n.alive() != life
		hung := disk.goOn()
		if hung > 0 && !ended {
			s.failf("%s goes on though its disk hung for %v", n.name, hungEnd)
		}
		n.mark(false)
		n.start()
		if hung == 0 {
			return ""
		}
		return fmt.Sprintf("%s ended while %d writes and reads hung", n.name, hung)
	}
}

// hangBucket makes the bucket hang for all nodes, so that no request ends with its
// context. In half of the cases it also isolates the leader, which must lose its
// leadership at once.
func (s *simRun) hangBucket() func() string {
	lead := s.a.active()
	if lead == nil {
		return nil
	}
	end := s.hangBucketOfAll()
	mend := func() int { return 0 }
	if s.r.IntN(2) == 0 {
		mend = s.a.net.cut(false, between([]*simNode{lead.place}, s.without(lead.place))...)
		if err := simAwait(5*time.Second, func() string {
			if _, self := lead.Leader(); self {
				return lead.place.name + " says that it leads"
			}
			return ""
		}); err != nil {
			s.failf("isolated, and the bucket hangs: %v", err)
		}
	}
	return func() string {
		mend()
		return end()
	}
}

func (s *simRun) hangBucketOfAll() func() string {
	var ends []func() int
	for _, l := range s.a.lives() {
		ends = append(ends, l.gate.hang())
	}
	return func() string {
		hung := 0
		for _, end := range ends {
			hung += end()
		}
		if hung == 0 {
			return ""
		}
		return fmt.Sprintf("%d operations hung", hung)
	}
}

// hangBoth makes the bucket and the leader's disk hang.
func (s *simRun) hangBoth() func() string {
	n := s.leader()
	if n == nil {
		return nil
	}
	bucket := s.hangBucketOfAll()
	disk := s.hangDiskOf(n)
	return func() string {
		requests := bucket()
		if disk == nil {
			return ""
		}
		if writes := disk(); requests != "" && writes != "" {
			return requests + "; " + writes
		}
		return ""
	}
}

// withStandby has a second cluster stand by while act runs.
func (s *simRun) withStandby(act func(b *simCluster) string) func() string {
	s.counts.One("rival")
	b := newSimCluster(s.simWorld, fmt.Sprintf("s%d-", s.counts.Count("rival")), 1, s.faults)
	b.holdsLevel = s.rivalsHold
	s.setRival(b)
	b.startAll()
	proof := ""
	if s.neverActive(b, 12*time.Second) == "" {
		proof = act(b)
	}
	return func() string {
		defer s.setRival(nil)
		b.end()
		return proof
	}
}

// outageTime is longer than a standby waits for a heartbeat of the leader.
const outageTime = 13 * time.Second

// standbyAway cuts a standby off from the bucket. It must not take over when the
// connection is restored.
func (s *simRun) standbyAway() func() string {
	return s.withStandby(func(b *simCluster) string {
		unblock := b.nodes[0].alive().gate.block()
		bad := s.neverActive(b, outageTime)
		held := unblock()
		if bad != "" || s.neverActive(b, outageTime) != "" || held == 0 {
			return ""
		}
		return fmt.Sprintf("%d operations of the standby withheld", held)
	})
}

// standbyOutage cuts both clusters off from the bucket. The leader, which is alive, has
// to keep the document.
func (s *simRun) standbyOutage() func() string {
	return s.withStandby(func(b *simCluster) string {
		end := s.inject(fault.Rule{Kind: fault.LoseRequest, Delay: time.Duration(s.r.IntN(3000)) * time.Millisecond})
		bad := s.neverActive(b, outageTime)
		proof := end()
		if bad != "" || s.neverActive(b, outageTime) != "" {
			return ""
		}
		return proof
	})
}

// healTime bounds how long the leader takes to detect that an object is missing, and to
// write a new checkpoint.
const healTime = time.Minute

// removeObject hides an object that the document needs from all nodes. The leader has to
// detect and repair that.
func (s *simRun) removeObject() func() string {
	if !s.calm() {
		return nil
	}
	key := s.neededObject()
	if key == "" {
		return nil
	}
	s.hidden.hide(key)
	found := ""
	err := simAwait(healTime, func() string {
		if l := s.a.active(); l != nil && l.Status().ArchiveError != "" {
			found = l.Status().ArchiveError
		}
		return s.archiveLacks()
	})
	return func() string {
		if err != nil {
			s.failf("an object was removed: %v", err)
			return ""
		}
		return found
	}
}

// neededObject returns the key of a log segment or a checkpoint that the document names,
// or "".
func (s *simRun) neededObject() string {
	doc := s.document()
	if doc == nil || doc.Archive.Checkpoint.Key == "" {
		return ""
	}
	keys := []string{doc.Archive.Checkpoint.Key}
	for _, ref := range doc.Archive.Log {
		keys = append(keys, ref.Key)
	}
	return keys[s.r.IntN(len(keys))]
}

// archiveLacks describes an object that the document needs, also through a segment index, and
// that is missing; "" means that the archive is whole.
func (s *simRun) archiveLacks() string {
	doc := s.document()
	if doc == nil {
		return "there is no document"
	}
	found, err := archive.NewAudit(s.hidden).Missing(context.Background(), doc.Archive)
	switch {
	case err != nil:
		return err.Error()
	case found != nil:
		return "the document needs " + found.Named
	}
	return ""
}

func (s *simRun) document() *document.File {
	o, err := s.store.Get(context.Background(), DocumentKey)
	if err != nil {
		return nil
	}
	doc, err := document.Decode(o.Data)
	if err != nil {
		return nil
	}
	return doc
}

// simHidden is a bucket in which some objects cannot be found.
type simHidden struct {
	storage.Bucket
	mu   sync.Mutex
	keys map[string]bool
}

func (h *simHidden) hide(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.keys[key] = true
}

func (h *simHidden) isHidden(key string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.keys[key]
}

// Get implements storage.Bucket.
func (h *simHidden) Get(ctx context.Context, key string) (storage.Object, error) {
	if h.isHidden(key) {
		return storage.Object{}, storage.ErrNotFound
	}
	return h.Bucket.Get(ctx, key)
}

// List implements storage.Bucket.
func (h *simHidden) List(ctx context.Context, prefix string, fn func(storage.Info) bool) error {
	return h.Bucket.List(ctx, prefix, func(i storage.Info) bool { return h.isHidden(i.Key) || fn(i) })
}

// The entries that a follower lacks need longer on the network than raft waits for an
// answer.
const (
	simLargeJobs  = 10
	simLargeBytes = 512 << 10
	simLargeRate  = 512 << 10 // bytes a second
)

// lagLarge isolates a follower while large jobs are created and cancelled. It has to
// catch up over slow links.
func (s *simRun) lagLarge() func() string {
	n := s.follower()
	if n == nil {
		return nil
	}
	mend := s.a.net.cut(true, between([]*simNode{n}, s.without(n))...)
	c := &simClient{simUsers: s.users, name: "large", r: s.rand(), over: s.users.work, n: s.counts.Count("large job")}
	for range simLargeJobs {
		c.largeJob()
		s.counts.One("large job")
	}
	s.a.net.setRate(simLargeRate)
	withheld := mend()
	err := simAwait(2*time.Minute, s.a.whole)
	return func() string {
		most := s.a.net.setRate(0)
		if err != nil {
			s.failf("a follower lacks %d entries of %d bytes: %v", simLargeJobs, simLargeBytes, err)
		}
		if limit := transport.AppendMaxBytes + 1<<20; most > limit {
			s.failf("a request had %d bytes of entries, more than %d", most, limit)
		}
		if withheld == 0 || most < simLargeBytes {
			return ""
		}
		return fmt.Sprintf("%s caught up by requests of up to %d bytes", n.name, most)
	}
}

// largeJob enqueues a large job and cancels it.
func (c *simClient) largeJob() {
	j := &fsmpb.NewJob{Id: c.id("large"), Type: "large", Payload: fmt.Appendf(nil, `"%0*d"`, simLargeBytes, 7)}
	c.world.ask(j.Id)
	a, ok := c.do(func() *fsmpb.Mutation {
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{Jobs: []*fsmpb.NewJob{j}}}}
	})
	if !ok {
		return
	}
	c.world.acknowledged(j.Id, a.lsn, false)
	c.do(func() *fsmpb.Mutation { return script.ChangeOf(fsm.CancelJobs, j.Id) })
}

// upgradeAll restarts the nodes one after the other without a limit of the feature level.
// After the last one the cluster reaches the highest level.
func (s *simRun) upgradeAll() func() string {
	lead := s.a.active()
	if lead == nil || lead.View().Meta().Level >= fsm.MaxLevel {
		return nil
	}
	before := lead.View().Meta().Level
	for _, n := range s.shuffled() {
		n.stop()
		n.upgraded = true
		n.start()
		s.pass(4)
		if !s.calm() {
			return nil
		}
	}
	s.rivalsHold = false
	level := before
	err := simAwait(time.Minute, func() string {
		if l := s.a.active(); l != nil {
			level = l.View().Meta().Level
		}
		if level < fsm.MaxLevel {
			return fmt.Sprintf("the level is %d", level)
		}
		return ""
	})
	return func() string {
		if err != nil {
			s.failf("all nodes are upgraded: %v", err)
			return ""
		}
		return fmt.Sprintf("level %d after %d", level, before)
	}
}
