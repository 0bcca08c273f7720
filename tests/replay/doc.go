// Package replay plays the recorded exchanges of two older systems against clusters in
// this process: the nodes run as the command serve runs them, in simulated time and on a network in memory.
//
// TestTranscripts asks the leader and a follower for each case. TestClientNeeds makes the calls
// of the recorded clients, whose answers the recording has no single form of. A quirk, an accident of
// the recorded system, is played, and may differ.
package replay
