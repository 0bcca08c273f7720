package mutants_test

import "osqueue/tests/mutants"

// trustLate are defects of the answers to requests that arrive late.
var trustLate = []defect{
	{"late requests", mutants.Mutant{
		Name: "a late snapshot is installed", File: "cluster/transport/install.go",
		Old: "\tcase known:\n",
		Bug: "\tcase known + 10:\n",
	}, check{pkg: "cluster", test: "TestSimLateSnapshotTakesNothingBack"}},
	{"late requests", mutants.Mutant{
		Name: "entries below the log are given to raft", File: "cluster/transport/install.go",
		Old: "if len(r.Entries) == 0 || r.Entries[0].Index > limit {",
		Bug: "if len(r.Entries) == 0 || limit < 1<<60 {",
	}, check{pkg: "cluster", test: "TestALateSnapshotKeepsTheLog"}},
	{"late requests", mutants.Mutant{
		Name: "raft's memory of a cleared log stops the leader", File: "cluster/raftlog/snapshots.go",
		Old: "case at.index < index && first == 0:",
		Bug: "case at.index < index && first == 1<<60:",
	}, check{pkg: "cluster", test: "TestASnapshotReplacesAnUncommittedEnd"}},
	{"late requests", mutants.Mutant{
		Name: "the log loses committed entries", File: "cluster/raftlog/log.go",
		Old: "from <= committed && newest < committed {",
		Bug: "from <= committed && newest < committed && false {",
	}, check{pkg: "cluster", test: "TestALogKeepsCommittedEntries"}},
	{"forged requests", mutants.Mutant{
		Name: "committed entries are replaced", File: "cluster/transport/install.go",
		Old: "if b.relate(f, e.Index, e.Term) != known {",
		Bug: "if b.relate(f, e.Index, e.Term) > foreign {",
	}, check{pkg: "cluster", test: "TestAForeignHistoryIsRefused"}},
	{"forged requests", mutants.Mutant{
		Name: "a single node takes requests of raft", File: "cluster/membership/senders.go",
		Old: "case len(config.Servers) == 1 && config.Servers[0].ID == n.cfg.ID:",
		Bug: "case len(config.Servers) > 1<<20 && config.Servers[0].ID == n.cfg.ID:",
	}, check{pkg: "cluster/membership", test: "TestWhoseRequestsANodeTakes"}},
	{"forged requests", mutants.Mutant{
		Name: "members of other clusters are members", File: "cluster/membership/senders.go",
		Old: "p.Cluster != own {",
		Bug: "p.Cluster == \"\" {",
	}, check{pkg: "cluster/membership", test: "TestWhoseRequestsANodeTakes"}},
	{"late requests", mutants.Mutant{
		Name: "a restore is taken up in a later term", File: "cluster/restore.go",
		Old: "if err := w.leads(); err != nil {",
		Bug: "if err := w.leads(); err != nil && false {",
	}, check{pkg: "cluster", test: "TestALateRestoreChangesNothing"}},
	{"handshakes", mutants.Mutant{
		Name: "every connection works on its handshake at once", File: "internal/limit/handshakes.go",
		Old: "max(1, runtime.GOMAXPROCS(0)/2))",
		Bug: "max(64, runtime.GOMAXPROCS(0)/2))",
	}, check{pkg: "internal/limit", test: "TestHandshakesAreBounded"}},
}

func init() { allDefects = append(allDefects, trustLate...) }
