// Package admin has the commands about the cluster itself.
//
// An operator wants to know whether the cluster works: which node leads, how far the
// bucket lags behind, whether the clocks agree. The command status asks every node
// (status.go) and shows the nodes, the members as the leader sees them
// (status_members.go), and the bucket with its cost (status_bucket.go). If no node leads,
// it prints what is known and the exit status is 1.
package admin
