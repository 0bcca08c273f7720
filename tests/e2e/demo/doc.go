// Command demo counts the words of Go's standard library on a cluster, and
// kills the leader meanwhile: `make demo`.
//
// # What it does
//
// It uses the program as a person would. "osqueue dev" runs three node processes on free
// loopback ports, and two "osqueue worker" processes run `xargs wc -w` for each job. There is
// one job for every .go file below $(go env GOROOT)/src, whose payload is the file's path. When
// a part of the jobs is completed the leader gets SIGKILL. When another node leads, "osqueue
// dev restart" restarts it.
//
// # What it checks
//
// At the end the demo reads all jobs through the API, and compares them with three other
// sources: the submitted files, the output of `find | xargs wc -w`, and the record of each
// worker (job, token, beginning and end of every claim):
//
//   - no job is missing, each job was submitted, and all are completed;
//   - each result names the job's file and its number of words, so that the sums are equal;
//   - the cluster counted one completion for each job, and one worker got its answer, under the
//     token that the job shows;
//   - no two claims of a job overlap in time.
//
// It prints the figures. If anything differs, it ends with status 1 and keeps the directory
// with the logs.
package main
