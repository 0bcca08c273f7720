package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"osqueue/cluster/membership"
	"osqueue/internal/storagetest/fault"
	"osqueue/storage"
)

// simFault is a fault that lasts for a while.
type simFault struct {
	name  string
	times int // number in a deck
	// alone means that the fault needs a cluster in order, and no other fault at the same
	// time.
	alone bool
	// loses means that the cluster may have to take its state from the bucket.
	loses bool
	// begin starts the fault; it returns nil if the fault is not possible now. end stops
	// it and returns the evidence that it had an effect; "": it had none.
	begin func(*simRun) (end func() (proof string))
}

// simFaults returns all faults.
func simFaults() []simFault {
	return append(slices.Concat(hungFaults(), copyFaults(), aheadFaults(), flushFaults()), []simFault{
		{name: "leader crashed", times: 2, begin: (*simRun).crashLeader},
		{name: "follower crashed", times: 1, begin: (*simRun).crashFollower},
		{name: "all crashed", times: 1, begin: (*simRun).crashAll},
		{name: "leader stopped", times: 1, begin: (*simRun).stopLeader},
		{name: "leadership transferred", times: 1, begin: (*simRun).transfer},
		{name: "leader alone", times: 2, begin: (*simRun).leaderAlone},
		{name: "follower alone", times: 1, begin: (*simRun).followerAlone},
		{name: "halves", times: 1, begin: (*simRun).halves},
		{name: "bridge", times: 1, begin: (*simRun).bridge},
		{name: "ring", times: 1, begin: (*simRun).ring},
		{name: "nothing from the leader", times: 1, begin: (*simRun).leaderMute},
		{name: "nothing to the leader", times: 1, begin: (*simRun).leaderDeaf},
		{name: "one link", times: 1, begin: (*simRun).oneLink},
		{name: "node paused", times: 2, begin: (*simRun).pause},
		{name: "leader without bucket", times: 1, begin: (*simRun).leaderWithoutBucket},
		{name: "slow network", times: 1, begin: (*simRun).slowNetwork},
		{name: "flaky network", times: 1, begin: (*simRun).flakyNetwork},
		{name: "late messages", times: 2, begin: (*simRun).lateMessages},
		{name: "disk full", times: 1, begin: (*simRun).diskFull},
		{name: "clock jumped", times: 2, begin: (*simRun).clockJump},
		{name: "clock drifts", times: 1, begin: (*simRun).clockDrift},
		bucketFault(fault.LoseAnswer, 2),
		bucketFault(fault.LoseRequest, 1),
		bucketFault(fault.DeliverLate, 2),
		bucketFault(fault.Reject, 1),
		bucketFault(fault.Throttle, 1),
		bucketFault(fault.Stall, 1),
		bucketFault(fault.Slow, 1),
		bucketFault(fault.Garble, 1),
		bucketFault(fault.Truncate, 1),
		{name: "bucket away", times: 1, begin: (*simRun).bucketAway},
		{name: "bucket away for long", times: 1, begin: (*simRun).bucketAwayForLong},
		{name: "disk lost", times: 1, alone: true, begin: (*simRun).loseDisk},
		{name: "disk lost, another lags", times: 1, alone: true, begin: (*simRun).loseDiskOfTwo},
		{name: "all disks lost", times: 1, alone: true, loses: true, begin: (*simRun).loseAllDisks},
		{name: "rival cluster", times: 1, alone: true, loses: true, begin: (*simRun).rival},
	}...)
}

// leader and others return the nodes by their role.
func (s *simRun) leader() *simNode {
	if l := s.a.active(); l != nil {
		return l.place
	}
	return nil
}

func (s *simRun) follower() *simNode {
	lead := s.leader()
	var all []*simNode
	for _, n := range s.a.nodes {
		if n != lead && n.alive() != nil {
			all = append(all, n)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[s.r.IntN(len(all))]
}

func (s *simRun) crashOne(n *simNode) func() string {
	if n == nil || n.crash() == nil {
		return nil
	}
	return func() string {
		n.start()
		return n.name + " was gone"
	}
}

func (s *simRun) crashLeader() func() string { return s.crashOne(s.leader()) }

func (s *simRun) crashFollower() func() string { return s.crashOne(s.follower()) }

func (s *simRun) crashAll() func() string {
	for _, n := range s.a.nodes {
		n.crash()
	}
	return func() string {
		s.a.startAll()
		return "all were gone"
	}
}

func (s *simRun) stopLeader() func() string {
	n := s.leader()
	if n == nil {
		return nil
	}
	n.stop()
	return func() string {
		n.start()
		return n.name + " was gone"
	}
}

func (s *simRun) transfer() func() string {
	n := s.leader()
	if n == nil {
		return nil
	}
	l := n.alive()
	if l == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	before := l.raft.CurrentTerm()
	err := l.await(ctx, l.raft.LeadershipTransfer())
	return func() string {
		if now := l.raft.CurrentTerm(); err == nil && now > before {
			return fmt.Sprintf("term %d after %d", now, before)
		}
		return ""
	}
}

// between returns the links between two groups, in both directions.
func between(left, right []*simNode) (links []simLink) {
	for _, a := range left {
		for _, b := range right {
			links = append(links, simLink{a.name, b.name}, simLink{b.name, a.name})
		}
	}
	return links
}

func (s *simRun) without(n *simNode) (rest []*simNode) {
	for _, o := range s.a.nodes {
		if o != n {
			rest = append(rest, o)
		}
	}
	return rest
}

// cut cuts links until the end of the fault.
func (s *simRun) cut(links []simLink) func() string {
	if len(links) == 0 {
		return nil
	}
	mend := s.a.net.cut(s.r.IntN(2) == 0, links...)
	return func() string {
		if n := mend(); n > 0 {
			return fmt.Sprintf("%d messages withheld", n)
		}
		return ""
	}
}

func (s *simRun) alone(n *simNode) func() string {
	if n == nil {
		return nil
	}
	return s.cut(between([]*simNode{n}, s.without(n)))
}

func (s *simRun) leaderAlone() func() string { return s.alone(s.leader()) }

func (s *simRun) followerAlone() func() string { return s.alone(s.follower()) }

// shuffled returns the nodes in random order.
func (s *simRun) shuffled() []*simNode {
	all := append([]*simNode{}, s.a.nodes...)
	s.r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

func (s *simRun) halves() func() string {
	all := s.shuffled()
	return s.cut(between(all[:len(all)/2], all[len(all)/2:]))
}

// bridge leaves two groups, and one node that both can reach.
func (s *simRun) bridge() func() string {
	all := s.shuffled()
	rest := all[1:]
	return s.cut(between(rest[:len(rest)/2], rest[len(rest)/2:]))
}

// ring lets each node reach only its two neighbours.
func (s *simRun) ring() func() string { return s.cut(ringCuts(s.shuffled())) }

func ringCuts(all []*simNode) (links []simLink) {
	for i := range all {
		for j := range i {
			if d := i - j; d != 1 && d != len(all)-1 {
				links = append(links, between(all[i:i+1], all[j:j+1])...)
			}
		}
	}
	return links
}

// directed returns the links from a node, or to it.
func (s *simRun) directed(n *simNode, from bool) (links []simLink) {
	for _, o := range s.without(n) {
		if from {
			links = append(links, simLink{n.name, o.name})
		} else {
			links = append(links, simLink{o.name, n.name})
		}
	}
	return links
}

// oneWay cuts the links from a node, or to it.
func (s *simRun) oneWay(n *simNode, from bool) func() string {
	if n == nil {
		return nil
	}
	return s.cut(s.directed(n, from))
}

func (s *simRun) leaderMute() func() string { return s.oneWay(s.leader(), true) }

func (s *simRun) leaderDeaf() func() string { return s.oneWay(s.leader(), false) }

func (s *simRun) oneLink() func() string {
	all := s.shuffled()
	return s.cut(between(all[:1], all[1:2]))
}

// pause simulates a process that is stopped, which is not possible with goroutines: the
// node is cut off from the other nodes and from the bucket, and its messages arrive late.
// Unlike a stopped process it notices that time passes.
func (s *simRun) pause() func() string {
	n := s.leader()
	if s.r.IntN(3) == 0 {
		n = s.follower()
	}
	if n == nil || n.alive() == nil {
		return nil
	}
	mend := s.a.net.cut(false, between([]*simNode{n}, s.without(n))...)
	unblock := n.alive().gate.block()
	return func() string {
		messages, ops := mend(), unblock()
		if messages == 0 {
			return ""
		}
		return fmt.Sprintf("%d messages and %d operations withheld", messages, ops)
	}
}

func (s *simRun) leaderWithoutBucket() func() string {
	l := s.a.active()
	if l == nil {
		return nil
	}
	unblock := l.gate.block()
	return func() string {
		if n := unblock(); n > 0 {
			return fmt.Sprintf("%d operations withheld", n)
		}
		return ""
	}
}

func (s *simRun) weather(slow time.Duration, flaky float64) func() string {
	s.a.net.setWeather(slow, flaky)
	return func() string {
		if n := s.a.net.setWeather(0, 0); n > 0 {
			return fmt.Sprintf("%d messages slowed down or broken", n)
		}
		return ""
	}
}

func (s *simRun) slowNetwork() func() string {
	return s.weather(time.Duration(20+s.r.IntN(400))*time.Millisecond, 0)
}

func (s *simRun) flakyNetwork() func() string { return s.weather(0, 0.02+s.r.Float64()/3) }

func (s *simRun) diskFull() func() string {
	n := s.leader()
	if s.r.IntN(2) == 0 {
		n = s.follower()
	}
	if n == nil {
		return nil
	}
	life, disk := n.alive(), n.mark(true)
	disk.setFull(true)
	return func() string {
		refused, postponed := disk.setFull(false)
		if refused > 0 && life != nil && n.alive() == life {
			s.failf("%s goes on though its disk took no writes", n.name)
		}
		n.mark(false)
		n.start()
		if refused+postponed == 0 {
			return ""
		}
		return fmt.Sprintf("%d writes refused, %d postponed", refused, postponed)
	}
}

// jump returns how far a clock jumps. In worlds with a second cluster it stays below the
// broker timeout: a standby whose clock is further ahead takes a live broker for dead,
// which is the rule of the legacy broker, and the clusters would take the document from
// each other.
func (s *simRun) jump() time.Duration {
	most := 5 * time.Second
	if s.farJumps {
		most = []time.Duration{time.Minute, time.Hour, 365 * 24 * time.Hour}[s.r.IntN(3)]
	}
	return time.Duration(s.r.Int64N(int64(2*most))) - most
}

func (s *simRun) clock(offset time.Duration, drift float64) func() string {
	n := s.leader()
	if s.r.IntN(3) == 0 {
		n = s.follower()
	}
	if n == nil {
		return nil
	}
	n.clock.set(offset, drift)
	return func() string {
		if reads := n.clock.set(0, 0); reads > 0 {
			return fmt.Sprintf("%d readings of a clock that is %v ahead, drifting by %.2f", reads, offset, drift)
		}
		return ""
	}
}

func (s *simRun) clockJump() func() string { return s.clock(s.jump(), 0) }

func (s *simRun) clockDrift() func() string {
	return s.clock(0, (s.r.Float64()-0.5)*0.6)
}

// bucketFault makes the store fail some operations in the given way.
func bucketFault(kind fault.Kind, times int) simFault {
	return simFault{name: "bucket: " + string(kind), times: times, begin: func(s *simRun) func() string {
		rule := fault.Rule{Kind: kind, Probability: 0.2 + 0.8*s.r.Float64(), Delay: time.Duration(1+s.r.IntN(4000)) * time.Millisecond}
		if kind == fault.DeliverLate {
			rule.Delay *= 5
		}
		if kind == fault.Slow && s.r.IntN(2) == 0 {
			rule.Rate = 1000 + s.r.IntN(9000)
		}
		if kind == fault.Stall {
			rule.Ops = []storage.Op{storage.OpPutIfMatch, storage.OpGet}
		}
		end := s.inject(rule)
		if kind == fault.Garble || kind == fault.Truncate {
			s.transfer() // only a new leader reads
		}
		return end
	}}
}

func (s *simRun) inject(rule fault.Rule) func() string {
	i := s.faults.Inject(rule)
	return func() string {
		i.Release(context.Background())
		if n := i.Hits(); n > 0 {
			return fmt.Sprintf("%d operations hit", n)
		}
		return ""
	}
}

func (s *simRun) bucketAway() func() string {
	return s.inject(fault.Rule{Kind: fault.LoseRequest, Delay: time.Duration(s.r.IntN(3000)) * time.Millisecond})
}

// bucketAwayForLong makes the bucket unavailable until writes are refused, and for some
// time after.
func (s *simRun) bucketAwayForLong() func() string {
	refused := func() int { return s.counts.Count("answer: the bucket lags") }
	before := refused()
	end := s.inject(fault.Rule{Kind: fault.LoseRequest, Delay: time.Duration(s.r.IntN(3000)) * time.Millisecond})
	s.burst(120 << 10) // more than fits into the unflushed log
	for limit := time.Now().Add(time.Minute); refused() == before && time.Now().Before(limit); {
		time.Sleep(100 * time.Millisecond)
	}
	s.pass(8)
	return func() string {
		n := refused() - before
		if hits := end(); n == 0 || hits == "" {
			return ""
		}
		return fmt.Sprintf("%d writes refused", n)
	}
}

// loseDisk restarts a node with an empty disk, so that it has to join.
func (s *simRun) loseDisk() func() string {
	n := s.a.nodes[s.r.IntN(len(s.a.nodes))]
	was := n.crash()
	if was == nil {
		return nil
	}
	n.wipe()
	return func() string {
		n.start()
		if !s.calm() {
			return ""
		}
		lead := s.a.active()
		if lead == nil || membership.Voter(lead.raft.GetConfiguration().Configuration(), was.id) {
			return ""
		}
		return n.name + " has a new identity and a vote"
	}
}

// loseDiskOfTwo crashes all three nodes and restarts two: one that lags, and one with an
// empty disk. Only the third node has the writes that were acknowledged since, so the two
// must wait for it.
func (s *simRun) loseDiskOfTwo() func() string {
	lead, lagging := s.leader(), s.follower()
	if lead == nil || len(s.a.nodes) != 3 {
		return nil
	}
	lagging.crash()
	s.pass(6)
	var lost *simNode
	for _, n := range s.a.nodes {
		if n != lagging && n != lead {
			lost = n
		}
	}
	lead.crash()
	lost.crash()
	lost.wipe()
	lagging.start()
	lost.start()
	time.Sleep(3 * time.Second)
	return func() string {
		if s.a.active() != nil {
			s.failf("%s and %s lead without the only node that has everything", lagging.name, lost.name)
		}
		lead.start()
		if !s.calm() {
			return ""
		}
		return "the two waited for " + lead.name
	}
}

// loseAllDisks lets the cluster start again from the document.
func (s *simRun) loseAllDisks() func() string {
	before, release := s.adopted(), func() {}
	switch s.r.IntN(3) {
	case 0: // writes that are acknowledged from here on are only on disks
		for _, l := range s.a.lives() {
			l.gate.block()
		}
		s.pass(6)
	case 1:
		if release = s.operation(); release == nil {
			return nil
		}
	}
	s.loseAll()
	return func() string {
		s.a.startAll()
		defer release()
		if !s.calm() || s.adopted() == before {
			return ""
		}
		return "the state came from the document"
	}
}

func (s *simRun) adopted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.adoptions
}

// rivalWait bounds how long it takes until a cluster takes over from another one that is
// dead: the heartbeat becomes stale, the standby reads it again, and the clock may be
// ahead.
const rivalWait = 60 * time.Second

// rival runs a second cluster on the bucket. It stands by, takes over when the first is
// dead or cut off from the bucket, and crashes in the end, so that the first takes over
// again.
func (s *simRun) rival() func() string {
	b := newSimCluster(s.simWorld, fmt.Sprintf("b%d-", s.counts.Count("rival"))+"n", 1+2*s.r.IntN(2), s.faults)
	b.holdsLevel = s.rivalsHold
	s.counts.One("rival")
	s.setRival(b)
	b.startAll()
	proof := s.rivalTakesOver(b)
	return func() string {
		defer s.setRival(nil)
		defer b.end()
		if proof == "" {
			return ""
		}
		s.a.startAll()
		if s.neverActive(s.a, 12*time.Second) != "" {
			return ""
		}
		for _, n := range b.nodes {
			n.crash()
		}
		if err := simAwait(rivalWait, s.a.led); err != nil {
			s.failf("after the rival has died: %v", err)
			return ""
		}
		return proof
	}
}

func (s *simRun) rivalTakesOver(b *simCluster) (proof string) {
	if s.neverActive(b, 12*time.Second) != "" {
		return ""
	}
	how := "the first was dead"
	var unblocks []func() int
	if s.r.IntN(2) == 0 {
		how = "the first had no bucket"
		for _, l := range s.a.lives() {
			unblocks = append(unblocks, l.gate.block())
		}
	} else {
		for _, n := range s.a.nodes {
			n.crash()
		}
	}
	err := simAwait(rivalWait, b.led)
	time.Sleep(time.Duration(s.r.IntN(5000)) * time.Millisecond)
	for _, unblock := range unblocks {
		unblock()
	}
	if err != nil {
		s.failf("%s: %v", how, err)
		return ""
	}
	// The first cluster detects it at its next flush, if it is alive.
	if !s.await(10*time.Second, simWhile("two clusters are active", func() bool { return s.a.active() != nil })) {
		return ""
	}
	return how + ", and the rival took over"
}

// neverActive checks that a cluster only stands by.
func (s *simRun) neverActive(c *simCluster, d time.Duration) (bad string) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if l := c.active(); l != nil {
			s.failf("%s is active while another cluster is", l.place.name)
			return "active"
		}
	}
	s.counts.One("check: standby")
	return ""
}

// deal returns all faults in random order.
func deal(r *rand.Rand) (deck []simFault) {
	for _, f := range simFaults() {
		for range f.times {
			deck = append(deck, f)
		}
	}
	r.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
	return deck
}
