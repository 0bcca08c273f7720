//go:build !nextlevel

package fsm

import "osqueue/fsm/answers"

// MaxLevel is the newest feature level that this version knows.
const MaxLevel = BaseLevel

// claimsPerWorker returns how many claims of one worker are remembered.
func claimsPerWorker(*Meta) int { return answers.ClaimsPerWorkerMax }
