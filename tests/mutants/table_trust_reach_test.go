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
		Name: "a server that moved is not found", File: "cluster/transport/moved.go",
		Old: "ok && a.from == address",
		Bug: "ok && a.from != address",
	}, check{pkg: "cluster", test: "TestMovedNodes"}},
}
