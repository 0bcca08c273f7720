// Package typestats counts what happens to the jobs of each type, for metrics and charts.
//
// # Problem
//
// Alerts and charts need figures per type: how many jobs came, ran, failed and died, how
// long they waited and ran. The state of the queue has only the jobs themselves, and a
// scan of them at each scrape would take time in proportion to the queue.
//
// # Source
//
// A Recorder counts the events of each log entry after the machine has applied it. Every node
// applies the same log, so every node has the same counters while it runs, and a failover
// does not change them. The counters are not part of the replicated state: the document in
// the bucket would grow with every type, and every flush would write it. After a restart
// the counters start at the node's newest snapshot, which Prometheus treats as the reset of
// a counter. Use the maximum over the nodes in queries (docs/operations.md). The totals
// over all types (osqueue_jobs_ended_total) are replicated and never go back.
//
// A node that receives a snapshot from the leader does not see the entries in it: its
// counters lack these, and do not go back.
//
// # Bounds
//
// The first TypesMax types have counters of their own; all others share the counters of
// Other. A type stays in this list until the node restarts. Memory is at most about 25 KiB
// for each type, most of it the minutes of the last day.
//
// # Cost
//
// Applied allocates nothing except for the first event of a type. It runs on the goroutine
// that applies the log and takes one lock for each entry. Figures takes time in proportion
// to the number of types that are counted.
//
// # Time
//
// Times are those of the machine's clock. A wait begins when the job is created, falls due
// or is available again after a failed attempt. For a job that waited for other jobs, was
// released by its worker or was retried by a request, the wait includes the time before.
package typestats
