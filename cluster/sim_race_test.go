//go:build race

package cluster

// simRace: the race detector makes a run about eight times slower.
const simRace = true
