//go:build nextlevel

package fsm

import "osqueue/fsm/answers"

// MaxLevel is the newest feature level that this version knows. No release has level 2:
// it is for the tests of upgrades, which run nodes of both builds in one cluster.
const MaxLevel = BaseLevel + 1

// claimsPerWorkerNext is small, so that a node that follows the rule of the wrong level
// soon has another state than the others.
const claimsPerWorkerNext = 16

// claimsPerWorker returns how many claims of one worker are remembered: fewer from level 2 on.
func claimsPerWorker(m *Meta) int {
	if m.Level < MaxLevel {
		return answers.ClaimsPerWorkerMax
	}
	return claimsPerWorkerNext
}
