// Program check (osqueue-check) holds histories in files against all that the queue
// promises, and draws them.
//
//	go run ./tests/check FILE…
//	go run ./tests/check FILE --timeline out.html [--around OP] [--window 5s]
//
// It prints a table of the checkers for each file, and what is wrong in words. It
// exits with 1 if a promise is broken, with 2 if a file cannot be read, and with 3 if
// nothing is known to be broken but there was no time to find out, or none of the
// faults of a run has hit: such a run has shown nothing. Of these, the first that
// holds for any file counts: 2, then 1, then 3.
package main
