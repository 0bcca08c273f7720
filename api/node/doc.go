// Package node shows what one node knows of itself and of the log. Its operations stand on package core, which says what a call is
// and how it fails; none of them knows a front end or another subject.
package node
