package cluster

import (
	"osqueue/storage/cost"
)

// Listings of one round. TestRequestsOfAnIdleHour counts them.
const (
	checkLists   = 2 // of the archive check: checkpoints and log
	collectLists = 6 // of the collector: probes, copies, checkpoints, log, and twice the snapshots
	collectGets  = 2 // the document before the listings and before the removal
)

// Repeated returns the requests that an active leader repeats at its slowest pace: those
// of an idle queue that is too large for the document, and the objects of load bytes of
// log entries a second, written at the interval of the heartbeat. The audit's reads
// (every object once in ArchiveRead) and standbys are not included.
func (c *Config) Repeated(load int64) []cost.Repeated {
	return []cost.Repeated{
		{Name: "a heartbeat", Every: c.Flush.Heartbeat, Counts: cost.Counts{Replaces: 1}, Flag: cost.HeartbeatFlag},
		{Name: "a check of the archive", Every: c.ArchiveCheck, Counts: cost.Counts{Lists: checkLists}, Flag: "--archive-check"},
		{Name: "a collection", Every: c.CollectInterval, Counts: cost.Counts{Lists: collectLists, Gets: collectGets}},
		{Name: "a look for standby clusters", Every: c.StandbyInterval, Counts: cost.Counts{Lists: 1}},
		{Name: "a segment of the expected load", Every: c.Flush.ObjectEvery(load), Counts: cost.Counts{Creates: 1}},
	}
}
