package api

import (
	"fmt"
	"testing"

	v1 "osqueue/client/api/v1"
)

// A claim that the backend commits with the enqueue is answered like any other: with its
// lease, the LSN of the entry, and the same answer when it is repeated.
func TestAClaimThatIsHandedOver(t *testing.T) {
	for name, c := range map[string]struct {
		body   string
		header []string
	}{
		"a request id":       {`{"workerId":"w","types":["t"],"waitMs":60000,"max":3,"requestId":"r"}`, nil},
		"an idempotency key": {`{"workerId":"w","types":["t"],"waitMs":60000,"max":3}`, []string{v1.HeaderIdempotencyKey, "k"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t)
			g.node.set(func(f *fakeNode) { f.handOver = true })
			out := make(chan answer, 1)
			go func() { out <- g.do("POST", "/v1/jobs/claim", c.body, c.header...) }()
			eventually(t, "the claim sleeps", g.asleep(1))
			g.submit("a", "t")
			first := ok[v1.Claimed](t, <-out)
			if len(first.Jobs) != 1 || first.Jobs[0].JobID != "a" || first.LSN == "" {
				t.Fatalf("got %+v", first)
			}
			again := ok[v1.Claimed](t, g.do("POST", "/v1/jobs/claim", c.body, c.header...))
			if len(again.Jobs) != 1 || again.Jobs[0].Token != first.Jobs[0].Token {
				t.Fatalf("got %+v, then %+v", first, again)
			}
			ok[v1.Reported](t, g.do("POST", "/v1/jobs/a/complete", fmt.Sprintf(`{"workerId":"w","token":%d}`, first.Jobs[0].Token)))
			if left := ok[v1.Claimed](t, g.do("POST", "/v1/jobs/claim", c.body, c.header...)); len(left.Jobs) != 0 {
				t.Fatalf("a claim whose jobs are completed got %+v", left)
			}
		})
	}
}
