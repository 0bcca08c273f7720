package mutants_test

import "osqueue/tests/mutants"

func init() { allDefects = append(allDefects, reach...) }

// reach are defects of nodes that lose their way to the bucket, and of nodes that move.
var reach = []defect{
	{"reach", mutants.Mutant{
		Name: "a leader without the bucket keeps the leadership", File: "cluster/leader/handover.go",
		Old: "if best < 0 {",
		Bug: "if best < 0 || true {",
	}, check{pkg: "cluster", test: "TestSimLeaderWithoutBucket"}},
	{"reach", mutants.Mutant{
		Name: "leadership moves to a node that cannot use the bucket", File: "cluster/leader/handover.go",
		Old: "if a.err == nil && a.Behind",
		Bug: "if a.Behind",
	}, check{pkg: "cluster", test: "TestSimBucketAwayForAllMovesNoLeadership"}},
	{"reach", mutants.Mutant{
		Name: "a refused key is not read again", File: "storage/s3/credentials.go",
		Old: "\tr.refused = true\n",
		Bug: "\tr.refused = false\n",
	}, check{pkg: "storage/s3", test: "TestRotatedCredentials"}},
	{"reach", mutants.Mutant{
		Name: "the end of an outage is forgotten with a snapshot", File: "fsm/pb.go",
		Old: "		Announced:      p.Announced,\n",
		Bug: "",
	}, check{pkg: "cluster", test: "TestANewLeaderAnnouncesTheEnd"}},
	{"reach", mutants.Mutant{
		Name: "a server that moved is not found", File: "cluster/transport/outbound.go",
		Old: "ok && a.from == address",
		Bug: "ok && a.from != address",
	}, check{pkg: "cluster", test: "TestMovedNodes"}},
	{"reach", mutants.Mutant{
		Name: "a disk that hangs in a read goes unnoticed", File: "cluster/raftlog/log.go",
		Old: `err := l.Watch("read the raft log", 0, func() error { return l.store.GetLog(index, e) })`,
		Bug: `err := l.store.GetLog(index, e)`,
	}, check{pkg: "cluster/raftlog", test: "TestADiskThatHangsIsFatal"}},
	{"reach", mutants.Mutant{
		Name: "a hung removal of the start of the log goes unnoticed", File: "cluster/raftlog/log.go",
		Old: `return l.Watch("remove the start of the raft log", 0, func() error { return l.store.DeleteRange(from, to) })`,
		Bug: `return l.store.DeleteRange(from, to)`,
	}, check{pkg: "cluster/raftlog", test: "TestADiskThatHangsIsFatal"}},
	{"reach", mutants.Mutant{
		Name: "a new leader adopts the same document again", File: "cluster/leader/campaign.go",
		Old: "Adopted:   storage.Version(m.Adopted),",
		Bug: "Adopted:   storage.Version(m.Adopted)[:0],",
	}, check{pkg: "cluster", test: "TestAdoptionCountsAfterAnElection"}},
	{"reach", mutants.Mutant{
		Name: "a leader that stood still ends the leases", File: "cluster/leader/clock.go",
		Old: "const standStill = 4 * clockTick",
		Bug: "const standStill = 400_000 * clockTick",
	}, check{pkg: "cluster/leader", test: "TestLeaderClockAfterAStandStill"}},
	{"reach", mutants.Mutant{
		Name: "each request that does not fit delays the frames behind it", File: "api/stream/conn.go",
		Old: "if full() && !c.stuck {",
		Bug: "if full() {",
	}, check{pkg: "api/stream", test: "TestConnReadsOnBehindAWaitingRequest"}},
	{"recovery", mutants.Mutant{
		Name: "a leader that lost its adoption does not watch the document", File: "cluster/leader/candidate.go",
		Old: "\t\t\tif led {\n",
		Bug: "\t\t\tif led && false {\n",
	}, check{pkg: "cluster", test: "TestSimAnAdoptionIsNotWaitedForTwice"}},
	{"strangers", mutants.Mutant{
		Name: "an answer that is not a node's proves something", File: "client/verdict.go",
		Old: "\tcase !o.problem.ours:\n",
		Bug: "\tcase !o.problem.ours && o.status >= 500:\n",
	}, check{pkg: "client", test: "TestJudge"}},
}
