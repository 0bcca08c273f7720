// Package e2e tests whole clusters of real processes under faults: the behavior that an
// operator sees, and the guarantees that hold under each fault.
package e2e
