package fsm

import (
	"errors"
	"fmt"

	"osqueue/fsm/fsmpb"
)

// A feature level says which rules a state follows and which fields may stand in
// it. It is part of the state and only grows (RaiseLevel). A changed rule asks for
// it (m.Level() >= Level7), so that nodes of two releases decide alike until all of
// them know the new rule. Entries and snapshots carry the lowest level that
// describes them: until the level is raised, the previous release reads all of them.
const (
	BaseLevel = 6 // the level of a state that names none
	// Level7 has RaiseLevel; permits of rates that come in an entry with too much to do
	// (openPermitted); and schedules that are put in the moment in which they fire
	// (firedAlready).
	Level7 = 7
	// Level8 has CheckState and StateChecked; requests that count by their items
	// (RequestRecord.weight); records of the jobs that retention removes (removed.go);
	// more remembered claims of a worker; and schedules that do not fire for a time before
	// their first PUT (putAfter).
	Level8 = 8

	MaxLevel = Level8 // the newest level that this version knows
)

// ErrLevel is wrapped by Meta.Check for a state of a level that this version does
// not know. A node that meets it must stop.
var ErrLevel = errors.New("the feature level is not known here; upgrade this node")

// Level is the feature level of the state.
func (m *Machine) Level() uint32 { return m.meta.Level }

// checkLevel refuses a level that this version does not know; 0 is BaseLevel.
func checkLevel(level uint32) error {
	if level > MaxLevel {
		return fmt.Errorf("%w (it is %d, the newest known is %d)", ErrLevel, level, MaxLevel)
	}
	return nil
}

// levelOfEntry is the lowest level that describes b.
func levelOfEntry(b *fsmpb.Batch) uint32 {
	level := uint32(BaseLevel)
	for _, m := range b.Mutations {
		level = max(level, LevelOf(m))
	}
	return level
}

// LevelOf is the feature level that brought the kind of m, or one of its fields. It
// has a case for each of these; the others are as old as BaseLevel.
func LevelOf(m *fsmpb.Mutation) uint32 {
	switch op := m.GetOp().(type) {
	case *fsmpb.Mutation_RaiseLevel:
		return op.RaiseLevel.GetLevel()
	case *fsmpb.Mutation_CheckState, *fsmpb.Mutation_StateChecked:
		return Level8
	case *fsmpb.Mutation_Group:
		level := uint32(BaseLevel)
		for _, part := range op.Group.GetMutations() {
			level = max(level, LevelOf(part))
		}
		return level
	}
	return BaseLevel
}

// raiseLevel raises the feature level. A level that the state has already, or has
// passed, changes nothing.
func (m *Machine) raiseLevel(op *fsmpb.RaiseLevel) Result {
	if op.Level <= m.meta.Level {
		return Result{Code: Duplicate}
	}
	m.meta.Level = op.Level
	m.boundRequests() // a request may weigh more at the new level
	return Result{}
}
