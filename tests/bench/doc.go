// Command bench measures a cluster of three real processes on loopback, with raft logs that are
// fsynced, and prints each figure next to its target.
//
// The reference is the bare raft commit, measured in the same run and on the same disk: three
// processes with only hashicorp/raft and raft-boltdb, with the settings that osqueue uses and a
// state machine that does nothing.
//
//	disk        append 4 KiB and fsync, twice in a row: the disk time of a commit
//	bare        one caller's p50 and p99; commits per second of 64 callers; 4
//	            callers with entries of the size of 100 jobs
//	sequential  one client enqueues one job after the other
//	single      64 and 256 clients enqueue one job per call
//	batch       4 and 16 clients enqueue 100 jobs per call
//	lifecycle   4 clients enqueue, claim and complete 100 jobs per call; 64 and 256
//	            clients do it with one job per call
//	drain       64 clients claim and complete 100 000 jobs, one per call
//	sdk         64 and 256 callers that share one Go client, one job a call, over streams
//	            and over HTTP in turns
//	security    64 callers of the Go client enqueue, claim and complete single jobs, against a
//	            cluster without and one with TLS and tokens, in turns
//	observe     64 clients enqueue, claim and complete single jobs, against a cluster without
//	            traces and scrapes, and two that export a hundredth and all of them, in turns
//	worker      a Go worker with 64 slots and jobs that do nothing; commands compared
//	            with the bare start of the same program
//	depth       enqueue and claim at 1 000 and at 1 000 000 queued jobs
//	checkpoint  enqueues while the leader writes checkpoints of 1 000 000 queued jobs
//	recovery    restart of one node and of all, restore of an earlier state, and
//	            recovery from the bucket alone, with 1 000 000 queued jobs
//	failover    SIGKILL of the leader until another node has committed a job
//	object      1 and 64 clients enqueue one job a call with ack=object, on an S3 server
//	            that answers after 100 to 200 ms
//	cost        monthly cost of the bucket's requests on S3, idle and under load: a
//	            directory with the latency of S3, whose requests all nodes count
//
// Clients use HTTP/1.1 with requests that are encoded in advance, and read only the part of an
// answer that they need (conn.go), so that the processors spend their time on the measured
// work. On two cores the clients still share them with three brokers. The line "took" under a
// figure shows the processor time of each, and the number of raft entries that group commit
// made of the calls. Compare ratios within one run, not figures of two runs.
//
// A row "strict" has requests with the header "Prefer: handling=strict", as the Go client sends
// them; a row "legacy" has requests without it, which the broker has to read as those of a legacy
// client.
//
// At each depth one job is claimed for each enqueued job, so that the depth is constant. The
// lag of the bucket behind a deep queue is a figure too.
//
// With --base the command compares two programs and measures nothing else: a cluster of each runs, and they take turns
// of half a second or so, which a machine whose speed drifts needs. The ratio of a pair of clusters is the median of its
// rounds. A row is the geometric mean of five pairs, and beside it stand the lowest and the highest of them, between
// which the true one lies with 94 %.
//
// With --profile the command keeps CPU profiles of the leader and of a follower, and prints a
// summary. Flags for the brokers may follow after "--", to measure their effect.
package main
