// Package e2e tests whole clusters of real processes under faults: the behavior that an
// operator sees, the command line on a cluster of osqueue dev, and the guarantees that hold under each fault.
package e2e
