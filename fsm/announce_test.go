package fsm

import "testing"

// TestAnnouncedConditions checks which conditions the state has after announcements.
func TestAnnouncedConditions(t *testing.T) {
	var m Meta
	for _, step := range []struct {
		kinds []AnnounceKind
		want  []AnnounceKind
	}{
		{nil, nil},
		{[]AnnounceKind{AnnounceBucketAway, AnnounceBucketBack, AnnounceBucketAway}, []AnnounceKind{AnnounceBucketAway}},
		{[]AnnounceKind{AnnounceWritesRefused, AnnounceBucketDamaged}, []AnnounceKind{AnnounceBucketAway, AnnounceWritesRefused, AnnounceBucketDamaged}},
		{[]AnnounceKind{AnnounceBucketBack, AnnounceBucketHealed}, []AnnounceKind{AnnounceWritesRefused}},
		{[]AnnounceKind{AnnounceWritesAccepted, AnnounceBucketAway}, []AnnounceKind{AnnounceBucketAway}},
	} {
		for _, k := range step.kinds {
			m.noteAnnounced(k)
		}
		var got Meta
		for _, k := range step.want {
			got.noteAnnounced(k)
		}
		if m.Announced != got.Announced {
			t.Errorf("after %v: %b, want %v", step.kinds, m.Announced, step.want)
		}
	}
}
