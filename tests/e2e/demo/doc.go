// Command demo counts the words of Go's standard library on a cluster, and
// kills the leader meanwhile: `make demo`.
//
// # What it does
//
// It uses the program as a person would. "osqueue dev" runs three node
// processes on free loopback ports, two "osqueue worker" processes run
// `xargs wc -w` for each job, and there is one job for every .go file below
// $(go env GOROOT)/src, whose payload is the file's path. When a part of the
// jobs is done the leader gets SIGKILL; when another node leads,
// "osqueue dev restart" brings it back.
//
// # What it checks
//
// In the end all jobs are read through the API, and held against three other
// sources: what was submitted, what `find | xargs wc -w` says of each file, and
// the record of each worker (job, token, beginning and end of every claim):
//
//   - no job is missing, each job was submitted, and all are completed;
//   - each result names the job's file and its number of words, so that the sums are equal;
//   - the cluster counted one completion for each job, and one worker got its answer, under the
//     token that the job shows;
//   - no two claims of a job overlap in time.
//
// It prints the figures, and ends with status 1 if anything differs. The
// directory with the logs is kept then.
package main
