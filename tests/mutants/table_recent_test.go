package mutants_test

import "osqueue/tests/mutants"

// recent are defects of what is younger than the reviews, and of the defects found since.
var recent = []defect{
	// Cost, and a full disk.
	{"B7 cost", mutants.Mutant{
		Name: "a flush waits for the objects of the last one only", File: "cluster/flush/config.go",
		Old: "return min(max(owed+1-int(waited/max(pause, 1)), 0)+written, owedMax)",
		Bug: "return min(0*owed*int(pause+waited)+written, owedMax)",
	}, check{pkg: "cluster/flush", test: "TestObjectsCountAsWrites"}},
	{"full disk", mutants.Mutant{
		Name: "raft panics when its term cannot be stored", File: "cluster/raftlog/log.go",
		Old: "\t\t<-l.opts.Closing\n",
		Bug: "\t\treturn err\n",
	}, check{pkg: "cluster/raftlog", test: "TestAFailedTermIsFatalWithoutAPanic"}},

	// The raft log.
	{"log queue", mutants.Mutant{
		Name: "answers of followers do not wait for the leader's disk", File: "cluster/transport/outbound.go",
		Old: "if n := len(args.Entries); n > 0 && resp.Success {",
		Bug: "if n := len(args.Entries); n > 0 && resp.Success && false {",
	}, check{pkg: "cluster", test: "TestSimLeaderAheadOfItsDisk"}},
	{"log queue", mutants.Mutant{
		Name: "a follower queues what it confirms", File: "cluster/raftlog/log.go",
		Old: "(*r).State() != raft.Leader {",
		Bug: "(*r).State() == raft.Shutdown {",
	}, check{pkg: "cluster", test: "TestSimLeaderAheadOfItsDisk"}},
	{"log queue", mutants.Mutant{
		Name: "a write of the queue that fails counts", File: "cluster/raftlog/log.go",
		Old: "func() error { return l.store.StoreLogs(logs) })\n\tif err != nil {",
		Bug: "func() error { return l.store.StoreLogs(logs) })\n\tif err != nil && false {",
	}, check{pkg: "cluster/raftlog", test: "TestQueue"}},
	{"log queue", mutants.Mutant{
		Name: "a term does not wait for the entries of the one before", File: "cluster/raftlog/log.go",
		Old: "err := l.exclusive(func() error {\n\t\terr := l.write(\"write raft's term\"",
		Bug: "err := func(fn func() error) error { return fn() }(func() error {\n\t\terr := l.write(\"write raft's term\"",
	}, check{pkg: "cluster/raftlog", test: "TestQueue"}},
	{"log queue", mutants.Mutant{
		Name: "a write comes after one that failed", File: "cluster/raftlog/log.go",
		Old: "err := l.err // of entries that came in since flush, too",
		Bug: "var err error",
	}, check{pkg: "cluster/raftlog", test: "TestNoWriteAfterAFailure"}},
	{"log queue", mutants.Mutant{
		Name: "the queue is written after a write that failed", File: "cluster/raftlog/log.go",
		Old: "logs, err := l.tail.queue(), l.err",
		Bug: "logs, err := l.tail.queue(), error(nil)",
	}, check{pkg: "cluster/raftlog", test: "TestNoWriteAfterAFailure"}},
	{"log queue", mutants.Mutant{
		Name: "a change of the voters is queued", File: "cluster/raftlog/log.go",
		Old: "if e.Type == raft.LogConfiguration {",
		Bug: "if e.Type == raft.LogConfiguration && false {",
	}, check{pkg: "cluster/raftlog", test: "TestRemovingTheOtherVoter"}},
	{"log queue", mutants.Mutant{
		Name: "a single voter queues its entries", File: "cluster/raftlog/log.go",
		Old: "return voters > 1",
		Bug: "return voters > 0",
	}, check{pkg: "cluster/raftlog", test: "TestRemovingTheOtherVoter"}},
	{"log queue", mutants.Mutant{
		Name: "an answer does not wait for the newest entry", File: "cluster/raftlog/log.go",
		Old: "len(q) == 0 || q[0].Index > index:",
		Bug: "len(q) == 0 || q[0].Index >= index:",
	}, check{pkg: "cluster/raftlog/segment", test: "TestPowerCutsOfTheQueue"}},
	{"log queue", mutants.Mutant{
		Name: "a node that failed answers while it closes", File: "cluster/node.go",
		Old: "\tif n.severed() {\n",
		Bug: "\tif n.severed() && false {\n",
	}, check{pkg: "cluster", test: "TestALeaderWithAHungDiskAnswersNothing"}},
	{"log base", mutants.Mutant{
		Name: "the log behind a snapshot does not know its term", File: "cluster/raftlog/snapshots.go",
		Old: "*e = raft.Log{Index: index, Term: at.term, Type: baseType}",
		Bug: "*e = raft.Log{Index: index, Term: 0 * at.term, Type: baseType}",
	}, check{pkg: "cluster/raftlog", test: "TestRepeatedRequestBehindASnapshot"}},
	{"log base", mutants.Mutant{
		Name: "a log with older entries has the base", File: "cluster/raftlog/snapshots.go",
		Old: "case at.index == index && (first == 0 || first > index):",
		Bug: "case at.index == index:",
	}, check{pkg: "cluster/raftlog", test: "TestABaseBehindEntriesIsNotInTheLog"}},
	{"log signal", mutants.Mutant{
		Name: "a signal before the wait is lost", File: "cluster/raftlog/segment/duty.go",
		Old: "if !did && l.duty.signals == seen && !l.duty.closing {",
		Bug: "if !did && l.duty.signals >= seen && !l.duty.closing {",
	}, check{pkg: "cluster/raftlog/segment", test: "TestNoSignalIsLost"}},

	// Webhooks.
	{"outbox", mutants.Mutant{
		Name: "a full outbox grows", File: "fsm/outbox/outbox.go",
		Old: "for own.Bytes > own.Buffer() {",
		Bug: "for own.Bytes > 2*own.Buffer() {",
	}, check{pkg: "fsm", test: "TestFullOutboxDropsTheOldest"}},
	{"outbox", mutants.Mutant{
		Name: "a delivered event stays in the outbox", File: "fsm/outbox/outbox.go",
		Old: "\to.events.Delete(e)\n\th.Pending--\n",
		Bug: "\th.Pending--\n",
	}, check{pkg: "fsm", test: "TestMachineAgreesWithModel"}},
	{"outbox", mutants.Mutant{
		Name: "an event of a second hook has another id", File: "fsm/outbox/outbox.go",
		Old: "e.Hook, e.ID, e.At, e.Actor = h.Name, EventID{at.Term, at.Index, o.number}, at.Now, at.Actor",
		Bug: "o.number++\n\te.Hook, e.ID, e.At, e.Actor = h.Name, EventID{at.Term, at.Index, o.number}, at.Now, at.Actor",
	}, check{pkg: "fsm", test: "TestEventOfTwoHooksHasOneID"}},

	// Join tokens, quotas, streams.
	{"join token", mutants.Mutant{
		Name: "two machines use one join token", File: "internal/auth/enroll/server.go",
		Old: "if key.Hash != string(sum(public)) {",
		Bug: "if key.Hash != string(sum(public)) && false {",
	}, check{pkg: "internal/auth/enroll", test: "TestJoin"}},
	{"account", mutants.Mutant{
		Name: "an ended job counts against its producer's quota", File: "fsm/account.go",
		Old: "if !j.Status.ended() {\n\t\ta.open.jobs",
		Bug: "if true {\n\t\ta.open.jobs",
	}, check{pkg: "fsm", test: "TestAccountUsage"}},
	{"gate", mutants.Mutant{
		Name: "a claim without identity has the owner that its handler gave it", File: "api/core/gate.go",
		Old: "		nobody.Own(m)\n",
		Bug: "",
	}, check{pkg: "api", test: "TestWritesWithoutIdentityAreNobodys"}},
	{"gate", mutants.Mutant{
		Name: "a call proposes what only the leader may", File: "api/core/gate.go",
		Old: "case !forCalls(m):",
		Bug: "case !forCalls(m) && false:",
	}, check{pkg: "api", test: "TestNoMutationPassesTheGateForAnotherTenant"}},
	{"stream", mutants.Mutant{
		Name: "a follower lets one client wait at the leader without a bound", File: "api/forward.go",
		Old: "if wait = f.s.WaitOf(c.In); wait > 0 {",
		Bug: "if wait = f.s.WaitOf(c.In); wait > 0 && false {",
	}, check{pkg: "api", test: "TestWaitingClaimsOverAFollowerAreBounded"}},
}
