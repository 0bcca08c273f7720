// Command replay plays recorded exchanges of two older systems against a running node and
// prints the cases that pass, by file.
//
//	go run ./tests/replay -url http://127.0.0.1:8080 compat/osqueue/testdata/transcripts/*.json
//
// It empties the queue before each sequence. For every case that fails it shows the first
// difference, and then its exit status is 1. A quirk, an accident of the recorded system, is
// tried and reported, and does not count.
//
// The results are valid only for cases whose setup the node has: -config names it.
// TestTranscripts plays all cases, against clusters that it starts itself.
package main
