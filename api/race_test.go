//go:build race

package api

// underRace: sync.Pool drops items at random under the race detector.
const underRace = true
