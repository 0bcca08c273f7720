package fsm

import (
	"testing"

	"osqueue/fsm/fsmpb"
)

// Raft's terms go on from the term that a transplanted state was given.
func TestTransplant(t *testing.T) {
	for _, c := range []struct {
		term, lsnTerm uint64
		want          LSN
	}{
		{term: 2, lsnTerm: 8, want: LSN{Term: 8, Index: 101}},
		{term: 8, lsnTerm: 8, want: LSN{Term: 8, Index: 101}},
		{term: 20, lsnTerm: 8, want: LSN{Term: 20, Index: 101}},
	} {
		m := New()
		m.meta.Term, m.meta.Index, m.meta.TermBase = 7, 100, 5
		m.Transplant("c", "v1", c.term, c.lsnTerm)
		if got := m.Meta(); got.LSN() != c.want || got.Cluster != "c" || got.Adopted != "v1" {
			t.Errorf("raft in %d: %s of %q, adopted from %q, want %s", c.term, got.LSN(), got.Cluster, got.Adopted, c.want)
		}
		m.Apply(106, c.term+1, &fsmpb.Batch{NowMs: 1})
		if got := m.LSN(); got != (LSN{Term: c.want.Term + 1, Index: 106}) {
			t.Errorf("raft in %d: the next entry is %s", c.term, got)
		}
	}
}
