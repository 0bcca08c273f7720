// Package e2e tests whole clusters, mostly of real processes and under faults: the behavior that an
// operator sees, the command line on a cluster of osqueue dev, the clients of both older systems, what
// nodes tell about themselves (spans and metrics) and the guarantees that hold under each fault.
//
// The Go SDK and its examples run here too, because its module does not require the server. They
// need no process of a node: their nodes are in the process of the test (live_test.go).
//
// Other tests repeat the scenarios of defects that were found in released versions, unless simulated time can show
// them next to the code. TestSharedVolume and TestS3Endpoint run the compose file on a container engine: three brokers
// and two workers from an image that has only the binary.
package e2e
