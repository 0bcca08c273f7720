// Package top implements "osqueue top": one screen of a terminal with the present state of
// the queue.
//
// A poll asks the cluster for its nodes, types, workers and the figures of the last half
// hour. The next poll starts when the interval after the last one is over, so that a slow
// cluster is never asked twice at a time. If a poll fails, the screen keeps the last
// figures and says how old they are and why: a cluster without a leader is when people
// look at it.
//
// Model is pure: messages go in, text comes out. Bubble Tea owns the terminal, its modes
// and the goroutines. The screen only reads; it changes nothing in the queue.
package top
