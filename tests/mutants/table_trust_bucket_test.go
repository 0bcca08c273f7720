package mutants_test

import "osqueue/tests/mutants"

func init() { allDefects = append(allDefects, trustBucket...) }

// trustBucket are defects of the choice of the bucket, and of what is in it.
var trustBucket = []defect{
	{"bucket root", mutants.Mutant{
		Name: "another directory without a marker is the bucket", File: "storage/file/marker.go",
		Old: "\tcase !same:\n",
		Bug: "\tcase !same && false:\n",
	}, check{pkg: "storage/file", test: "TestAnotherDirectory"}},
	{"bucket root", mutants.Mutant{
		Name: "another bucket is taken for the one that was opened", File: "storage/file/marker.go",
		Old: "case found != \"\" && (known == \"\" || found == known || same):",
		Bug: "case found != \"\":",
	}, check{pkg: "storage/file", test: "TestAnotherDirectory"}},
	{"bucket root", mutants.Mutant{
		Name: "a bucket that was emptied loses its marker", File: "storage/file/marker.go",
		Old: "found = v.mark(known)",
		Bug: "found = known",
	}, check{pkg: "storage/file", test: "TestEmptiedBucket"}},
	{"bucket root", mutants.Mutant{
		Name: "a new file system with the same numbers is the bucket", File: "storage/file/marker.go",
		Old: "os.SameFile(p.info, q.info) && p.birth == q.birth && p.mount == q.mount",
		Bug: "os.SameFile(p.info, q.info)",
	}, check{pkg: "storage/file", test: "TestMounts"}},
	{"bucket root", mutants.Mutant{
		Name: "an empty node marks the directory below a mount point", File: "storage/file/marker.go",
		Old: "case known == \"\" && v.hasDocument():",
		Bug: "case known == \"\":",
	}, check{pkg: "storage/file", test: "TestNoMarkerWithoutADocument"}},
	{"bucket root", mutants.Mutant{
		Name: "a cluster with state begins a document in any bucket", File: "cluster/leader/orphan.go",
		Old: "if me.Lineage != \"\" {",
		Bug: "if me.Lineage != \"\" && false {",
	}, check{pkg: "cluster", test: "TestAClusterWithStateAsksBeforeItBeginsADocument"}},
	{"bucket root", mutants.Mutant{
		Name: "a standby takes a removed document for the end of its leader", File: "cluster/leader/orphan.go",
		Old: "return a == election.Create && l.rivals.Load()",
		Bug: "return a == election.Create && false && l.rivals.Load()",
	}, check{pkg: "cluster", test: "TestAStandbyLeavesARemovedDocumentToItsLeader"}},
	{"emptied bucket", mutants.Mutant{
		Name: "the document is written again without a look at the archive", File: "cluster/leader/edit.go",
		Old: "if err := t.doubt(ctx); err != nil {",
		Bug: "if err := error(nil); err != nil {",
	}, check{pkg: "cluster", test: "TestNoWriteIsConfirmedAfterTheBucketWasEmptied"}},
	{"emptied bucket", mutants.Mutant{
		Name: "a leader continues with the archive of an older copy", File: "cluster/leader/doubt.go",
		Old: "if found == nil || err != nil {",
		Bug: "if found != nil || err == nil || err != nil {",
	}, check{pkg: "cluster", test: "TestAnOlderCopyIsFoundByTheNextLeader"}},
	{"doubtful documents", mutants.Mutant{
		Name: "a changed document is adopted silently", File: "cluster/leader/edit.go",
		Old: "case newest && doc.Edited:",
		Bug: "case newest && doc.Edited && false:",
	}, check{pkg: "cluster", test: "TestDoubtfulDocumentsAreAdoptedWithAWarning"}},
	{"doubtful documents", mutants.Mutant{
		Name: "an older document is adopted silently", File: "cluster/leader/doubt.go",
		Old: "if newest.Compare(lsn) > 0 {",
		Bug: "if newest.Compare(lsn) > 0 && false {",
	}, check{pkg: "cluster", test: "TestDoubtfulDocumentsAreAdoptedWithAWarning"}},
	{"links", mutants.Mutant{
		Name: "objects are read through links", File: "storage/file/bucket.go",
		Old: "\t\tcase !named.Mode().IsRegular():\n",
		Bug: "\t\tcase false:\n",
		Also: []mutants.Edit{
			{Old: "f, err := v.root.OpenFile(path,", Bug: "f, err := os.OpenFile(filepath.Join(v.dir, path),"},
			{Old: "os.SameFile(named, info)", Bug: "(os.SameFile(named, info) || true)"},
		},
	}, check{pkg: "storage/file", test: "TestLinksOutOfABucket"}},
	{"long texts", mutants.Mutant{
		Name: "inspect shows an address of any length", File: "cmd/osqueue/bucket/inspect.go",
		Old: "const brokerShown = 256",
		Bug: "const brokerShown = 256 << 20",
	}, check{pkg: "cmd/osqueue/bucket", test: "TestInspectALongText"}},
}
