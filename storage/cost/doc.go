// Package cost counts what a bucket's requests cost, projects it to a month, and
// paces the flusher so that a monthly budget lasts.
//
// # Problem
//
// Object stores charge by the request, a failed conditional one too, and a queue
// that flushes 20 times a second spends $259 a month on what looks like nothing.
// So the cost is counted where the requests leave, shown while it can still be
// changed, and, if there is a budget, kept to it by flushing less often.
//
//	requests ──▶ Meter ──▶ Sheet: so far, projected, budget
//	               │
//	               ▼
//	            Governor ──▶ interval between flushes
//
// # Money
//
// Sums are whole nano-dollars: a request costs a few thousand of them, and
// nothing is rounded away however many there are. A month has 30 days.
//
// # Projection
//
// The projection is what the requests of the last hour would come to in a month.
// In the first ten minutes it divides by ten minutes all the same: a process that
// starts makes a burst of requests, which says nothing about the month. Until
// then the projection is too low, never absurd.
//
// # Budget
//
// The Governor is a token bucket. Credit accrues at the budget's pace, up to
// twelve hours' worth, and every request is paid from it. With three hours' worth
// or more, flushes go at full speed; below, the interval is stretched, evenly on a
// logarithmic scale, until with no credit left it is the one that spends what
// accrues; and on, in debt, to the longest interval, which is the heartbeat of the
// broker. A process starts with six hours' worth.
//
// Everything that the Meter counts is paid from the credit: the document, segments
// of the log, checkpoints, listings, reads. The interval is all that the Governor
// controls, though, and it ends at the heartbeat. As long as what an interval of
// the heartbeat's length costs keeps within the budget, a month costs at most the
// budget and twelve hours' worth more (1.7 %). Plan.Check sees at the start that the
// heartbeats and the looks into the drop box do. Where requests are charged, an object
// counts as a flush (flush.Config.CountObjects), so that segments and checkpoints stretch
// the interval, too. At the longest interval they come on top: they follow from how much
// is written, and a budget that they exceed there is exceeded. The cost report says so
// while it happens.
//
// # What is not seen
//
// The counts are those of one process since its start. What a driver's SDK
// repeats by itself (reads only) is not counted; storage and traffic out of the region are not, unless the
// prices have them. A request that got no answer is counted.
package cost
