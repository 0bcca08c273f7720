package fsm

// Transplant makes the state of a version of the document, adopted, the state of a cluster whose
// raft is at term. The step gets an LSN term of its own: lsnTerm, or raft's term if that is
// greater.
func (m *Machine) Transplant(cluster, adopted string, term, lsnTerm uint64) {
	m.meta.Adopted = adopted
	m.meta.Cluster = cluster
	m.meta.LSN = LSN{Term: max(lsnTerm, term), Index: m.meta.LSN.Index + 1}
	m.meta.TermBase = m.meta.LSN.Term - term
}
