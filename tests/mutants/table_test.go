package mutants_test

import (
	"time"

	"osqueue/tests/mutants"
)

// check names the tests of which at least one must fail when a defect is present.
type check struct {
	pkg    string        // from the top of the tree
	test   string        // its name
	tests  []string      // several tests, instead of test
	flags  []string      // further flags of the test program
	env    []string      // further environment
	real   bool          // it runs the program itself, which is built with the defect, too
	within time.Duration // bounds one run; 0: caughtWithin
}

// names returns the names of the tests.
func (c check) names() []string {
	if c.tests != nil {
		return c.tests
	}
	return []string{c.test}
}

var (
	fenceChaos = check{pkg: "election", test: "TestChaos"}
	fenceEdit  = check{pkg: "election", test: "TestExternalEdit"}
	decide     = check{pkg: "election", test: "TestDecide"}
	unknown    = check{pkg: "election", test: "TestAnswerLost"}
	history    = check{pkg: "election", test: "TestLandedUnderSuccessor"}
	losses     = check{pkg: "cluster/flush", test: "TestLossOfEverything"}
	garbage    = check{pkg: "storage/archive", test: "TestGarbage"}
	model      = check{pkg: "fsm", test: "TestMachineAgreesWithModel"}
	replicas   = check{pkg: "fsm", test: "TestReplicasStayEqual"}
	damage     = check{pkg: "cluster", test: "TestNodeWithADamagedLogDoesNotStart"}
	power      = check{pkg: "cluster/raftlog/segment", test: "TestPowerCuts"}
	gate       = check{pkg: "cluster", test: "TestNoLeaseRunsOutWhenTheBucketFailsLate"}
	simulation = check{pkg: "cluster", test: "TestSimulation"}
)

// defect is a mutant and the check that catches it.
type defect struct {
	promise string // what it breaks
	mutants.Mutant
	by check
}

// defects are in the order of the architecture: the machine, group commit, the fence,
// adoption, flushes, raft.
var defects = []defect{
	// The machine.
	{"determinism", mutants.Mutant{
		Name: "the machine reads a clock", File: "fsm/apply.go",
		Old: "\tm.advance(b.NowMs)\n",
		Bug: "\tm.advance(max(b.NowMs, time.Now().UnixMilli()))\n", Import: `"time"`,
	}, replicas},
	{"token", mutants.Mutant{
		Name: "a report's token is not compared", File: "fsm/report.go",
		Old: "case l.Token != j.Execution().Token:\n",
		Bug: "case l.Token == 0:\n",
	}, model},
	{"token", mutants.Mutant{
		Name: "a claim reuses the last token", File: "fsm/claim.go",
		Old: "\tm.meta.Token++\n",
		Bug: "",
	}, model},
	{"idempotency", mutants.Mutant{
		Name: "repeated claims are not recognised", File: "fsm/claim.go",
		Old: "return c.byRequest[claimKey{worker: worker, request: requestID}]",
		Bug: "return nil",
	}, model},
	{"lease", mutants.Mutant{
		Name: "a takeover does not extend the leases", File: "fsm/apply.go",
		Old: "m.meta.LeasesFrom = max(m.meta.LeasesFrom, m.meta.Now, b.NowMs)",
		Bug: "m.meta.LeasesFrom += 0 * b.NowMs",
	}, model},

	// Group commit and reads.
	{"committed", mutants.Mutant{
		Name: "an unknown outcome is told as none", File: "cluster/propose.go",
		Old: `return fmt.Errorf("%w: %w", ErrUnknown, err)`,
		Bug: `return ErrNotLeader`,
	}, check{pkg: "cluster", test: "TestWhatMayHaveHappenedIsUnknown"}},
	{"committed", mutants.Mutant{
		Name: "an entry is answered though raft has refused it", File: "cluster/leader/propose.go",
		Old: "\t\tresults, lsn, err := wait(ctx)\n",
		Bug: "\t\tresults, lsn, err := wait(ctx)\n\t\tif err != nil {\n\t\t\tresults, lsn, err = make([]fsm.Result, len(entry.Mutations)), t.meta().LSN, nil\n\t\t}\n",
	}, simulation},
	{"fresh reads", mutants.Mutant{
		Name: "a read does not confirm the leadership", File: "cluster/read.go",
		Old: "if _, err := n.reads.Do(ctx, struct{}{}); err != nil {",
		Bug: "if err := ctx.Err(); err != nil {",
	}, check{pkg: "cluster", test: "TestLinearizeAsksTheOthers"}},
	{"fresh reads", mutants.Mutant{
		Name: "a read is confirmed by answers from before it", File: "cluster/read.go",
		Old: "round := n.out.Ask()\n",
		Bug: "round := uint64(0)\n",
	}, check{pkg: "cluster", test: "TestSimOldAnswersConfirmNothing"}},

	// Becoming active.
	{"barrier", mutants.Mutant{
		Name: "a new leader does not wait for its log", File: "cluster/leader/candidate.go",
		Old: "if err := l.do.Barrier(ctx); err != nil {",
		Bug: "if err := ctx.Err(); err != nil {",
	}, check{pkg: "cluster", test: "TestSimNewLeaderWaitsForItsMachine"}},
	{"fence", mutants.Mutant{
		Name: "a living broker's document is taken over", File: "election/decide.go",
		Old: "case d.Broker != nil && !s.dead() && !onlyRegistered(d, me, s):",
		Bug: "case d.Broker != nil && !s.dead() && !onlyRegistered(d, me, s) && false:",
	}, decide},
	{"fence", mutants.Mutant{
		Name: "a document of a later term is taken over", File: "election/decide.go",
		Old: "ahead := h.Term > me.LSN.Term\n",
		Bug: "ahead := h.Term > me.LSN.Term && false\n",
	}, decide},
	{"fence", mutants.Mutant{
		Name: "a failed read does not interrupt the silence of a broker", File: "election/silence.go",
		Old: "func (w *Watch) Missed() { w.since = time.Time{} }",
		Bug: "func (w *Watch) Missed() {}",
	}, check{pkg: "election", test: "TestWatch"}},
	{"fence", mutants.Mutant{
		Name: "a takeover does not raise the epoch", File: "election/fence.go",
		Old: "\tf.epoch++\n",
		Bug: "",
	}, fenceChaos},
	{"fence", mutants.Mutant{
		Name: "a write goes over whatever is there", File: "election/commit.go",
		Old: "\tif version == \"\" {\n\t\treturn b.PutIfAbsent(ctx, key, data)\n\t}\n",
		Bug: "\tif o, err := b.Get(ctx, key); err == nil {\n\t\tversion = o.Version\n\t} else {\n\t\treturn b.PutIfAbsent(ctx, key, data)\n\t}\n",
	}, fenceChaos},
	{"fence", mutants.Mutant{
		Name: "a fenced leader takes a takeover for an edit", File: "election/commit.go",
		Old: "if f.fenced = f.successor(seen); f.fenced != nil {",
		Bug: "if f.fenced = f.successor(seen); f.fenced != nil && false {",
	}, fenceChaos},
	{"fence", mutants.Mutant{
		Name: "an external edit is overwritten", File: "election/commit.go",
		Old: "\treturn &ExternalEditError{Observed: seen}\n",
		Bug: "\tf.version = o.Version\n\treturn nil\n",
	}, fenceEdit},
	{"lost answers", mutants.Mutant{
		Name: "a write without an answer counts as failed", File: "election/commit.go",
		Old: "case f.recognise(o):",
		Bug: "case f.recognise(o) && false:",
	}, unknown},
	{"lost answers", mutants.Mutant{
		Name: "a successor's document is not searched for ours", File: "election/commit.go",
		Old: "\tf.noteHistory(seen.Doc.Header)\n",
		Bug: "",
	}, history},
	{"adoption", mutants.Mutant{
		Name: "nodes that lost data write over the document", File: "election/decide.go",
		Old: "\tif me.has(o) {\n\t\treturn Decision{Action: TakeOver, Reason: \"the document's state is adopted\"}",
		Bug: "\tif h != nil {\n\t\treturn Decision{Action: TakeOver}",
	}, decide},

	// Flushes.
	{"object acks", mutants.Mutant{
		Name: "acked as in the bucket when the write was sent", File: "election/pending.go",
		Old: "\tf.newest = later(f.newest, p.lsn)\n",
		Bug: "\tf.newest = later(f.newest, p.lsn)\n\tf.flushed = f.newest\n",
	}, losses},
	{"bounded flushes", mutants.Mutant{
		Name: "the log in the bucket has a gap", File: "cluster/flush/unflushed_log.go",
		Old: "if after.Compare(j.after) < 0 {",
		Bug: "if after.Compare(j.after) < 0 && false {",
	}, check{pkg: "cluster/flush", test: "TestOutageBeyondTheUnflushedLog"}},
	{"garbage", mutants.Mutant{
		Name: "what the document names is collected", File: "storage/archive/collect.go",
		Old: "case n.last.Compare(c.oldest) < 0:",
		Bug: "case n.last.Compare(c.oldest) <= 0:",
	}, garbage},
	{"garbage", mutants.Mutant{
		Name: "a sleeper collects when it wakes", File: "storage/archive/collect.go",
		Old: "if c.still != nil {",
		Bug: "if c.still != nil && false {",
	}, check{pkg: "storage/archive", test: "TestCollectDuringARepair"}},
	{"outage", mutants.Mutant{
		Name: "leases run out while writes are refused", File: "cluster/leader/run.go",
		Old: "if t.gate.refusal() != nil {\n\t\t\tdue = nil",
		Bug: "if t.gate.refusal() != nil && false {\n\t\t\tdue = nil",
	}, gate},

	// Raft and its disk.
	{"disk", mutants.Mutant{
		Name: "an append is not made durable", File: "cluster/raftlog/segment/log.go",
		Old: "err := writeSync(s.file, b, int64(s.end)*sectorSize)",
		Bug: "_, err := s.file.WriteAt(b, int64(s.end)*sectorSize)",
	}, power},
	{"disk", mutants.Mutant{
		Name: "the last frame is not made durable", File: "cluster/raftlog/segment/recover.go",
		Old: "return writeSync(c.file, b, int64(c.end-n)*sectorSize)",
		Bug: "_, err := c.file.WriteAt(b, int64(c.end-n)*sectorSize)\n\treturn err",
	}, power},
	{"disk", mutants.Mutant{
		Name: "a damaged sector is read", File: "cluster/raftlog/segment/sector.go",
		Old: "case has > gen || binary.LittleEndian.Uint32(sector[sectorSize-4:]) != s.sum(sector, number):",
		Bug: "case has > gen || binary.LittleEndian.Uint32(sector[sectorSize-4:]) != s.sum(sector, number) && false:",
	}, damage},
	{"disk", mutants.Mutant{
		Name: "a lost part of the log is created empty", File: "cluster/raftlog/disk.go",
		Old: "\terr := complete(path)\n",
		Bug: "\terr := error(nil)\n",
	}, check{pkg: "cluster/raftlog", test: "TestAMissingPartIsNoticed"}},
	{"votes", mutants.Mutant{
		Name: "a node that lost its disk votes at once", File: "cluster/transport/inbound.go",
		Old: "if asksForVote(rpc) && !mayVote() {",
		Bug: "if asksForVote(rpc) && !mayVote() && false {",
	}, check{pkg: "cluster", test: "TestWipedNodeDoesNotVote"}},
	{"log matching", mutants.Mutant{
		Name: "raft gets heartbeats in the middle of leading", File: "cluster/transport/inbound.go",
		Old: "func (b *Inbound) SetHeartbeatHandler(func(raft.RPC)) {}",
		Bug: "func (b *Inbound) SetHeartbeatHandler(h func(raft.RPC)) { b.Transport.SetHeartbeatHandler(h) }",
	}, check{pkg: "cluster/transport", test: "TestNoEntryUnderASuccessorsTerm"}},
	{"stability", mutants.Mutant{
		Name: "no pre-vote: who returns deposes the leader", File: "cluster/open.go",
		Old: "\tc.BatchApplyCh = true\n",
		Bug: "\tc.BatchApplyCh = true\n\tc.PreVoteDisabled = true\n",
	}, check{pkg: "cluster", test: "TestSimIsolatedNodeReturns"}},
	{"clock", mutants.Mutant{
		Name: "the leader's clock follows jumps of the wall clock", File: "cluster/leader/clock.go",
		Old: "return ahead + min(max(wall-ahead, -limit), limit)",
		Bug: "return wall + 0*(ahead+limit)",
	}, check{pkg: "cluster/leader", test: "TestLeaderClockOutlivesJumpsOfTheWallClock"}},
}
