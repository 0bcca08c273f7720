// Package dev has the command dev, which runs a cluster of several node processes on one
// machine, to try things out.
//
// The nodes must not outlive the command, however it ends, and a node that the user kills
// must be easy to start again. Every node is a child process that runs serve
// (options.go), in a process group of its own, and it stops when its standard input ends
// (cluster.go). The command dev restart asks the running dev over a unix socket to start
// a node, so that the node is a child like the others (control.go).
package dev
