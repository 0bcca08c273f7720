// Command replay plays recorded exchanges of two older systems against a running
// node and prints what passes, by file.
//
//	go run ./tests/replay -url http://127.0.0.1:8080 compat/osqueue/testdata/transcripts/*.json
//
// It empties the queue before each sequence. Of every case that fails the first
// difference is shown; the exit status is 1 then. A quirk, an accident of the
// recorded system, is tried and reported, and does not count.
//
// Only cases whose set-up the node has are right: -config names it. TestTranscripts
// plays all of them, against clusters that it starts itself.
package main
