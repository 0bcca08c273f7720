package fsm

// Transplant makes a state that was read from somewhere the state of a cluster, in
// which raft is at a term. It is a step of its own in the lineage's history, in a
// term of LSNs of its own, that is lsnTerm or raft's if that is greater.
func (m *Machine) Transplant(cluster string, term, lsnTerm uint64) {
	m.meta.Cluster = cluster
	m.meta.LSN = LSN{Term: max(lsnTerm, term), Index: m.meta.LSN.Index + 1}
	m.meta.TermBase = m.meta.LSN.Term - term
}
