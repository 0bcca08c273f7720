// Command peers measures osqueue and NATS on the same machine, in the same run.
//
// # Problem
//
// A rate says nothing without the machine that it was measured on, and a shared machine changes
// its speed by a factor of two within a day. The ratio of two systems that take turns within
// minutes is stable, and the processor time per operation is more stable than any rate.
//
// # Systems
//
//	osqueue      three processes, raft logs that are fsynced, one Go client for all callers
//	osqueue-http the same servers, one net/http client for each caller
//	nats         NATS JetStream: three processes, R3, file store, sync_interval always
//
// # Cells
//
// A cell is one kind of load. All systems get payloads of 200 bytes, and each caller has one
// call in flight. The command measures a cell with one system after the other, before it begins
// the next cell, and repeats all cells for each round in the opposite order. Each trial, which is
// one cell with one system in one round, has fresh servers with empty data; the servers of other
// systems do not run meanwhile. The report has the median of the half of the rounds during which
// other programs used the processors least.
//
// Before a trial the command waits until the machine is quiet, for a limited time. During a
// trial it measures the share of the processors that programs outside of the trial use. The
// report has this share as noise.
//
// # Failures
//
// A system that is not installed is skipped, with the reason. A trial that fails is repeated
// once, then the report has its error. Each wait and each loop has a limit, servers are ended by
// process id, and an interrupted command ends its servers.
package main
