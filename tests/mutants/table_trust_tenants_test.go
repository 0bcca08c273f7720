package mutants_test

import "osqueue/tests/mutants"

func init() { allDefects = append(allDefects, tenantDefects...) }

// tenantDefects are defects of the rules between tenants.
var tenantDefects = []defect{
	{"scope after the wait", mutants.Mutant{
		Name: "a read that waits answers with another job that got the id", File: "api/jobs/jobs.go",
		Old: "j.Seq == first.Seq && j.CreatedAt == first.CreatedAt",
		Bug: "j.CreatedAt >= first.CreatedAt",
		Also: []mutants.Edit{{
			Old: "\tif err := s.CheckJob(c, j); err != nil {\n\t\treturn err\n\t}\n\tc.Out = c.Out[:0]\n",
			Bug: "\tc.Out = c.Out[:0]\n",
		}},
	}, check{pkg: "api", test: "TestWaitForAJobWhoseIDPassesOn"}},
	{"scope at the entry", mutants.Mutant{
		Name: "a change by ids does not look at the Seq that was checked", File: "fsm/change.go",
		Old: "j.Seq != op.Seqs[i]",
		Bug: "op.Seqs[i] == 0",
	}, check{pkg: "api", test: "TestChangesOfAJobWhoseIDPassesOn"}},
	{"scope of groups", mutants.Mutant{
		Name: "a token with groups may change a whole type", File: "internal/auth/principal.go",
		Old: "return p.CheckWholeType(op.SetQueue.GetName())",
		Bug: "return p.CheckType(op.SetQueue.GetName())",
	}, check{pkg: "api", test: "TestWholeTypesAndTokensOfGroups"}},
	{"owner of objects", mutants.Mutant{
		Name: "batches have no owner", File: "fsm/tenants/tenants.go",
		Old: "\t\town(&n.Batch)\n",
		Bug: "",
	}, check{pkg: "fsm", test: "TestEveryTextOfAMutationHasAnOwner"}},
	{"names of tenants", mutants.Mutant{
		Name: "a caller without limits can type the name of a tenant's object", File: "fsm/tenants/tenants.go",
		Old: "End      = \"\\x00\"",
		Bug: "End      = \"/\"",
	}, check{pkg: "api", test: "TestNamesThatLookLikeATenants"}},
	{"request keys of tenants", mutants.Mutant{
		Name: "the tenant with the fewest request keys loses its own", File: "fsm/request.go",
		Old: "share, _ := m.requestShares.Max()",
		Bug: "share, _ := m.requestShares.Min()",
	}, check{pkg: "api", test: "TestRequestKeysAreBoundedByTenant"}},
	{"dependents", mutants.Mutant{
		Name: "a job may wait for one out of the scope", File: "fsm/enqueue.go",
		Old: "return tenants.InScope(p.scope, j.Type, j.Options().Group)",
		Bug: "return true",
	}, check{pkg: "api", test: "TestDependentsOfTenants"}},
}
