package leader

import (
	"testing"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// TestUnresolvedAnnouncements checks what a node knows of the announcements before its term.
func TestUnresolvedAnnouncements(t *testing.T) {
	t.Parallel()
	m, l := fsm.New(), New(Config{}, Effects{})
	apply := func(kinds ...fsm.AnnounceKind) {
		b := &fsmpb.Batch{NowMs: 1}
		for _, k := range kinds {
			b.Mutations = append(b.Mutations, announce(k, ""))
		}
		m.Apply(m.Meta().LSN.Index+1, 1, b)
		l.Applied(m, false)
	}
	for _, step := range []struct {
		kinds []fsm.AnnounceKind
		want  unresolved
	}{
		{nil, unresolved{}},
		{[]fsm.AnnounceKind{fsm.AnnounceBucketAway, fsm.AnnounceBucketBack, fsm.AnnounceBucketAway}, unresolved{away: true}},
		{[]fsm.AnnounceKind{fsm.AnnounceWritesRefused, fsm.AnnounceBucketDamaged}, unresolved{true, true, true}},
		{nil, unresolved{true, true, true}},
		{[]fsm.AnnounceKind{fsm.AnnounceBucketBack, fsm.AnnounceBucketHealed}, unresolved{refused: true}},
		{[]fsm.AnnounceKind{fsm.AnnounceWritesAccepted, fsm.AnnounceBucketAway}, unresolved{away: true}},
	} {
		if apply(step.kinds...); l.unresolved != step.want {
			t.Errorf("after %v: %+v, want %+v", step.kinds, l.unresolved, step.want)
		}
	}
	if l.Restored(m); l.unresolved != (unresolved{}) {
		t.Errorf("%+v after a snapshot, which may have the end", l.unresolved)
	}
}
