package fsm

import (
	"strings"

	"osqueue/fsm/fsmpb"
)

// AnnounceKind is what the leader announces.
type AnnounceKind uint8

// The kinds of announcements. The order is that of the log and must not change;
// 0 is none.
const (
	AnnounceBucketAway     AnnounceKind = iota + 1 // flushes fail
	AnnounceBucketBack                             // they succeed again
	AnnounceWritesRefused                          // the bucket is too far behind
	AnnounceWritesAccepted                         // it no longer is

	numAnnounces = iota + 1
)

var announced = [numAnnounces]EventKind{
	AnnounceBucketAway:     BucketAway,
	AnnounceBucketBack:     BucketBack,
	AnnounceWritesRefused:  WritesRefused,
	AnnounceWritesAccepted: WritesAccepted,
}

// announceMax is where the text of an announcement is cut, in bytes.
const announceMax = 256

// announce makes an event about the node in charge, so that all nodes have it
// at the same place among the others, and changes nothing.
func (m *Machine) announce(op *fsmpb.Announce) Result {
	m.events = append(m.events, Event{
		Kind: announced[op.Kind], Name: m.meta.Broker.Node, Text: strings.Clone(cut(op.Text, announceMax)),
	})
	return Result{}
}
