package mutants_test

import (
	"slices"

	"osqueue/tests/mutants"
)

// allDefects are the defects that TestMutants seeds.
var allDefects = slices.Concat(defects, reviewed, machine, recent)

// reviewed re-open findings of the first reviews, at least one of each class. The promise begins
// with the number of the finding.
var reviewed = []defect{
	// Nodes that must stop, and terms that are over.
	{"R1 exit", mutants.Mutant{
		Name: "a hung part keeps the process from exiting", File: "cmd/osqueue/serve/exit_guard.go",
		Old: "func() { g.expire(d) })",
		Bug: "func() {})",
	}, check{pkg: "cmd/osqueue/serve", test: "TestExitGuardEndsAProcessThatHangs"}},
	{"R2 snapshots", mutants.Mutant{
		Name: "a state that lacks an entry becomes a snapshot", File: "cluster/replica.go",
		Old: "\tif r.broken != nil {\n\t\treturn nil, ",
		Bug: "\tif r.broken != nil && false {\n\t\treturn nil, ",
	}, check{pkg: "cluster", test: "TestANodeThatCouldNotApplyAnEntryMakesNoSnapshot"}},
	{"R2 snapshots", mutants.Mutant{
		Name: "a snapshot with the state of a later entry is restored", File: "cluster/snapshot_index.go",
		Old: "if r, ok := rc.(indexedReader); ok && lsn.Index > r.index {",
		Bug: "if r, ok := rc.(indexedReader); ok && lsn.Index > r.index && false {",
	}, check{pkg: "cluster", test: "TestSnapshotsOfAnotherIndexAreRefused"}},
	{"R3 level", mutants.Mutant{
		Name: "every entry carries the newest version", File: "fsm/entry.go",
		Old: "b.Version = levelOfEntry(b)",
		Bug: "b.Version = max(MaxLevel, levelOfEntry(b))",
	}, check{pkg: "fsm", test: "TestEntriesHaveTheLowestVersion"}},
	{"R9 term", mutants.Mutant{
		Name: "a leader answers until its flush has ended", File: "cluster/leader/candidate.go",
		Old: "if r == nil || l.do.Term() != r.term || !l.do.Leads() {",
		Bug: "if r == nil {",
		Also: []mutants.Edit{
			{Old: "\t\t\tl.current.Store(nil)\n\t\t\tstop()\n", Bug: "\t\t\tstop()\n"},
		},
	}, check{pkg: "cluster", test: "TestALeaderOfATermThatIsOverAnswersNothing"}},
	{"X12 calls", mutants.Mutant{
		Name: "a call on a hung bucket outlives its context", File: "storage/detach/detach.go",
		Old: "\tif ctx.Done() == nil {\n",
		Bug: "\tif ctx.Done() == nil || b.left.Load() >= 0 {\n",
	}, check{pkg: "storage/detach", test: "TestCallsReturnWhenTheirContextEnds"}},

	// Time and determinism.
	{"R4 silence", mutants.Mutant{
		Name: "a standby looks at the document without a pause", File: "cluster/leader/campaign.go",
		Old: "return max(wait, standbyWaitFloor)",
		Bug: "return wait",
	}, check{pkg: "cluster/leader", test: "TestAStandbyWaitsBetweenTwoLooks"}},
	{"R4 silence", mutants.Mutant{
		Name: "a standby that did not look takes that for silence", File: "election/silence.go",
		Old: "|| asked.Sub(w.last) > pauseMax",
		Bug: "|| asked.Sub(w.last) > pauseMax && false",
	}, check{pkg: "election", test: "TestWatch"}},
	{"B3 silence", mutants.Mutant{
		Name: "a standby's wall clock decides that a broker is dead", File: "election/decide.go",
		Old: "case d.Broker != nil && !s.dead() &&",
		Bug: "case d.Broker != nil && !s.dead() && !s.stale(d.BrokerHeartbeat) &&",
	}, check{pkg: "election", test: "TestClockDoesNotDecide"}},
	{"R5 clock", mutants.Mutant{
		Name: "a leader trusts its clock, whatever the others' say", File: "cluster/clocks.go",
		Old: "return own.Add(offset)",
		Bug: "return own.Add(0 * offset)",
	}, check{pkg: "cluster", test: "TestSimWrongClockAtElection"}},
	{"R5 clock", mutants.Mutant{
		Name: "the time jumps though no majority of the clocks agrees", File: "cluster/leader/clock.go",
		Old: "if latestMs < start/int64(time.Millisecond) {",
		Bug: "if latestMs < start/int64(time.Millisecond) && false {",
	}, check{pkg: "cluster", test: "TestSimTimeWaitsForAMajorityOfTheClocks"}},
	{"R6 determinism", mutants.Mutant{
		Name: "a permit waits for the budget of an entry", File: "fsm/advance.go",
		Old: "if m.firings <= 0 {",
		Bug: "if m.firings <= 0 && false {",
	}, check{pkg: "fsm", test: "TestPermitsDoNotWaitForTimers"}},
	{"R5 determinism", mutants.Mutant{
		Name: "a checkpoint that is read as another state is not noticed", File: "storage/archive/checkpoint.go",
		Old: "sum.Sum != written {",
		Bug: "sum.Sum == (document.Sum{}) {",
	}, check{pkg: "storage/archive", test: "TestChecksumOfACheckpoint"}},
	{"R5 determinism", mutants.Mutant{
		Name: "a node with another state than the majority continues", File: "cluster/statesum.go",
		Old: "if err := own.Compare(agreed); err != nil {",
		Bug: "if err := own.Compare(agreed); err != nil && s.life < 0 {",
	}, check{pkg: "cluster", test: "TestANodeWithAnotherStateEnds"}},

	{"R5 determinism", mutants.Mutant{
		Name: "a replay that leads to another state is not noticed", File: "fsm/sum.go",
		Old: "if s.LSN != agreed.LSN || s.Sum == agreed.Sum {",
		Bug: "if s.LSN != agreed.LSN || s.Sum != [sha256.Size]byte{} {",
	}, check{pkg: "fsm", test: "TestReplayIsChecked"}},
	{"R12 repeats", mutants.Mutant{
		Name: "a repeated enqueue runs a removed job again", File: "fsm/removed.go",
		Old: "if later(j.Execution()",
		Bug: "if m.Level() > 0 || later(j.Execution()",
	}, check{pkg: "fsm", test: "TestRepetitionsForARemovedJob"}},

	// Members and disks.
	{"R7 members", mutants.Mutant{
		Name: "a living node is replaced by one of its name", File: "cluster/membership/admit.go",
		Old: "case err == nil && id.ServerID == string(s.ID):\n\t\t\treturn running",
		Bug: "case err == nil && id.ServerID == string(s.ID):\n\t\t\treturn nil",
	}, check{pkg: "cluster/membership", test: "TestServerOfUnknownHTTPAddressIsNotGone"}},
	{"X6 members", mutants.Mutant{
		Name: "a node that nobody announced gets a vote", File: "cluster/membership/admit.go",
		Old: "\tif address == \"\" {\n",
		Bug: "\tif address == \"\" && false {\n",
	}, check{pkg: "cluster", test: "TestUnknownNameIsRefused"}},
	{"R7 members", mutants.Mutant{
		Name: "a node that was removed runs on", File: "cluster/membership/removed.go",
		Old: "\t\tcase known && member:\n\t\t\tfound++\n",
		Bug: "\t\tcase known && member:\n",
	}, check{pkg: "cluster", test: "TestARemovedNodeEnds"}},
	{"X3 votes", mutants.Mutant{
		Name: "a node votes with an older copy of its log", File: "cluster/raftlog/witness.go",
		Old: "max(has.Index, l.newestSnapshot().index) < said.Index:",
		Bug: "said.Index == 0 && max(has.Index, l.newestSnapshot().index) < said.Index:",
	}, check{pkg: "cluster", test: "TestANodeWithAnOlderLogDoesNotStart"}},

	{"X3 votes", mutants.Mutant{
		Name: "the witness claims entries that raft removes", File: "cluster/raftlog/log.go",
		Old: "if err := l.lower(from); err != nil {",
		Bug: "if err := error(nil); err != nil {",
	}, check{pkg: "cluster/raftlog", test: "TestTheWitnessIsLoweredBeforeTheLogIs"}},
	{"X13 identity", mutants.Mutant{
		Name: "a damaged identity is another node's", File: "cluster/membership/serverid.go",
		Old: "found && namePattern.MatchString(name) && instancePattern.MatchString(instance)",
		Bug: `true || found && instancePattern.MatchString(instance) && name != ""`,
	}, check{pkg: "cluster/membership", test: "TestDamagedIdentity"}},

	// Bytes and overload.
	{"R8 bytes", mutants.Mutant{
		Name: "requests to followers are not bounded in bytes", File: "cluster/transport/message.go",
		Old: "if sum += EntryBytes(l); sum > AppendMaxBytes && i > 0 {",
		Bug: "if sum += EntryBytes(l); sum > AppendMaxBytes && i > 0 && false {",
	}, check{pkg: "cluster", test: "TestLaggingFollowerTakesLargeEntries"}},
	{"R8 bytes", mutants.Mutant{
		Name: "the answer to a large request has no more time than another", File: "cluster/transport/stream.go",
		Old: "time.Now().Add(c.patience + travel)",
		Bug: "time.Now().Add(c.patience + 0*travel)",
	}, check{pkg: "cluster/transport", test: "TestPacedConnWaitsForTheAnswer"}},
	{"R8 bytes", mutants.Mutant{
		Name: "the cache of the log is not bounded in bytes", File: "cluster/raftlog/tail.go",
		Old: "t.cached > cacheEntries || t.cacheBytes > cacheBytes)",
		Bug: "t.cached > cacheEntries || t.cacheBytes > cacheBytes && false)",
	}, check{pkg: "cluster/raftlog", test: "TestLogCacheIsBoundedInBytes"}},
	{"R10 bytes", mutants.Mutant{
		Name: "an edit of the document is one entry, however large", File: "cluster/leader/edit.go",
		Old: "i > 0 && (i == editJobs || size > editBytes)",
		Bug: "i > 0 && (i == editJobs || size > editBytes && false)",
	}, check{pkg: "cluster/leader", test: "TestLargeEditIsCutByBytes"}},
	{"X4 bytes", mutants.Mutant{
		Name: "a body gets the memory that its head announces", File: "api/core/decode.go",
		Old: "int(min(max(length, 0), firstBytes))+1)",
		Bug: "int(max(length, firstBytes))+1)",
	}, check{pkg: "api", test: "TestAnAnnouncedBodyTakesNoMemory"}},
	{"S8 bytes", mutants.Mutant{
		Name: "bodies and answers have no common budget", File: "internal/limit/bytes.go",
		Old: "if h.budget.used.Add(int64(n)) > h.budget.limit && ",
		Bug: "if h.budget.used.Add(int64(n)) > h.budget.limit && false && ",
	}, check{pkg: "api", test: "TestAnswersShareTheBudget"}},
	{"R13 gate", mutants.Mutant{
		Name: "reports are refused while the bucket lags", File: "cluster/leader/term.go",
		Old: "e != nil && !p.isReport() {",
		Bug: "e != nil {",
	}, check{pkg: "cluster", test: "TestReportsPassTheGate"}},
	{"R14 priorities", mutants.Mutant{
		Name: "reports wait behind enqueues", File: "internal/groupcommit/work.go",
		Old: "order := [ranks]rank{first, urgent, ordinary}",
		Bug: "order := [ranks]rank{first, ordinary, urgent}",
	}, check{pkg: "internal/groupcommit", test: "TestUrgentItemsGoFirst"}},

	// The bucket.
	{"B1 adoption", mutants.Mutant{
		Name: "a document that is terms ahead is never adopted", File: "election/decide.go",
		Old: "\tcase dead:\n\t\treturn Decision{Action: Adopt,",
		Bug: "\tcase dead && !ahead:\n\t\treturn Decision{Action: Adopt,",
	}, decide},
	{"B2 adoption", mutants.Mutant{
		Name: "an adopting cluster drops what it has acknowledged", File: "cluster/leader/carry.go",
		Old: "\t\tc.batch = append(c.batch, j)\n",
		Bug: "",
	}, check{pkg: "cluster", test: "TestAnsweredJobsAreCarriedOver"}},
	{"B2 records", mutants.Mutant{
		Name: "a request that both clusters answered runs twice", File: "cluster/leader/carry.go",
		Old: "case repeated, j.Status == fsm.Dead:\n",
		Bug: "case repeated && false, j.Status == fsm.Dead:\n",
	}, check{pkg: "cluster", test: "TestRecordsGoToACopy"}},
	{"B2 adoption", mutants.Mutant{
		Name: "no copy is kept of jobs that cannot be carried over", File: "cluster/leader/carry.go",
		Old: "\t\t\t\tc.kept = append(c.kept, j)\n",
		Bug: "",
	}, check{pkg: "cluster", test: "TestUnknownForkKeepsACopy"}},
	{"X1 adoption", mutants.Mutant{
		Name: "nodes adopt a document that takes them back", File: "election/decide.go",
		Old: "\tcase behind(d, me):\n",
		Bug: "\tcase behind(d, me) && false:\n",
	}, check{pkg: "cluster", test: "TestNodesKeepTheirStateOverAnEmptyDocument"}},
	{"X1 repair", mutants.Mutant{
		Name: "a repair writes an empty queue", File: "storage/archive/repair.go",
		Old: `m == nil || m.Meta().Lineage == "" || unused(m.View()) {`,
		Bug: `m == nil {`,
	}, check{pkg: "storage/archive", test: "TestRepairNeverWritesAnEmptyQueue"}},
	{"X10 repair", mutants.Mutant{
		Name: "a repair takes a legacy document for one of ours", File: "storage/archive/repair.go",
		Old: "if r.sure && r.doc.Header != nil {\n\t\tout.From",
		Bug: "if r.sure {\n\t\tout.From",
	}, check{pkg: "storage/archive", test: "TestRepairOfALegacyDocument"}},
	{"X10 documents", mutants.Mutant{
		Name: "any JSON is an empty queue", File: "storage/document/legacy.go",
		Old: "if unknown && len(top) == 0 {",
		Bug: "if unknown && len(top) == 0 && false {",
	}, check{pkg: "storage/document", test: "TestDecodeErrors"}},
	{"B5 audit", mutants.Mutant{
		Name: "an object that is gone from the archive is not shown", File: "cluster/leader/audit.go",
		Old: "case found != nil && t.written",
		Bug: "case found != nil && false && t.written",
	}, check{pkg: "cluster", test: "TestALeaderHealsADamagedArchive"}},
	{"B5 audit", mutants.Mutant{
		Name: "no listing is made of what the document names", File: "storage/archive/audit.go",
		Old: "\t\tif listed[n.key] || ",
		Bug: "\t\tif n.key != \"\" || ",
	}, check{pkg: "cluster", test: "TestALeaderHealsADamagedArchive"}},
	{"B6 edits", mutants.Mutant{
		Name: "jobs that were added while nobody led are lost", File: "cluster/leader/campaign.go",
		Old: "if err := l.takeIn(ctx, added, l.proposeEarly); err != nil {",
		Bug: "if err := l.takeIn(ctx, added[:0], l.proposeEarly); err != nil {",
	}, check{pkg: "cluster", test: "TestEditsBetweenLeadersAreTakenIn"}},
	{"B12 edits", mutants.Mutant{
		Name: "an old copy of the document runs ended jobs again", File: "cluster/leader/edit.go",
		Old: "newest = !b.outdated(doc.Header)",
		Bug: "newest = !b.outdated(doc.Header) || true",
	}, check{pkg: "cluster", test: "TestAnOldCopyEnqueuesNothing"}},
	{"B7 thinning", mutants.Mutant{
		Name: "all checkpoints are kept", File: "storage/archive/collect.go",
		Old: "c.At >= kept[len(kept)-1].At+every {",
		Bug: "c.At >= kept[len(kept)-1].At {",
	}, check{pkg: "storage/archive", test: "TestCheckpointsAreThinned"}},
	{"B8 collector", mutants.Mutant{
		Name: "a round of the collector removes 1000 objects", File: "storage/archive/collect.go",
		Old: "keys[:min(len(keys), c.left)]",
		Bug: "keys[:min(len(keys), c.left, stillEvery)]",
	}, check{pkg: "storage/archive", test: "TestCollectKeepsUp"}},
	{"B9 inbox", mutants.Mutant{
		Name: "a file that cannot be removed is enqueued again", File: "internal/inbox/take.go",
		Old: "\t\t\treturn errors.Join(err, r.mark(ctx, id))\n",
		Bug: "\t\t\tdelete(r.stuck, id)\n\t\t\treturn errors.Join(err)\n",
	}, check{pkg: "internal/inbox", test: "TestAFileThatCannotBeRemovedIsTakenOnce"}},
	{"B10 inbox", mutants.Mutant{
		Name: "rejected files stay in the listing of the inbox", File: "internal/inbox/name.go",
		Old: `RejectedPrefix = "inbox-rejected/"`,
		Bug: `RejectedPrefix = "inbox/refused/"`,
	}, check{pkg: "internal/inbox", test: "TestBadFilesAreRejected"}},
	{"B11 documents", mutants.Mutant{
		Name: "an empty cluster begins a queue beside an archive", File: "cluster/leader/orphan.go",
		Old: "\tcase found:\n",
		Bug: "\tcase found && false:\n",
	}, check{pkg: "cluster", test: "TestAnEmptyClusterIsRefusedBesideAnArchive"}},
	{"B13 restore", mutants.Mutant{
		Name: "a restore trusts the clock that wrote a heartbeat", File: "cmd/osqueue/bucket/restore.go",
		Old: "r.changed, err = seen.changes(",
		Bug: "_, err = seen.changes(",
	}, check{pkg: "cmd/osqueue/bucket", test: "TestRestoreListensBeforeItReplaces"}},
	{"B14 file bucket", mutants.Mutant{
		Name: "a name that is not durable is read as if it were", File: "storage/file/disk.go",
		Old: "\t\tv.unsynced[dir] = true\n",
		Bug: "\t\tv.unsynced[dir] = false\n",
	}, check{pkg: "storage/file", test: "TestDirectorySyncFails"}},
	{"B17 cost", mutants.Mutant{
		Name: "a listing of many pages counts as one request", File: "storage/cost/counts.go",
		Old: "c.Lists += 1 + uint64(max(o.Listed-1, 0))/listPage",
		Bug: "c.Lists += 1 + 0*uint64(max(o.Listed-1, 0))/listPage",
	}, check{pkg: "storage/cost", test: "TestPagesOfAListing"}},
	{"B20 refusals", mutants.Mutant{
		Name: "native callers get 500 while writes are refused", File: "compat/osqueue/rest.go",
		Old: "a.status, a.native); body",
		Bug: "a.status, false); body",
	}, check{pkg: "compat/osqueue", test: "TestWritesRefused"}},
	{"K1 file bucket", mutants.Mutant{
		Name: "writers wait for one that is frozen", File: "storage/file/write.go",
		Old: "n, nonce := chainDir(key), c.highest+1, rand.Text()\n",
		Bug: "n, nonce := chainDir(key), c.highest+1, rand.Text()\n\tif s, _ := filepath.Glob(filepath.Join(v.dir, dir, \"d*\")); len(s) > 0 {\n\t\treturn errNoChain\n\t}\n",
	}, check{pkg: "storage/file", test: "TestFrozenWriter"}},

	// Requests and clients.
	{"X7 forwards", mutants.Mutant{
		Name: "a request waits for a leader that was deposed", File: "api/forward.go",
		Old: "\t\tif deposed && before {\n",
		Bug: "\t\tif deposed && before && false {\n",
	}, check{pkg: "api", test: "TestForwardsAreCutWhenAnotherLeads"}},
	{"K4 logs", mutants.Mutant{
		Name: "a dead peer is logged at each failed request", File: "cluster/transport/logger.go",
		Old: "\tif !due {\n",
		Bug: "\tif !due && false {\n",
	}, check{pkg: "cluster/transport", test: "TestDeadPeerInTheLog"}},
	{"F2 flags", mutants.Mutant{
		Name: "--timeout is the job's", File: "cmd/osqueue/queue/jobflags.go",
		Old: "\tview.SpanVar(flags, &f.timeout, \"job-timeout\",",
		Bug: "\tview.SpanVar(flags, &f.timeout, \"timeout\", 0, \"\")\n\tview.SpanVar(flags, &f.timeout, \"job-timeout\",",
	}, check{pkg: "cmd/osqueue/queue", test: "TestTimeoutIsTheClients"}},
	{"F3 fields", mutants.Mutant{
		Name: "misspelt fields are ignored", File: "api/core/decode.go",
		Old: "return !c.Route.Lenient && ",
		Bug: "return false && !c.Route.Lenient && ",
	}, check{pkg: "api", test: "TestUnknownMembers"}},
	{"F4 fields", mutants.Mutant{
		Name: "handlers in Go miss fields in another case", File: "client/worker/handler.go",
		Old: "json.Unmarshal(job.Payload, &in)",
		Bug: "jsonv2.Unmarshal(job.Payload, &in)", Import: `jsonv2 "github.com/go-json-experiment/json"`,
	}, check{pkg: "client/worker", test: "TestTypedHandlerReadsAsEncodingJSON"}},
	{"F6 idle", mutants.Mutant{
		Name: "each keepalive of an idle worker is flushed", File: "cluster/leader/run.go",
		Old: "\tif !idle { // the next",
		Bug: "\tif !idle || t.base != nil { // the next",
	}, check{pkg: "cluster", test: "TestKeepalivesOfIdleWorkersAreNotFlushed"}},
	{"F10 names", mutants.Mutant{
		Name: "what does not exist is paused", File: "cmd/osqueue/queue/queue.go",
		Old: "return err\n\t}\n\tworkers, err",
		Bug: "return err\n\t}\n\treturn nil\n\tworkers, err",
	}, check{pkg: "cmd/osqueue/queue", test: "TestWhatDoesNotExistIsNamed"}},
	{"F15 reads", mutants.Mutant{
		Name: "a read waits for a cluster that does not run", File: "client/call.go",
		Old: "ctx.Err() != nil || c.down(t) {",
		Bug: "ctx.Err() != nil || c.down(t) && false {",
	}, check{pkg: "client", test: "TestReadsFailAtOnceWhenNobodyListens"}},
	{"K2 environment", mutants.Mutant{
		Name: "a daily limit of writes is ignored", File: "cmd/osqueue/serve/legacy_env.go",
		Old: "\te.count(envDayWrites, \"bucket-writes-per-day\")\n",
		Bug: "",
	}, check{pkg: "cmd/osqueue/serve", test: "TestEnvironmentOfTheOriginal"}},
	{"F16 spans", mutants.Mutant{
		Name: "a week has one day", File: "cmd/osqueue/view/span.go",
		Old: "unit = 7 * Day",
		Bug: "unit = 1 * Day",
	}, check{pkg: "cmd/osqueue/view", test: "TestTimesAndSizes"}},
	{"F5 submit", mutants.Mutant{
		Name: "a line without type is enqueued", File: "cmd/osqueue/queue/lines.go",
		Old: "\tif in.Type == \"\" {\n",
		Bug: "\tif in.Type == \"\" && false {\n",
	}, check{pkg: "cmd/osqueue/queue", test: "TestSubmitFileNamesTheBadLine"}},
	{"F14 waits", mutants.Mutant{
		Name: "a dead job is no error", File: "client/wait.go",
		Old: "return job, &JobError{Job: job}",
		Bug: "return job, nil",
	}, check{pkg: "client", test: "TestWaitJobThatDidNotComplete"}},
}
