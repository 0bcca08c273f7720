package leader

import "osqueue/fsm"

// unresolved has the conditions that a leader has announced, and not yet their end. The state
// has no record of them, so each node derives it from the entries that it applies: a new leader
// announces the end of what an earlier one announced. After it has restored a snapshot, which it
// also does at a restart, a node does not know
// of a condition that was announced before. Then the end is not announced; an end without a
// beginning never is.
type unresolved struct{ away, refused, damaged bool }

// applied records the announcements of an entry.
func (u *unresolved) applied(events []fsm.Event) {
	for i := range events {
		switch events[i].Kind {
		case fsm.BucketAway:
			u.away = true
		case fsm.BucketBack:
			u.away = false
		case fsm.WritesRefused:
			u.refused = true
		case fsm.WritesAccepted:
			u.refused = false
		case fsm.BucketDamaged:
			u.damaged = true
		case fsm.BucketHealed:
			u.damaged = false
		default:
		}
	}
}
