// Package view has the parts that the commands of osqueue share: the global flags and the
// streams of a process, output as text, tables or JSON, errors with the next step for the
// user, exit statuses, the rows of jobs, queues, schedules, batches and workers, and
// the notations of values in flags and files: durations, times, sizes, backoffs (notation.go, span.go).
//
// A command gets Globals, which tests fill with streams of their own, and returns an
// error. Execute runs a command line and turns the error into a message and an exit
// status: a UsageError means that the command was used wrongly, a SilentError that the
// command has printed its message, an ExitError sets the status.
//
// Texts of jobs and workers never control the terminal: text for people shows control
// characters in a visible form, and JSON keeps them.
package view
