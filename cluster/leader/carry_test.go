package leader

import (
	"testing"

	"osqueue/fsm"
)

// A job that never reached the bucket is carried over with its unknown fields.
func TestExtraIsCarriedOver(t *testing.T) {
	const extra = `{"note":{"by":["x"]},"size":1.50}`
	j := &fsm.Job{ID: "a", MaxAttempts: fsm.MaxAttemptsUnset, Det: &fsm.Details{Extra: extra}}
	c := &carried{m: fsm.New(), ids: make(map[string]struct{})}
	c.add(j, fork{})
	c.enqueue()
	if len(c.kept) != 0 || c.m.Job("a").Details().Extra != extra {
		t.Fatalf("%d refused, %+v", len(c.kept), c.m.Job("a"))
	}
}
