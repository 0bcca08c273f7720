package cluster

import (
	"testing"
	"time"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/crontab"
)

func putCron(name, spec string, next int64) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_PutCron{PutCron: &fsmpb.PutCron{
		Name: name, Spec: spec, Missed: uint32(fsm.MissedOne), NextMs: next, Job: &fsmpb.NewJob{Type: name},
	}}}
}

func TestIdleClusterProposesNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.leader(l.start("n", 1, nil)...)
	next := n.Now() + time.Hour.Milliseconds()
	if _, _, err := n.Propose(t.Context(), putCron("c", "@every 1h", next)); err != nil {
		t.Fatal(err)
	}
	before := n.Status().LSN
	l.never(600*time.Millisecond, "an entry for nothing", func() bool { return n.Status().LSN != before })
}

// nextTime returns the first time of a schedule after a time, both in ms.
func nextTime(spec string, after int64) int64 {
	s, err := crontab.Parse(spec, "UTC")
	if err != nil {
		panic(err)
	}
	return s.Next(after)
}
