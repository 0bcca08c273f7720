package fsm

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"osqueue/fsm/fsmpb"
)

// Two machines that have applied the same log must have the same state. The checksum of
// a state is that of its snapshot, so it costs Apply nothing: a CheckState in the log
// marks the place, each node freezes a View there, in O(1), and computes the checksum
// later. A StateChecked after it has the checksum of most nodes.

// ErrDiverged is wrapped by the errors about a state that differs from the state of most
// nodes after the same log.
var ErrDiverged = errors.New("the state differs from that of the other nodes")

// StateSum is the checksum of the state after a log entry.
type StateSum struct {
	LSN LSN
	Sum [sha256.Size]byte
}

// Sum returns the checksum of the state, in time proportional to its size.
func (v *View) Sum() StateSum { return StateSum{v.LSN(), v.Hash()} }

// Compare returns an error that wraps ErrDiverged if s and agreed are different checksums
// of the state at the same LSN.
func (s StateSum) Compare(agreed StateSum) error {
	if s.LSN != agreed.LSN || s.Sum == agreed.Sum {
		return nil
	}
	return fmt.Errorf("%w: after log entry %s the checksum is %x here, and %x on most nodes",
		ErrDiverged, s.LSN, s.Sum[:8], agreed.Sum[:8])
}

// AsksForSum reports whether an entry has a CheckState.
func AsksForSum(b *fsmpb.Batch) bool {
	return slices.ContainsFunc(b.Mutations, func(m *fsmpb.Mutation) bool { return m.GetCheckState() != nil })
}

// AgreedSums calls fn for the checksums in an entry that most nodes agree on, with the
// server ids of the nodes that have other ones.
func AgreedSums(b *fsmpb.Batch, fn func(agreed StateSum, diverged []string)) {
	for _, m := range b.Mutations {
		if op := m.GetStateChecked(); op != nil { // DecodeEntry has checked its length
			fn(StateSum{LSN{Term: op.Term, Index: op.Index}, [sha256.Size]byte(op.Sum)}, op.Diverged)
		}
	}
}

// SumCheck compares the states of a machine that replays a log with the checksums in that
// log. The zero value is ready for use. It is not safe for concurrent use.
type SumCheck struct {
	frozen *View // at the newest CheckState, until its checksum arrives
}

// Applied checks an entry that m has just applied. Its error wraps ErrDiverged.
func (c *SumCheck) Applied(m *Machine, b *fsmpb.Batch) (err error) {
	AgreedSums(b, func(agreed StateSum, _ []string) {
		if c.frozen != nil && c.frozen.LSN() == agreed.LSN {
			err = errors.Join(err, c.frozen.Sum().Compare(agreed))
			c.frozen = nil
		}
	})
	if AsksForSum(b) {
		c.frozen = m.View()
	}
	return err
}
