// Package work has the command worker, which runs jobs as commands, HTTP calls or Python
// functions, and lists the workers of a cluster.
//
// An operator gives the jobs by flags, by a file, or by both. The flags (flags.go) take
// precedence over the file; both are checked as a whole before the worker
// claims anything. A job gets its handler from internal/runner and its limits from
// internal/sandbox (jobs.go). The worker prints one line for each finished job
// (lines.go) and warns at its start if no node answers or its name is taken (worker.go). On
// a signal it finishes the running jobs; a second signal ends it.
package work
