package api

import "testing"

// The tests whose scripts stand in testdata/scripts.

// Of ack.http.

func TestRepeatedWritesAreAcked(t *testing.T)       { play(t) }
func TestObjectAcksThatAreCutShort(t *testing.T)    { play(t) }
func TestForwardedAcks(t *testing.T)                { play(t) }
func TestForwardedAckOutlivesShutdown(t *testing.T) { play(t) }
func TestWhatIsNotWrittenIsNotAcked(t *testing.T)   { play(t) }
func TestBadAcks(t *testing.T)                      { play(t) }

// Of badinput.http.

func TestBadRequests(t *testing.T)                 { play(t) }
func TestContentTypes(t *testing.T)                { play(t) }
func TestUnknownMembers(t *testing.T)              { play(t) }
func TestUnknownParams(t *testing.T)               { play(t) }
func TestUnknownRoutes(t *testing.T)               { play(t) }
func TestWrongMethods(t *testing.T)                { play(t) }
func TestIDsThatLeaveADirectory(t *testing.T)      { play(t) }
func TestZonesWithLeapSeconds(t *testing.T)        { play(t) }
func TestForwardedClaimMayWait(t *testing.T)       { play(t) }
func TestEscapedPathsAreNotFixedOnes(t *testing.T) { play(t) }

// Of batches.http.

func TestBatch(t *testing.T)                { play(t) }
func TestBatchAgain(t *testing.T)           { play(t) }
func TestEmptyBatch(t *testing.T)           { play(t) }
func TestBatchWithKey(t *testing.T)         { play(t) }
func TestBatchCallbackMembers(t *testing.T) { play(t) }
func TestBatchList(t *testing.T)            { play(t) }

// Of change.http.

func TestChangeOne(t *testing.T)                           { play(t) }
func TestEdit(t *testing.T)                                { play(t) }
func TestAnEditedJobIsKnownByItsFirstContent(t *testing.T) { play(t) }
func TestRetryOfATakenKey(t *testing.T)                    { play(t) }
func TestChangeIDs(t *testing.T)                           { play(t) }
func TestChangeByFilter(t *testing.T)                      { play(t) }
func TestOnError(t *testing.T)                             { play(t) }
func TestExpiry(t *testing.T)                              { play(t) }
func TestChangeOfEverythingMustBeSaid(t *testing.T)        { play(t) }
func TestChangeLimits(t *testing.T)                        { play(t) }

// Of claim.http.

func TestClaimWithoutMaxIsTheOldShape(t *testing.T) { play(t) }
func TestClaimMany(t *testing.T)                    { play(t) }
func TestClaimTypes(t *testing.T)                   { play(t) }
func TestClaimAgain(t *testing.T)                   { play(t) }
func TestAgeOfLeases(t *testing.T)                  { play(t) }
func TestAgeOfLeasesInTheEnd(t *testing.T)          { play(t) }
func TestClaimWaits(t *testing.T)                   { play(t) }
func TestClaimWaitEnds(t *testing.T)                { play(t) }
func TestClaimWaitIsBounded(t *testing.T)           { play(t) }
func TestAReportCarriesTheNextClaim(t *testing.T)   { play(t) }
func TestANextClaimWithoutJobs(t *testing.T)        { play(t) }
func TestANextClaimOfARefusedReport(t *testing.T)   { play(t) }
func TestInvalidNextClaims(t *testing.T)            { play(t) }
func TestWaitForTheEnd(t *testing.T)                { play(t) }
func TestWaitOfWhatHasEnded(t *testing.T)           { play(t) }
func TestWaitInVain(t *testing.T)                   { play(t) }
func TestWaitEnds(t *testing.T)                     { play(t) }
func TestForwardedWaitForTheEnd(t *testing.T)       { play(t) }
func TestAClaimThatIsHandedOver(t *testing.T)       { play(t) }
func TestClaimFails(t *testing.T)                   { play(t) }
func TestAReportPassesWithoutItsClaim(t *testing.T) { play(t) }

// Of crons.http.

func TestCronIsShownAsItWasPut(t *testing.T)      { play(t) }
func TestCronRefuses(t *testing.T)                { play(t) }
func TestCronsThatAreNotThere(t *testing.T)       { play(t) }
func TestCronPauseAndResume(t *testing.T)         { play(t) }
func TestCronTrigger(t *testing.T)                { play(t) }
func TestCronPutTwiceWithAKey(t *testing.T)       { play(t) }
func TestCronBoundsAndJitter(t *testing.T)        { play(t) }
func TestCronRuns(t *testing.T)                   { play(t) }
func TestListCrons(t *testing.T)                  { play(t) }
func TestCronPagesAreBoundedInBytes(t *testing.T) { play(t) }

// Of enqueue.http.

func TestEnqueueTellsAbsentFromNull(t *testing.T) { play(t) }
func TestEnqueueMembers(t *testing.T)             { play(t) }
func TestEnqueueAgain(t *testing.T)               { play(t) }
func TestEnqueueBatch(t *testing.T)               { play(t) }
func TestEnqueueBatchLimit(t *testing.T)          { play(t) }
func TestHeaders(t *testing.T)                    { play(t) }
func TestInvalidHeaders(t *testing.T)             { play(t) }
func TestEnqueueOptions(t *testing.T)             { play(t) }
func TestEnqueueUnique(t *testing.T)              { play(t) }
func TestEnqueueRefusals(t *testing.T)            { play(t) }
func TestEnqueueCycle(t *testing.T)               { play(t) }
func TestRepeatedMembers(t *testing.T)            { play(t) }
func TestBodyDepth(t *testing.T)                  { play(t) }
func TestUniquePeriod(t *testing.T)               { play(t) }

// Of flows.http.

func TestSteps(t *testing.T)                     { play(t) }
func TestSuspend(t *testing.T)                   { play(t) }
func TestLinks(t *testing.T)                     { play(t) }
func TestParents(t *testing.T)                   { play(t) }
func TestOnlyAfterAFailure(t *testing.T)         { play(t) }
func TestChildren(t *testing.T)                  { play(t) }
func TestAfterABatch(t *testing.T)               { play(t) }
func TestRetryFlow(t *testing.T)                 { play(t) }
func TestWorkersMayAddChildrenOnly(t *testing.T) { play(t) }
func TestLinksNeedNoToken(t *testing.T)          { play(t) }

// Of hooks.http.

func TestHooksThatAreRefused(t *testing.T)     { play(t) }
func TestLimitedTokensSeeNoHooks(t *testing.T) { play(t) }
func TestHooks(t *testing.T)                   { play(t) }

// Of idempotency.http.

func TestRefusedWritesKeepTheirKey(t *testing.T)            { play(t) }
func TestRepeatedDuplicatesAreDuplicates(t *testing.T)      { play(t) }
func TestRepeatedClaims(t *testing.T)                       { play(t) }
func TestClaimsWithAKeyWait(t *testing.T)                   { play(t) }
func TestKeysAreForgotten(t *testing.T)                     { play(t) }
func TestRepeatedChangeOfOne(t *testing.T)                  { play(t) }
func TestNothingIsNoDefault(t *testing.T)                   { play(t) }
func TestBadKeys(t *testing.T)                              { play(t) }
func TestRepeatedHeartbeatsTellOfCancellation(t *testing.T) { play(t) }
func TestKeysAreForwarded(t *testing.T)                     { play(t) }
func TestWaitingWorkerLives(t *testing.T)                   { play(t) }

// Of jobs.http.

func TestListIsTheOldShape(t *testing.T)             { play(t) }
func TestListFilters(t *testing.T)                   { play(t) }
func TestListPages(t *testing.T)                     { play(t) }
func TestListIsBounded(t *testing.T)                 { play(t) }
func TestShowJob(t *testing.T)                       { play(t) }
func TestJobGraphInAScope(t *testing.T)              { play(t) }
func TestHistoryAndUntypedJobsInAScope(t *testing.T) { play(t) }
func TestFiguresInAScope(t *testing.T)               { play(t) }
func TestDefaultStatuses(t *testing.T)               { play(t) }
func TestCountsByType(t *testing.T)                  { play(t) }
func TestCursorsGoOnInOtherLists(t *testing.T)       { play(t) }
func TestBadListQueries(t *testing.T)                { play(t) }
func TestListOfBlocked(t *testing.T)                 { play(t) }
func TestBadSearches(t *testing.T)                   { play(t) }

// Of limits.http.

func TestLimits(t *testing.T)            { play(t) }
func TestRatesOfKeys(t *testing.T)       { play(t) }
func TestHolds(t *testing.T)             { play(t) }
func TestThrottle(t *testing.T)          { play(t) }
func TestEditedLimits(t *testing.T)      { play(t) }
func TestLimitsOfSchedules(t *testing.T) { play(t) }
func TestInvalidLimits(t *testing.T)     { play(t) }
func TestLimitsOfTenants(t *testing.T)   { play(t) }
func TestLimitsNeedATenant(t *testing.T) { play(t) }
func TestSequences(t *testing.T)         { play(t) }
func TestTheNewestWins(t *testing.T)     { play(t) }
func TestDebounce(t *testing.T)          { play(t) }
func TestUniqueFields(t *testing.T)      { play(t) }

// Of logs.http.

func TestLiveLogs(t *testing.T)                 { play(t) }
func TestLiveLogsOverAttempts(t *testing.T)     { play(t) }
func TestLiveLogsInAScope(t *testing.T)         { play(t) }
func TestLiveLogsThroughAFollower(t *testing.T) { play(t) }
func TestLiveLogsOfABadRequest(t *testing.T)    { play(t) }

// Of lsn.http.

func TestWaitForAnLSN(t *testing.T)                   { play(t) }
func TestWaitForAnLSNInVain(t *testing.T)             { play(t) }
func TestBadWaitsForAnLSN(t *testing.T)               { play(t) }
func TestWaitForAnLSNEnds(t *testing.T)               { play(t) }
func TestReadAtAnLSNOfALostCluster(t *testing.T)      { play(t) }
func TestWaitForAnLSNOfALostCluster(t *testing.T)     { play(t) }
func TestWaitForAnLSNOnAFollower(t *testing.T)        { play(t) }
func TestDamagedArchiveThroughAFollower(t *testing.T) { play(t) }

// Of node.http.

func TestWorkers(t *testing.T)                   { play(t) }
func TestWorkersAndTheirJobs(t *testing.T)       { play(t) }
func TestWorkerPages(t *testing.T)               { play(t) }
func TestQuietWorker(t *testing.T)               { play(t) }
func TestStats(t *testing.T)                     { play(t) }
func TestState(t *testing.T)                     { play(t) }
func TestMetrics(t *testing.T)                   { play(t) }
func TestAnyNodeTakesAnyRequest(t *testing.T)    { play(t) }
func TestForwardsAreCounted(t *testing.T)        { play(t) }
func TestStatus(t *testing.T)                    { play(t) }
func TestForwardedOnce(t *testing.T)             { play(t) }
func TestForwardedClaimsEnd(t *testing.T)        { play(t) }
func TestLeaderThatCannotBeReached(t *testing.T) { play(t) }

// Of queues.http.

func TestEveryTypeExists(t *testing.T)         { play(t) }
func TestQueueFigures(t *testing.T)            { play(t) }
func TestQueueSettings(t *testing.T)           { play(t) }
func TestPausedQueuesGiveNothing(t *testing.T) { play(t) }
func TestPauseWithReasonAndEnd(t *testing.T)   { play(t) }
func TestQueueReset(t *testing.T)              { play(t) }
func TestBadQueueSettings(t *testing.T)        { play(t) }
func TestQueuesAreListed(t *testing.T)         { play(t) }
func TestQueuesInOrder(t *testing.T)           { play(t) }
func TestQueueNames(t *testing.T)              { play(t) }
func TestHistory(t *testing.T)                 { play(t) }

// Of read.http.

func TestReadsWithoutLeader(t *testing.T)           { play(t) }
func TestReadsThatWaitInVain(t *testing.T)          { play(t) }
func TestBadReads(t *testing.T)                     { play(t) }
func TestPast(t *testing.T)                         { play(t) }
func TestPastRights(t *testing.T)                   { play(t) }
func TestReadsOfTheLeaderAreConfirmed(t *testing.T) { play(t) }
func TestReadsEndWithTheServer(t *testing.T)        { play(t) }
func TestEventsHead(t *testing.T)                   { play(t) }
func TestReadsWaitForAnLSN(t *testing.T)            { play(t) }

// Of report.http.

func TestReportsWithoutTokenAlwaysSucceed(t *testing.T) { play(t) }
func TestClaimAnonymous(t *testing.T)                   { play(t) }
func TestReportsWithToken(t *testing.T)                 { play(t) }
func TestForceComplete(t *testing.T)                    { play(t) }
func TestLogOfACompletion(t *testing.T)                 { play(t) }
func TestReportAfterTheLease(t *testing.T)              { play(t) }
func TestFailAndRelease(t *testing.T)                   { play(t) }
func TestBatchReports(t *testing.T)                     { play(t) }
func TestBatchReportsRefused(t *testing.T)              { play(t) }
func TestProgress(t *testing.T)                         { play(t) }
func TestHeartbeatsTellOfCancellation(t *testing.T)     { play(t) }
func TestFailDelays(t *testing.T)                       { play(t) }
func TestGroupsOfReports(t *testing.T)                  { play(t) }
func TestReportAfterTheTimeout(t *testing.T)            { play(t) }

// Of security.http.

func TestAuditOverHTTP(t *testing.T)           { play(t) }
func TestTokensOverHTTP(t *testing.T)          { play(t) }
func TestTokenQuota(t *testing.T)              { play(t) }
func TestLifetimeOfARotatedToken(t *testing.T) { play(t) }
func TestSecurityLog(t *testing.T)             { play(t) }
func TestActionsOfAJob(t *testing.T)           { play(t) }

// Of tenants.http.

func TestWholeTypesAndTokensOfGroups(t *testing.T)        { play(t) }
func TestBatchesOfTenants(t *testing.T)                   { play(t) }
func TestUniqueKeysOfTenants(t *testing.T)                { play(t) }
func TestRequestKeysOfTenants(t *testing.T)               { play(t) }
func TestWorkersOfTenants(t *testing.T)                   { play(t) }
func TestSchedulesOfTenants(t *testing.T)                 { play(t) }
func TestRotationKeepsTheTenant(t *testing.T)             { play(t) }
func TestNamesThatLookLikeATenants(t *testing.T)          { play(t) }
func TestTheAdminManagesTheObjectsOfTenants(t *testing.T) { play(t) }
func TestEmptyBatchesCountAsJobs(t *testing.T)            { play(t) }
func TestReportsOnJobsOfOthers(t *testing.T)              { play(t) }
func TestRequestKeysAreBoundedByTenant(t *testing.T)      { play(t) }
func TestDependentsAreCheckedAfterRetention(t *testing.T) { play(t) }
func TestAClaimThatWaitsHasItsTenant(t *testing.T)        { play(t) }

// Of ui.http.

func TestDashboardLinksKeepTheFilter(t *testing.T)          { play(t) }
func TestDashboardActions(t *testing.T)                     { play(t) }
func TestDashboardPast(t *testing.T)                        { play(t) }
func TestDashboardRefuses(t *testing.T)                     { play(t) }
func TestDashboardShowsTypesWithoutWorker(t *testing.T)     { play(t) }
func TestDashboardSearches(t *testing.T)                    { play(t) }
func TestDashboardSignals(t *testing.T)                     { play(t) }
func TestDashboardFlows(t *testing.T)                       { play(t) }
func TestDashboardLimits(t *testing.T)                      { play(t) }
func TestProducersSendSignalsFromTheDashboard(t *testing.T) { play(t) }
