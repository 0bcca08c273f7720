package mutants_test

import "osqueue/tests/mutants"

func init() { allDefects = append(allDefects, jobs...) }

// jobs are defects of schedules, of attempts and of workers that share a name.
var jobs = []defect{
	{"schedules", mutants.Mutant{
		Name: "a star with a step restricts the day", File: "internal/crontab/parse.go",
		Old: "both: star[3] || star[5],",
		Bug: `both: given[3] == "*" || given[5] == "*",`,
	}, check{pkg: "internal/crontab", test: "TestCronTable"}},
	{"schedules", mutants.Mutant{
		Name: "a fixed time in a skipped hour does not run", File: "internal/crontab/schedule.go",
		Old: "skipped <= 0 || skipped >= forwardEnd",
		Bug: "skipped <= 0 || skipped >= 0*forwardEnd",
	}, check{pkg: "internal/crontab", test: "TestCronTable"}},
	{"schedules", mutants.Mutant{
		Name: "times that a change of the clocks left out are not missed", File: "internal/crontab/schedule.go",
		Old: "return at, missed + s.lostBetween(since, at)",
		Bug: "return at, missed + 0*s.lostBetween(since, at)",
	}, check{pkg: "cluster/leader", test: "TestASkippedHourFiresOnce"}},
	{"attempts", mutants.Mutant{
		Name: "an unconfirmed last attempt counts", File: "fsm/report.go",
		Old: "if old.Execution().Unconfirmed && old.Details().CancelAt == 0 {",
		Bug: "if old.Execution().Unconfirmed && old.Details().CancelAt != 0 {",
	}, check{pkg: "fsm", test: "TestAnUnconfirmedLastAttemptIsGivenBack"}},
	{"attempts", mutants.Mutant{
		Name: "a worker starts a last attempt unconfirmed", File: "client/worker/execute.go",
		Old: "if err == nil && h.job.Confirm {",
		Bug: "if err == nil && h.job.Confirm && false {",
	}, check{pkg: "client/worker", test: "TestALastAttemptIsConfirmed"}},
	{"instances", mutants.Mutant{
		Name: "the end of an old instance takes the jobs of the new one", File: "fsm/worker.go",
		Old: "if instance == 0 || instance == j.Execution().Instance {",
		Bug: "if instance == 0 || instance != 0 {",
	}, check{pkg: "fsm", test: "TestTheEndOfAnOldInstance"}},
	{"dependencies", mutants.Mutant{
		Name: "a removed job that completed is waited for", File: "fsm/removed.go",
		Old: "\tif r := m.removedJob(id); r != nil {\n\t\treturn Status(r.Items[0].Status)\n\t}\n",
		Bug: "",
	}, check{pkg: "fsm", test: "TestAfterARemovedJob"}},
	{"lists", mutants.Mutant{
		Name: "a type whose last job goes stays in the lists", File: "fsm/index.go",
		Old: "\tq.counts[j.Status]--\n\tm.changedType(q)\n",
		Bug: "\tq.counts[j.Status]--\n",
	}, check{pkg: "fsm", test: "TestListsOfTypes"}},
}
