package mutants_test

import "osqueue/tests/mutants"

// trustFence are defects of the right to answer while another cluster may have the document.
var trustFence = []defect{
	{"two clusters", mutants.Mutant{
		Name: "a candidate counts with its own broker timeout", File: "election/silence.go",
		Old: "\tcase f.Timeout <= 0:\n",
		Bug: "\tcase f.Timeout <= 0 || true:\n",
	}, check{pkg: "cluster", test: "TestSimUnknownStandbyWithAShorterTimeout"}},
	{"two clusters", mutants.Mutant{
		Name: "a minority of the members is enough", File: "election/silence.go",
		Old: "return own > len(members)/2",
		Bug: "return own > 0 && own > len(members)/4",
	}, check{pkg: "election", test: "TestFenceOfTheDocument"}},
	{"two clusters", mutants.Mutant{
		Name: "a lost write that names a standby does not count", File: "cluster/flush/flusher.go",
		Old: "if last := f.renewed.Load(); named && !last.named {",
		Bug: "if last := f.renewed.Load(); named && last.named {",
	}, check{pkg: "cluster/flush", test: "TestLostAnswerThatNamesAStandby"}},
	{"two clusters", mutants.Mutant{
		Name: "an answer is delivered after the takeover", File: "cluster/leader/propose.go",
		Old: "case late != nil && !r.own && !r.ms.isHeartbeat():",
		Bug: "case late != nil && r.own && !r.ms.isHeartbeat():",
	}, check{pkg: "cluster", test: "TestSimSlowLeaderAnswersNothingLate"}},
	{"two clusters", mutants.Mutant{
		Name: "reads are answered after the takeover", File: "cluster/leader/term.go",
		Old: "\tif e := t.rival(); e != nil {\n\t\treturn e\n\t}\n\treturn nil\n}",
		Bug: "\treturn nil\n}",
	}, check{pkg: "cluster", test: "TestSimKnownStandbyWithAShorterTimeout"}},
	{"two clusters", mutants.Mutant{
		Name: "the leader names only one standby", File: "cluster/leader/standby.go",
		Old: "return len(keys) < standbyMost",
		Bug: "return len(keys) < standbyMost/standbyMost",
	}, check{pkg: "cluster", test: "TestSimTwoStandbys"}},
	{"adoption", mutants.Mutant{
		Name: "an adoption does not count after an election", File: "fsm/machine.go",
		Old: "m.meta.Adopted = adopted",
		Bug: "m.meta.Adopted = adopted[:0]",
	}, check{pkg: "cluster", test: "TestAdoptionCountsAfterAnElection"}},
}

func init() { allDefects = append(allDefects, trustFence...) }
