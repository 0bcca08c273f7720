// Package work lets workers claim jobs, report on them, and send their logs. Its operations stand on package core, which says what a call is
// and how it fails; none of them knows a front end or another subject.
package work
