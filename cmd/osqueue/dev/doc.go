// Package dev has the command dev, which runs a cluster of several node processes on one
// machine, to try things out.
//
// The nodes must not outlive the command, however it ends. Every node is a child process that
// runs serve, in a process group of its own, and it stops when its standard input ends. A node
// that the user kills starts again after some seconds.
package dev
