package api

import (
	"fmt"
	"net/http"
	"testing"

	v1 "osqueue/client/api/v1"
	"osqueue/fsm/fsmpb"
)

// The name of a type in a path is read as that type.
func TestNamesOfTypes(t *testing.T) {
	for _, jobType := range []string{"", "~", "~~", "~a", "a", "a~", "a/b c%"} {
		if read, known := v1.QueueType(v1.QueueName(jobType)); read != jobType || !known {
			t.Errorf("%q is read as %q", v1.QueueName(jobType), read)
		}
	}
}

func TestTooManyQueues(t *testing.T) {
	g := newRig(t)
	g.fillQueues()
	p := refused(t, g.do("POST", "/v1/queues/t/pause", ""), http.StatusInsufficientStorage, v1.TagTooManyQueues)
	if p.Committed != v1.CommittedNo {
		t.Fatalf("problem %+v", p)
	}
	ok[v1.Queue](t, g.do("POST", "/v1/queues/7/pause", ""))
	ok[v1.Done](t, g.do("DELETE", "/v1/queues/7", ""))
	ok[v1.Queue](t, g.do("POST", "/v1/queues/t/pause", ""))
}

// fillQueues gives settings to as many types as can have some.
func (g *rig) fillQueues() {
	g.t.Helper()
	ms := make([]*fsmpb.Mutation, 10_000)
	for i := range ms {
		ms[i] = setQueueOf(&fsmpb.SetQueue{Name: fmt.Sprint(i)})
	}
	if _, _, err := g.node.apply(ms...); err != nil {
		g.t.Fatal(err)
	}
}

// The old secret of a hook counts for a while after a rotation.
func TestRotatedSecretOfAHook(t *testing.T) {
	g := newRig(t)
	const body = `{"url":"https://example.com/","on":["job.dead"],"rotateSecret":`
	ok[v1.HookPut](t, g.do(http.MethodPut, "/v1/hooks/ops", body+`false}`))
	before := g.node.View().Hook("ops").Secret
	ok[v1.HookPut](t, g.do(http.MethodPut, "/v1/hooks/ops", body+`true}`))
	if h := g.node.View().Hook("ops"); h.OldSecret != before || h.OldUntil <= startMs {
		t.Errorf("the old secret is %+v until %d", h.OldSecret, h.OldUntil)
	}
}
