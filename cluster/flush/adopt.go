package flush

import (
	"math/rand/v2"

	"osqueue/fsm"
)

// termsAhead bounds how far the term of an adopted state lies ahead.
const termsAhead = 1 << 20

// Adopt makes a state that was read from a document the state of a cluster, in
// which raft is at a term, and whose machine was at left. The LSN that it gets is
// nobody else's.
//
// The next term would not do. A leader that took the document over, and wrote
// ahead what its document was to name, may be gone without a trace in the document
// but with objects in the bucket; and another cluster may have adopted the same
// document before, and lost it. Who walks the line of history by names (package
// archive) would take their entries for ours. Nobody knows how far they got, so the
// term is a random one far ahead.
func Adopt(m *fsm.Machine, cluster string, term uint64, left fsm.LSN) {
	ahead := max(m.Meta().LSN.Term, left.Term) + 1 + rand.Uint64N(termsAhead)
	m.Transplant(cluster, term, ahead)
}
