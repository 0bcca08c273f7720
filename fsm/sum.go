package fsm

import (
	"crypto/sha256"
	"errors"
	"fmt"

	"osqueue/fsm/fsmpb"
)

// Two machines that have applied the same log must have the same state. The checksum
// of a state is that of its snapshot, so it costs Apply nothing: a CheckState in the
// log names the place, whoever applies it freezes a View there, in O(1), and computes
// the checksum when it likes. A StateChecked behind it says what most nodes have.

// ErrDiverged is wrapped by the errors about a state that is not the one that the log
// leads to on most nodes.
var ErrDiverged = errors.New("the state differs from that of the other nodes")

// StateSum is the checksum of the state after a log entry.
type StateSum struct {
	LSN LSN
	Sum [sha256.Size]byte
}

// Sum returns the checksum of the state, in time in proportion to its size.
func (v *View) Sum() StateSum { return StateSum{v.LSN(), v.Hash()} }

// Compare returns an ErrDiverged if s is another checksum of the same state than agreed.
func (s StateSum) Compare(agreed StateSum) error {
	if s.LSN != agreed.LSN || s.Sum == agreed.Sum {
		return nil
	}
	return fmt.Errorf("%w: after log entry %s its checksum is %x, and that of most nodes is %x",
		ErrDiverged, s.LSN, s.Sum[:8], agreed.Sum[:8])
}

// AsksForSum reports whether an entry has a CheckState.
func AsksForSum(b *fsmpb.Batch) bool {
	for _, m := range b.Mutations {
		if m.GetCheckState() != nil {
			return true
		}
	}
	return false
}

// AgreedSums calls fn for the checksums in an entry that most nodes have agreed on, with
// the server ids of the nodes that have others.
func AgreedSums(b *fsmpb.Batch, fn func(agreed StateSum, diverged []string)) {
	for _, m := range b.Mutations {
		if op := m.GetStateChecked(); op != nil { // DecodeEntry has checked its length
			fn(StateSum{LSN{op.Term, op.Index}, [sha256.Size]byte(op.Sum)}, op.Diverged)
		}
	}
}

// SumCheck compares the states of a machine that replays a log with the checksums in
// that log. The zero value is ready.
type SumCheck struct {
	frozen *View // at the newest CheckState, until its checksum has come
}

// Applied looks at an entry that m has just applied. The error is an ErrDiverged.
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
