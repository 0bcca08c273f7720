package queue

import (
	"strings"
	"testing"

	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/clitest"
	"osqueue/cmd/osqueue/view"
)

// ackedLines are the commands that write.
var ackedLines = []string{
	"submit a 1", "submit a --file -", "job cancel waits", "job retry dead", "job delete done", "job delete done dead",
	"job cancel --type wait --yes", "dead rm dead", "dead retry --all --yes",
	"queue pause mail", "queue resume mail", "queue set mail --max-running 1", "queue reset mail", "queue purge mail --yes",
	"cron put nightly @daily --type report", "cron pause nightly", "cron resume nightly", "cron trigger nightly", "cron rm nightly",
	"batch create", "batch cancel b1 --yes",
}

func newAckedFake(t *testing.T, level string) *clitest.Fake {
	q := clitest.NewFake(t)
	q.Level = level
	q.Add(v1.NewJob{ID: "waits", Type: "wait"})
	q.Add(v1.NewJob{ID: "dead", Type: "bad"})
	q.Add(v1.NewJob{ID: "done"})
	return q
}

// Every command that writes can ask for an ack level, and tells programs which
// one was reached.
func TestEveryWriteAsksForAcks(t *testing.T) {
	for _, line := range ackedLines {
		t.Run(line, func(t *testing.T) {
			q := newAckedFake(t, v1.AckObject)
			got := osqTest(t, q, "1\n", append(strings.Fields(line), "--json", "--ack", "object")...)
			if got.Code != view.ExitOK || !strings.Contains(got.Out, `"committed":"object"`) || strings.Contains(got.Err, "not in the bucket") {
				t.Errorf("%+v", got)
			}
			for i, query := range q.Queries {
				if !strings.HasPrefix(query, "ack=object&ackWaitMs=") {
					t.Errorf("%s was sent with %q", q.Seen[i].Line, query)
				}
			}
		})
	}
}

// Without the flag nothing is asked, and people see nothing new.
func TestWritesWithoutAck(t *testing.T) {
	for _, line := range ackedLines {
		q := newAckedFake(t, v1.AckQuorum)
		got := osqTest(t, q, "1\n", strings.Fields(line)...)
		if got.Code != view.ExitOK || strings.Contains(got.Out+got.Err, "quorum") || strings.Contains(got.Out+got.Err, "bucket") {
			t.Errorf("%s: %+v", line, got)
		}
		for i, query := range q.Queries {
			if query != "" {
				t.Errorf("%s was sent with %q", q.Seen[i].Line, query)
			}
		}
		q = newAckedFake(t, v1.AckQuorum)
		if got := osqTest(t, q, "1\n", append(strings.Fields(line), "--json")...); !strings.Contains(got.Out, `"committed":"quorum"`) {
			t.Errorf("%s: %+v", line, got)
		}
	}
}

// A write that did not reach the wanted ack level prints a note and succeeds.
func TestAckThatWasNotReached(t *testing.T) {
	q := newAckedFake(t, v1.AckQuorum)
	got := osqTest(t, q, "", "submit", "a", "1", "--id", "x", "--ack", "object", "--timeout", "300ms")
	if got.Code != view.ExitOK || got.Out != "x\n" || !strings.Contains(got.Err, "not in the bucket yet (LSN 3-1)") {
		t.Errorf("%+v", got)
	}
	if got := osqTest(t, q, "", "submit", "a", "1", "--ack", "quorum"); got.Code != view.ExitOK || got.Err != "" {
		t.Errorf("%+v", got)
	}
	if got := osqTest(t, q, "", "submit", "a", "1", "--ack", "bucket"); got.Code != view.ExitUsage || !strings.Contains(got.Err, "use quorum, object") {
		t.Errorf("%+v", got)
	}
}
