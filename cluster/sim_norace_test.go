//go:build !race

package cluster

const simRace = false
