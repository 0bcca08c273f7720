package fsm

// AnnounceKind is the condition that the leader announces.
type AnnounceKind uint8

// The kinds of announcements. The order is that of the log and must not change;
// 0 is none.
const (
	AnnounceBucketAway     AnnounceKind = iota + 1 // flushes fail
	AnnounceBucketBack                             // flushes succeed again
	AnnounceWritesRefused                          // the bucket is too far behind
	AnnounceWritesAccepted                         // the bucket has caught up
	AnnounceBucketDamaged                          // an object that the document needs is missing or damaged
	AnnounceBucketHealed                           // a new checkpoint has replaced the damaged objects

	numAnnounces = iota + 1
)

var announced = [numAnnounces]EventKind{
	AnnounceBucketAway:     BucketAway,
	AnnounceBucketBack:     BucketBack,
	AnnounceWritesRefused:  WritesRefused,
	AnnounceWritesAccepted: WritesAccepted,
	AnnounceBucketDamaged:  BucketDamaged,
	AnnounceBucketHealed:   BucketHealed,
}

// begin returns the condition that k announces, or whose end it announces.
func (k AnnounceKind) begin() AnnounceKind { return k - (k+1)%2 }

// Announces reports whether a condition, such as AnnounceBucketAway, was announced and its end was
// not. A new leader announces the end of what an earlier one has announced.
func (m *Meta) Announces(k AnnounceKind) bool { return m.Announced&(1<<k) != 0 }

// noteAnnounced records an announcement in the state.
func (m *Meta) noteAnnounced(k AnnounceKind) {
	if begin := k.begin(); k == begin {
		m.Announced |= 1 << begin
	} else {
		m.Announced &^= 1 << begin
	}
}

// announceMax is the length, in bytes, at which the text of an announcement is cut.
const announceMax = 256
