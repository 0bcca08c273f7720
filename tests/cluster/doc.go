// Package cluster runs real osqueue processes for tests: it starts, kills,
// stops and continues them, and speaks to them as a user would. It knows
// nothing of what is inside.
//
// Every cluster gets loopback addresses of its own (127.a.b.1, .2, …), so that
// clusters can run side by side with the same ports and no test has to guess a
// free one. Processes are ended by process id when the test ends; what they
// logged is printed when it failed.
package cluster
