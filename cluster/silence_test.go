package cluster

import (
	"testing"
	"testing/synctest"
	"time"

	"osqueue/election"
	"osqueue/storage"
	"osqueue/storage/queuefile"
)

func TestSilenceOfABrokerWhoseClockWasAhead(t *testing.T) {
	const now, timeout = 1_000_000, 10 * time.Second
	read := func(v storage.Version, heartbeat int64) election.Observed {
		return election.Observed{Version: v, Doc: &queuefile.Document{BrokerHeartbeat: heartbeat}}
	}
	ahead := int64(now + 3_600_000)
	synctest.Test(t, func(t *testing.T) {
		var s silence
		look := func(what string, o election.Observed, stale bool) {
			t.Helper()
			at := s.judge(o, time.Now(), now, timeout)
			if got := at > o.Doc.BrokerHeartbeat+timeout.Milliseconds(); got != stale {
				t.Errorf("%s: judged by %d, stale %v", what, at, got)
			}
		}
		look("at first", read("1", ahead), false)
		time.Sleep(timeout - time.Nanosecond)
		look("not for long enough", read("1", ahead), false)
		time.Sleep(time.Nanosecond)
		look("for long enough", read("1", ahead), true)
		look("changed", read("2", ahead), false)
		time.Sleep(timeout)
		look("a heartbeat that does not lie ahead", read("2", now-1), false)

		asked := time.Now()
		time.Sleep(time.Hour) // the answer takes its time
		s.version, s.since = "3", asked
		if at := s.judge(read("3", ahead), asked, now, timeout); at != now {
			t.Error("a slow answer is taken for a long silence")
		}
		if at := s.judge(election.Observed{}, time.Now(), now, timeout); at != now {
			t.Error("there is no document")
		}
	})
}
