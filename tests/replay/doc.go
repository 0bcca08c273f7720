// Package replay plays the recorded exchanges of two older systems against clusters of processes.
//
// TestTranscripts asks the leader and then a follower for each case. TestClientNeeds makes the calls
// of the recorded clients, whose answers the recording has no single form of. A quirk, an accident of
// the recorded system, is played, and may differ.
package replay
