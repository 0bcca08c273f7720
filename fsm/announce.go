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
	AnnounceBucketDamaged                          // an object that the document needs is missing or damaged; since Level9
	AnnounceBucketHealed                           // a new checkpoint has replaced the damaged objects; since Level9

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

// announceMax is the length, in bytes, at which the text of an announcement is cut.
const announceMax = 256
