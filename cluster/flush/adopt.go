package flush

import (
	"math/rand/v2"

	"osqueue/fsm"
	"osqueue/storage"
)

// termsAhead bounds the random distance of the term of an adopted state.
const termsAhead = 1 << 20

// Adopt makes a state that was read from a version of the document the state of a cluster. The
// raft term of the cluster is term, and left is the LSN at which its machine was before. The state
// gets an LSN that no other cluster uses.
//
// The next term would not be unique. A leader that took the document over may have written
// objects to the bucket, and failed before its document named them; another cluster may
// have adopted the same document before, and lost it. A reader that follows the history by
// names (package archive) would take their entries for those of this cluster. Their last
// term is unknown, so Adopt picks a random term far ahead.
func Adopt(m *fsm.Machine, cluster string, version storage.Version, term uint64, left fsm.LSN) {
	ahead := max(m.Meta().LSN.Term, left.Term) + 1 + rand.Uint64N(termsAhead)
	m.Transplant(cluster, string(version), term, ahead)
}
