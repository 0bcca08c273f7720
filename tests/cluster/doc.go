// Package cluster runs real osqueue processes for tests: it starts, kills, stops and continues
// them, and calls them as a user would. It does not depend on their internals.
//
// Every cluster has loopback addresses of its own (127.a.b.1, .2, …), so that clusters can run
// side by side with the same ports, and no test has to search for a free one. The processes are
// ended by process id when the test ends. If the test failed, their logs are printed.
//
// # Clusters that tests share
//
// A test that needs nothing but a running cluster calls Share instead of Start, and gives its jobs, types, workers and
// limits names of Own. It neither stops nor pauses a node, and reads no numbers of the whole queue. TestMain runs the
// tests with Sharing. Share fails a test after which a node has ended or none leads, and prints what the nodes have
// logged since its start.
//
// # Faults
//
//	processes  Kill, Stop, Pause, Continue of nodes and workers (StartWorker)
//	links      Options.Links; Partition, Isolate, Heal; Net for everything else
//	disks      MountDisk, FillDisk, FreeDisk; FlipBit, TearEnd of a stopped node's files
//	clocks     Options.FaultClock; SetClock
//	bucket     package store
//
// With links the nodes listen on 127.a.b.101, .102, …, and the addresses that all processes use
// for them are ports of package link. The endpoint in the URL of a bucket over HTTP is such a
// port too: 127.a.b.90. In package link, nodes and workers have their own names, the test and
// its clients are link.Client, and the bucket is link.Store.
//
// Every fault returns a proof: counts of a link, a checksum before and after, the remaining
// disk space, the clock that the program logs. A fault that the machine does not allow is a
// NotPossibleError, and the test that gets it is void.
package cluster
