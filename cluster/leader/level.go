package leader

import (
	"context"
	"time"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/sleep"
)

// The feature level of the state (package fsm) lets two releases run in one cluster. The
// active leader raises it, through the log, to the highest level that every server of
// raft's configuration knows and that no node holds back (Config.FeatureLevel). The
// leader asks each server for its identity. All servers have to answer: a node that is down
// may return with a release that knows fewer levels.

const (
	// levelInterval is the time between two attempts to raise the level.
	levelInterval = 2 * time.Second
)

// keepLevel raises the level as soon as all servers allow it, and returns when the level
// is the highest of this node or when ctx ends. It logs why the level stays each time the
// reason changes.
func (t *Term) keepLevel(ctx context.Context) {
	var reason string
	for {
		level := t.meta().Level
		if level >= t.cfg.highestLevel() {
			return // levels are never lowered
		}
		why := t.tryRaise(ctx, level)
		if why != reason && why != "" && ctx.Err() == nil {
			t.log.Info("the feature level is not raised yet", "level", level, "known", fsm.MaxLevel, "reason", why)
		}
		reason = why
		if !sleep.For(ctx, levelInterval) {
			return
		}
	}
}

// tryRaise raises the level if all servers allow a higher one. Otherwise it returns why
// it does not.
func (t *Term) tryRaise(ctx context.Context, level uint32) (why string) {
	common, err := t.do.CommonLevel(ctx)
	if err != nil {
		return err.Error()
	}
	if common <= level {
		return "a node of the cluster knows no higher level, or holds it back (--feature-level)"
	}
	if _, err := t.proposals.Do(ctx, own(proposal{raiseLevel(common)})); err != nil {
		return err.Error()
	}
	t.log.Info("raised the feature level; nodes that do not know it cannot join this cluster any more", "from", level, "to", common)
	return ""
}

func raiseLevel(level uint32) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_RaiseLevel{RaiseLevel: &fsmpb.RaiseLevel{Level: level}}}
}

// firstLevel returns a mutation that raises the level of a cluster that has had no broker
// yet, so that a new cluster begins with all features. If a server does not answer, it
// returns none, and keepLevel raises the level later.
func (l *Leader) firstLevel(ctx context.Context) []*fsmpb.Mutation {
	meta := l.meta()
	if meta.Lineage != "" {
		return nil
	}
	level, err := l.do.CommonLevel(ctx)
	if err != nil || level <= meta.Level {
		return nil
	}
	return []*fsmpb.Mutation{raiseLevel(level)}
}
