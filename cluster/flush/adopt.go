package flush

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"osqueue/fsm"
	"osqueue/storage"
	"osqueue/storage/document"
)

// termsAhead bounds the distance of the term of an adopted state.
const termsAhead = 1 << 20

// Adopt makes a state that was read from a document the state of a cluster. The raft term
// of the cluster is term, and left is the LSN at which its machine was before. The state
// gets an LSN that no other cluster uses.
//
// The next term would not be unique. A leader that took the document over may have written
// objects to the bucket, and failed before its document named them; another cluster may
// have adopted the same document before, and lost it. A reader that follows the history by
// names (package archive) would take their entries for those of this cluster. Their last
// term is unknown, so Adopt picks a term far ahead, which is as good as random: a hash of the
// version of the document, the cluster and its raft term. So Adopted recognises the state.
func Adopt(m *fsm.Machine, cluster string, version storage.Version, term uint64, left fsm.LSN) {
	ahead := max(m.Meta().LSN.Term, left.Term) + 1 + distance(cluster, version, term)
	m.Transplant(cluster, term, ahead)
}

// distance is the distance of the term of an adopted state.
func distance(cluster string, version storage.Version, term uint64) uint64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%d", cluster, version, term))
	return binary.BigEndian.Uint64(sum[:]) % termsAhead
}

// Adopted reports whether a state of a cluster is the one that it has adopted from a version of
// the document, and that it has not changed since. Then a new leader of the cluster need not adopt
// the document again. It returns false for some of these states: if jobs were carried over, or if
// the cluster had a state with a later term before.
func Adopted(meta *fsm.Meta, doc *document.File, version storage.Version) bool {
	d, at := &doc.Meta, meta.LSN.Term
	return meta.Broker == d.Broker && meta.Now == d.Now && meta.LastSeq == d.LastSeq && meta.LSN.Index == d.LSN.Index+1 &&
		at >= meta.TermBase && at == d.LSN.Term+1+distance(meta.Cluster, version, at-meta.TermBase)
}
