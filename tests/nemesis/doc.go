// Package nemesis injects faults into a cluster under load, and checks the history that the
// clients recorded.
//
// # Problem
//
// A test that kills one leader shows that the cluster survives that one kill. Queues lose
// jobs when a second fault begins before the first has ended, or when a fault hits in the
// middle of a write. In addition, a fault that did not hit anything must not count as a
// passed test. So a seed chooses the faults, one or two at a time; each fault names the
// sign that shows that it hit; and the checker verifies the answers that clients received.
//
// # A round
//
//	start ─▶ load ─▶ fault, hold, heal (repeated) ─▶ drain ─▶ stop ─▶ check
//
// A Fault begins, lasts while the load continues, and ends. Its sign is observed from
// outside the nodes (package history: Hit). A round in which no fault hit is void: it
// counts neither as passed nor as failed.
//
// # Faults
//
//	name                      what                                       the sign
//	leader-killed             SIGKILL of the leader                      its exit; a later term
//	follower-killed           SIGKILL of a follower                      its exit
//	majority-killed           SIGKILL of the leader and enough others    their exits; no leader until they restart
//	all-killed                SIGKILL of all nodes at once               their exits
//	leader-paused             SIGSTOP for some seconds                   state T in /proc
//	leader-paused-past-fence  SIGSTOP until another leads and flushes    the epoch in the bucket
//	follower-paused           SIGSTOP of a follower                      state T in /proc
//	restart-storm             random kills, faster than elections        their exits
//	graceful-roll             SIGTERM of each in turn                    exit status 0
//	leadership-transfer       SIGTERM of the leader                      exit status 0; another leads
//	leader-isolated           cut off from nodes and clients, both ways  bytes withheld
//	follower-isolated         a follower is cut off, and returns         bytes withheld; the term is unchanged
//	halves                    the leader with the smaller half           bytes withheld
//	bridge                    two halves that share one node             bytes withheld
//	ring                      each node sees its two neighbours (5)      bytes withheld
//	one-way-out, one-way-in   the leader cannot send, or cannot receive  bytes withheld
//	link-cut                  leader and one follower cannot talk (4)    bytes withheld; leadership has not moved more than once
//	links-slow                every link delays                          bytes delayed
//	links-narrow              every link carries a few kB a second       bytes delayed
//	links-reset               connections are reset repeatedly           connections reset
//	requests-replayed         raft's requests arrive once more, late     bytes sent again
//	leader-without-bucket     the leader cannot reach the bucket         bytes withheld
//	leader-bucket-reset       its connections to the bucket are reset    connections reset
//	mount-away                the leader's path leads to an empty        it hands the leadership over; another leads;
//	                          directory                                  the directory is empty
//	bucket-emptied            all files of a directory bucket are gone   the leader logs it; queue.json is there again
//	bucket-root               another directory in place of the bucket   the leader says so; it is empty
//	credentials-rotated       the store refuses the nodes' key, and      requests refused; queue.json is written
//	                          their file has a new one                   with the new key
//	bucket-down, -refusing, -hanging, -slow, -misbehaving, -losing-answers
//	                          see cluster/store                          requests hit
//	late-put                  a PUT of a killed leader arrives late      the store refused it
//	leader-frozen-in-write    SIGSTOP in a write to a bucket that is     state T with a staged file; another leads
//	                          a directory
//	mixed-leaders             each node of two releases leads in turn    their terms; no node has ended
//	node-swapped              a node runs the other release              exit status 0; its program
//	object-removed, -damaged  an object that queue.json needs            the leader logs it; queue.json no longer names the object
//	lists-failing, -hung      listings of the bucket fail or hang        listings hit
//	edited-between-leaders    a job is written into queue.json           the job is in the queue; a copy under conflicts/
//	lagging-large             a follower lacks more than a slow link     bytes delayed; it has caught up
//	                          carries within raft's timeout
//	standby-without-bucket    a standby loses the bucket                 bytes withheld; it stands by
//	standby-outage            it and the leader lose the bucket          requests hit; it stands by
//	standby-takes-over        only the leader's cluster loses it         bytes withheld; the standby leads
//	rival                     a second cluster on the bucket             it stands by
//	clock-jump, clock-drift   the wall clock of the leader               its offset in use
//	clock-wrong-at-election   the clocks of all followers are wrong, and  a node with a wrong clock leads
//	                          the leader is killed
//	disk-full                 a node's file system is full               its log
//	disk-hung                 each write of a node's log hangs           the node exits and logs the reason
//	bucket-hung               requests hang; the leader is isolated      requests hit; it does not lead; its exit
//	                          or gets SIGTERM
//	bucket-disk-hung          both hang                                  as for disk-hung
//	log-flipped, log-torn     a stopped node's log is damaged            checksum of the file
//	snapshot-flipped          a stopped node's snapshot is damaged       checksum of the file
//	log-lost, log-older       the log is removed, emptied, or an older   the node refuses to start
//	                          copy, beside the identity
//	log-lost-another-lags     the same, and the third node lags          the same; no node leads meanwhile
//	disks-restored            all disks are older than queue.json        a leader adopts the document
//	disks-copied              a copy of a single node's disk runs        one of the two names the copy
//	node-wiped                a node comes back with an empty disk       another server id
//	all-disks-lost            all nodes lose their disks                 other server ids
//	worker-killed             SIGKILL of a worker process during a job   its exit while it had a lease
//	worker-paused             SIGSTOP for longer than its lease          state T; its job went to another
//	worker-paused-claiming    SIGSTOP while a claim waits, which gets     state T when it is given the job
//	                          the last attempt of a job
//	worker-replaced           a second worker of its name, and SIGTERM   the second one keeps its job
//
// # Failure stance
//
// If the checker finds a violation, the test keeps the evidence (history, timeline, logs of
// the nodes) in a separate directory and prints the seed. If the machine does not allow a
// fault, for example a small file system without root, the round is void and the reason is
// printed.
package nemesis
