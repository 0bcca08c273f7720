// Package recorded replays logs that released nodes have written. A machine of today must
// lead to the same states as the machine of the release.
//
// testdata/level-N has what the last release of feature level N recorded for the requests of
// the script in this package (a single node, which restarts once):
//
//	log.jsonl     the commands of its raft log
//	states.json   checksums of states by that release: the last bytes of its snapshots
//	queue.json    its last document
//
// To record another level, when its last release is known: add the release to the Makefile
// (RELEASE_N), then
//
//	make bin/osqueue-N
//	go test ./tests/recorded -run TestReplay -record N
//
// A recorded file is never recorded again: a failure means that this tree applies or reads
// old entries in another way. A new kind of request belongs at the end of the script; the
// levels that are there keep the script that they were recorded with.
package recorded
