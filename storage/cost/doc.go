// Package cost counts what a bucket's requests cost, projects it to a month, and
// paces the flusher so that a monthly budget lasts.
//
// # Problem
//
// Object stores charge for each request, also for a failed conditional one. A queue that
// flushes 20 times a second spends $259 a month, even if it has few jobs. So the cost is
// counted where the requests are sent, and reported while it can still be changed. If there
// is a budget, the queue flushes less often to keep within it.
//
//	requests ──▶ Meter ──▶ Report: so far, projected, budget
//	               │
//	               ▼
//	             Pacer ──▶ interval between flushes
//
// # Money
//
// Sums are whole nano-dollars: a request costs a few thousand of them, and no sum is
// rounded. A month has 30 days.
//
// # Projection
//
// The projection is the cost of a month at the rate of the last hour. In the first ten
// minutes it divides by ten minutes: a process that starts makes a burst of requests, which
// is not typical of the month. Until then the projection is too low.
//
// # Budget
//
// The Pacer is a token bucket (golang.org/x/time/rate) whose tokens are money. Credit accrues at
// the rate of the budget, up to the amount of six hours, with which a process starts, and pays for
// every request that the Meter counts: the document, segments of the log, checkpoints, listings,
// reads. With credit the flusher works at full speed. With a debt it waits until the debt is paid,
// but not longer than the heartbeat of the broker, which no budget delays.
//
// So a month costs at most the budget and the amount of six hours (0.8 %), if the cost at the
// longest interval is within the budget. Plan.Check verifies at the start that the budget covers
// the requests that a leader repeats at its slowest pace (Plan.Repeated): the heartbeats, all
// listings, and the segments of an expected load. Where requests are charged, an object counts as a flush
// (flush.Config.CountObjects), so that segments and checkpoints lengthen the interval, too. At the
// longest interval their cost is additional: it depends on the amount of data written. If that is
// more than the expected load, it may exceed the budget. The cost report shows this while it happens.
//
// # Limits of the counts
//
// The counts are those of one process since its start. Repetitions inside a driver's SDK
// (of reads only) are not counted. Storage and traffic out of the region are not counted
// unless the prices include them. A request that got no answer is counted.
package cost
