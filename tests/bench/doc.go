// Command bench measures a cluster of three real processes on loopback, whose
// raft logs are fsynced, and prints each figure beside its aim.
//
// The yardstick is the bare raft commit, measured in the same run and on the
// same disk: three processes with hashicorp/raft and raft-boltdb alone, with
// the settings that osqueue gives them and a machine that does nothing.
//
//	disk        append 4 KiB and fsync: what a commit waits for, twice in a row
//	bare        one caller's p50 and p99; 64 callers' commits a second; 4
//	            callers with entries of the size of 100 jobs
//	sequential  one client enqueues one job after the other
//	single      64 clients enqueue one job a call
//	batch       4 clients enqueue 100 jobs a call
//	lifecycle   4 clients enqueue, claim and complete 100 jobs a call
//	worker      a Go worker with 64 slots, jobs that do nothing; commands beside the
//	            bare start of the same program
//	depth       enqueue and claim at 1 000 and at 1 000 000 queued jobs
//	recovery    restart of one node and of all, restore of an earlier state, and the
//	            way back from the bucket alone, with 1 000 000 queued jobs
//	failover    SIGKILL of the leader until another node has committed a job
//	cost        what the bucket's requests cost in a month on S3, idle and under load: a
//	            directory at the pace of S3, whose requests all nodes count
//
// Clients speak HTTP/1.1 with requests encoded beforehand and answers read no
// further than needed (conn.go), so that the machine's time goes to what is
// measured; on two cores they still share it with three brokers. The line
// "took" under a figure says who got how much of it, and how many raft entries
// group commit made of the calls. Compare ratios of one run, not figures of two.
//
// At each depth one job is claimed for each that is enqueued, so the depth
// stays. How far the bucket is behind a deep queue is a figure, too.
//
// With --profile CPU profiles of the leader and of a follower are kept, and
// printed in short.
// Flags for the brokers can follow behind "--", to measure what they do.
package main
