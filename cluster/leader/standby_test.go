package leader

import (
	"testing"
	"time"

	"osqueue/election"
	"osqueue/storage/document"
)

// A standby waits a while between two reads of the document, even if the broker timeout
// has passed or the clock of the older broker has stopped.
func TestAStandbyWaitsBetweenTwoLooks(t *testing.T) {
	n := New(Config{StandbyRetry: 10 * time.Second}, Effects{})
	const timeout = 10 * time.Second
	for heard, want := range map[time.Duration]time.Duration{
		0:                          timeout / standbyPolls,
		timeout - time.Second:      time.Second,
		timeout - time.Microsecond: standbyWaitFloor,
		timeout:                    standbyWaitFloor,
		2 * timeout:                standbyWaitFloor,
	} {
		if got := n.standbyWait(election.Observed{}, election.Silence{For: heard, Timeout: timeout, Wait: timeout}); got != want {
			t.Errorf("%v after a silence of %v, want %v", got, heard, want)
		}
	}
	now := time.UnixMilli(1_000_000)
	doc := &document.File{Overtaken: true}
	doc.BrokerHeartbeat = now.Add(-timeout - 9*time.Millisecond).UnixMilli()
	if got := n.standbyWait(election.Observed{Doc: doc}, election.Silence{Timeout: timeout, Wait: timeout, Now: now}); got != standbyWaitFloor {
		t.Errorf("%v until an older broker is dead in 1 ms, want %v", got, standbyWaitFloor)
	}
}
