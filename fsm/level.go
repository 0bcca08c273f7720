package fsm

import (
	"errors"
	"fmt"

	"osqueue/fsm/fsmpb"
)

// BaseLevel is the lowest feature level. A feature level selects the rules that a state follows and the
// fields that it may have. It is part of the state and only grows (RaiseLevel). A changed
// rule checks it (m.Level() >= …), so that nodes of two releases decide alike until all of
// them know the new rule. Entries carry the lowest level that describes them: until the
// level is raised, nodes of both releases read all of them.
//
// There is one level. A program that is built with the tag nextlevel knows a second one,
// with a rule of its own (level_next.go), so that tests can upgrade a cluster.
const BaseLevel = 1 // the level of a new state

// ErrLevel is wrapped by Meta.Check for a state of a level that this version does not
// know. A node that meets one must stop.
var ErrLevel = errors.New("unknown feature level; upgrade this node")

// Level returns the feature level of the state.
func (m *Machine) Level() uint32 { return m.meta.Level }

// checkLevel refuses a level that this version does not know; 0 is BaseLevel.
func checkLevel(level uint32) error {
	if level > MaxLevel {
		return fmt.Errorf("%w (level %d, newest known %d)", ErrLevel, level, MaxLevel)
	}
	return nil
}

// levelOfEntry returns the lowest level that describes b.
func levelOfEntry(b *fsmpb.Batch) uint32 {
	level := uint32(BaseLevel)
	for _, m := range b.Mutations {
		level = max(level, LevelOf(m))
	}
	return level
}

// LevelOf returns the feature level that added the kind of m, or one of the fields that m
// has. It has a case for each of these; everything else is as old as BaseLevel.
func LevelOf(m *fsmpb.Mutation) uint32 {
	level := max(m.GetRaiseLevel().GetLevel(), BaseLevel)
	for _, part := range m.GetGroup().GetMutations() {
		level = max(level, LevelOf(part))
	}
	return level
}
