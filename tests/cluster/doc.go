// Package cluster runs real osqueue processes for tests: it starts, kills,
// stops and continues them, and speaks to them as a user would. It knows
// nothing of what is inside.
//
// Every cluster gets loopback addresses of its own (127.a.b.1, .2, …), so that
// clusters can run side by side with the same ports and no test has to guess a
// free one. Processes are ended by process id when the test ends; what they
// logged is printed when it failed.
//
// # What can go wrong
//
//	processes  Kill, Stop, Pause, Continue of nodes and workers (StartWorker)
//	links      Options.Links; Partition, Isolate, Heal; Net for everything else
//	disks      MountDisk, FillDisk, FreeDisk; FlipBit, TearEnd of a stopped node's files
//	clocks     Options.FaultClock; SetClock
//	bucket     package store
//
// With links the nodes listen on 127.a.b.101, .102, …, and the addresses by which
// everybody knows them are ports of package link. So is the endpoint in the URL of a
// bucket that is reached over HTTP: 127.a.b.90. Nodes have their names in it, workers
// theirs, the test and its clients are link.Client, the bucket is link.Store.
//
// Every fault leaves a proof: counts of a link, a checksum before and after, the
// space that is left, what the program logs of its clock. What the machine does not
// allow is a NotPossibleError, and the test that gets it is void.
package cluster
