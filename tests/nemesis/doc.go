// Package nemesis breaks a cluster under load, in every way that it knows, and has
// the record of what clients saw checked.
//
// # Problem
//
// A test that kills a leader shows that one leader could be killed once. What breaks
// queues is the second fault before the first is over, the fault that comes in the
// middle of a write, and the fault that did not happen because the test missed. So
// faults are drawn by a seed, one or two at a time; each says by which sign it is
// known to have hit; and what is checked is not the queue but what it has answered.
//
// # A round
//
//	start ─▶ load ─▶ fault, hold, heal (again and again) ─▶ drain ─▶ stop ─▶ check
//
// A Fault begins, lasts while the load continues, and ends. Its sign is taken from
// outside (package history: Hit). A round whose faults have all missed is void: it
// has shown nothing.
//
// # Faults
//
//	name                      what                                       the sign
//	leader-killed             SIGKILL of the leader                      its end; a term later than its own
//	follower-killed           SIGKILL of a follower                      its end
//	majority-killed           SIGKILL of the leader and enough others    their ends; no leader meanwhile
//	all-killed                SIGKILL of all at once                     their ends
//	leader-paused             SIGSTOP for some seconds                   state T in /proc
//	leader-paused-past-fence  SIGSTOP until another leads and flushes    the epoch in the bucket
//	follower-paused           SIGSTOP of a follower                      state T in /proc
//	restart-storm             random kills faster than elections         their ends
//	graceful-roll             SIGTERM of each in turn                    exit status 0
//	leadership-transfer       SIGTERM of the leader                      exit status 0; another leads
//	leader-isolated           both ways, from nodes and clients          bytes withheld
//	follower-isolated         the same for a follower; its return        bytes withheld; the term has not moved
//	halves                    the leader with the smaller half           bytes withheld
//	bridge                    two halves that share one node             bytes withheld
//	ring                      each node sees its two neighbours (5)      bytes withheld
//	one-way-out, one-way-in   the leader is not heard; hears nothing     bytes withheld
//	link-cut                  leader and one follower cannot talk (4)    bytes withheld; leadership has not moved more than once
//	links-slow                every link delays                          bytes delayed
//	links-narrow              every link carries a few kB a second       bytes delayed
//	links-reset               connections end again and again            connections reset
//	leader-without-bucket     the leader cannot reach the bucket         bytes withheld
//	bucket-down, -refusing, -hanging, -slow, -misbehaving, -losing-answers
//	                          see cluster/store                          requests struck
//	late-put                  a PUT of a killed leader comes later       it was refused
//	leader-frozen-in-write    SIGSTOP in a write to a bucket that is     state T with a staged file; another leads
//	                          a directory
//	mixed-leaders             each node of two releases leads in turn    their terms; no node has ended
//	node-swapped              a node runs the other release              exit status 0; its program
//	object-removed, -damaged  an object that queue.json needs            the leader says so; queue.json names it no more
//	lists-failing, -hung      listings of the bucket fail or hang        listings struck
//	edited-between-leaders    a job is written into queue.json           the job is in the queue; a copy under conflicts/
//	lagging-large             a follower lacks more than a slow link     bytes delayed; it has caught up
//	                          carries within raft's timeout
//	standby-without-bucket    a standby loses the bucket                 bytes withheld; it stands by
//	standby-outage            it and the leader lose the bucket          requests struck; it stands by
//	standby-takes-over        only the leader's cluster loses it         bytes withheld; the standby leads
//	rival                     a second cluster on the bucket             it stands by
//	clock-jump, clock-drift   the wall clock of the leader               its offset in use
//	clock-wrong-at-election   those of all others; the leader is killed  one of them leads, whose clock is wrong
//	disk-full                 a node's file system has no room           what it logged
//	disk-hung                 each write of a node's log hangs           the node ends meanwhile, and says why
//	bucket-hung               requests hang; the leader is isolated      requests struck; it does not lead; its end
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
//	worker-killed             SIGKILL of a worker process in mid-job     its end while it held a job
//	worker-paused             SIGSTOP for longer than its lease          state T; its job went to another
//
// # Failure stance
//
// A violation keeps its evidence (history, timeline, logs of the nodes) in a
// directory of its own and prints its seed. A fault that a machine does not allow,
// such as a small file system without being root, is void and says why.
package nemesis
