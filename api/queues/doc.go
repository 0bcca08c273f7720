// Package queues shows and changes the settings of types and the schedules. Its operations stand on package core, which says what a call is
// and how it fails; none of them knows a front end or another subject.
package queues
