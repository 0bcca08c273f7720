// Package jobs adds, shows and changes jobs and batches. Its operations stand on package core, which says what a call is
// and how it fails; none of them knows a front end or another subject.
package jobs
