// Program check (osqueue-check) checks histories in files against all guarantees of the queue,
// and draws the calls on a job.
//
//	go run ./tests/check FILE…
//	go run ./tests/check FILE --timeline out.html [--job ID]
//
// It prints a table of the checkers for each file, and describes each violation. The exit
// status is 1 if a guarantee is violated, and 2 if a file cannot be read. It is 3 if no
// violation is known, but the time was too short to be sure, or none of the faults of a run has
// hit: such a run proves nothing. If several of these apply, 2 has precedence over 1, and 1
// over 3.
package main
