//go:build race

package cluster

// simRace: the race detector makes everything some eight times slower.
const simRace = true
