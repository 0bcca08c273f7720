package fsm

import (
	"errors"
	"fmt"
	"slices"

	"osqueue/fsm/fsmpb"
)

// The feature levels. A feature level selects the rules that a state follows and the
// fields that it may have. It is part of the state and only grows (RaiseLevel). A changed
// rule checks it (m.Level() >= Level7), so that nodes of two releases decide alike until
// all of them know the new rule. Entries and snapshots carry the lowest level that
// describes them: until the level is raised, the previous release reads all of them.
const (
	BaseLevel = 6 // the level of a state without the field
	// Level7 adds RaiseLevel, opens types at their permit in entries that exhaust the
	// budget (openPermitted), and keeps a schedule that is put in the moment in which it
	// fires from firing twice (firedAlready).
	Level7 = 7
	// Level8 adds CheckState and StateChecked, counts requests by their items
	// (RequestRecord.weight), records the jobs that retention removes (removed.go),
	// remembers more claims of a worker, and keeps a schedule from firing for a time
	// before its first PUT (putAfter).
	Level8 = 8
	// Level9 adds SetClock (setback.go), and the announcements of damage in the bucket.
	Level9 = 9
	// Level10 adds access tokens (token.go), and binds claims to their owners (owned).
	Level10 = 10
	// Level11 adds the figures of types (figures.go), headers of jobs (header.go), marks
	// (RoleMark), quotas of tokens (account.go), the reasons and ends of pauses (pause.go), and
	// webhooks (hook.go).
	Level11 = 11
	// Level12 adds the actors of events (Event.Actor, HookEvent.Actor), quiet workers and the capacity of workers
	// (quiet.go), tokens that replace another one (CreateToken.Replaces), and keeps jobs whose
	// batch was removed from counting in a later one after SetClock (beforeBatch).
	Level12 = 12

	MaxLevel = Level12 // the newest level that this version knows
)

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
	if m.GetActor() != "" {
		return Level12
	}
	switch op := m.GetOp().(type) {
	case *fsmpb.Mutation_Enqueue:
		return max(levelOfJobs(op.Enqueue.GetJobs()...), levelOfJobs(op.Enqueue.GetNewBatch().GetCallback()))
	case *fsmpb.Mutation_RegisterWorker:
		if op.RegisterWorker.GetCapacity() != 0 {
			return Level12
		}
	case *fsmpb.Mutation_SetQuiet:
		return Level12
	case *fsmpb.Mutation_SetQueue:
		if op.SetQueue.GetPause() != nil {
			return Level11
		}
	case *fsmpb.Mutation_PutCron:
		return levelOfJobs(op.PutCron.GetJob())
	case *fsmpb.Mutation_Claim:
		return levelOfOwner(op.Claim.GetOwner())
	case *fsmpb.Mutation_Heartbeat:
		return levelOfOwner(op.Heartbeat.GetOwner())
	case *fsmpb.Mutation_Complete:
		return levelOfOwner(op.Complete.GetOwner())
	case *fsmpb.Mutation_Fail:
		return levelOfOwner(op.Fail.GetOwner())
	case *fsmpb.Mutation_Release:
		return levelOfOwner(op.Release.GetOwner())
	case *fsmpb.Mutation_Group:
		level := uint32(BaseLevel)
		for _, part := range op.Group.GetMutations() {
			level = max(level, LevelOf(part))
		}
		return level
	}
	return levelOfAdmin(m)
}

// levelOfAdmin is LevelOf for what operators and the node itself propose.
func levelOfAdmin(m *fsmpb.Mutation) uint32 {
	switch op := m.GetOp().(type) {
	case *fsmpb.Mutation_CreateToken:
		if op.CreateToken.GetReplaces() != "" || op.CreateToken.GetOverlapMs() != 0 {
			return Level12
		}
		if t := op.CreateToken.GetToken(); t.GetMaxJobs() != 0 || t.GetMaxBytes() != 0 || Role(min(t.GetRole(), numRoles)) == RoleMark {
			return Level11
		}
		return Level10
	case *fsmpb.Mutation_RevokeToken, *fsmpb.Mutation_TouchTokens:
		return Level10
	case *fsmpb.Mutation_PutHook, *fsmpb.Mutation_DeleteHook, *fsmpb.Mutation_TestHook, *fsmpb.Mutation_ReportHook, *fsmpb.Mutation_SetAlert:
		return Level11
	case *fsmpb.Mutation_RaiseLevel:
		return op.RaiseLevel.GetLevel()
	case *fsmpb.Mutation_CheckState, *fsmpb.Mutation_StateChecked:
		return Level8
	case *fsmpb.Mutation_Announce:
		if op.Announce.GetKind() >= uint32(AnnounceBucketDamaged) {
			return Level9
		}
	case *fsmpb.Mutation_SetClock:
		return Level9
	}
	return BaseLevel
}

// levelOfJobs returns the level of an operation with new jobs.
func levelOfJobs(jobs ...*fsmpb.NewJob) uint32 {
	if slices.ContainsFunc(jobs, func(n *fsmpb.NewJob) bool { return len(n.GetHeaders()) > 0 || n.GetQuota() != nil }) {
		return Level11
	}
	return BaseLevel
}
