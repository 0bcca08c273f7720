//go:build !nextlevel

package fsm

// MaxLevel is the newest feature level that this version knows.
const MaxLevel = BaseLevel

// claimsPerWorker returns how many claims of one worker are remembered.
func claimsPerWorker(*Meta) int { return claimsPerWorkerMax }
