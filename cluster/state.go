package cluster

import (
	"osqueue/cluster/membership"
	"osqueue/cluster/notify"
	"osqueue/fsm"
	"osqueue/internal/auth/enroll"
)

// State has the reads of the state that a node has applied. Its methods are safe for
// concurrent use.
type State struct {
	replica  *replica
	events   *notify.History
	progress *notify.JobHistory
	tokens   *notify.Tokens
}

// Job returns a job of the applied state, or nil. The job must not be changed.
func (s *State) Job(id string) (j *fsm.Job) {
	s.replica.read(func(m *fsm.Machine) { j = m.Job(id) })
	return j
}

// Token returns a token of the applied state, or nil. It must not be changed.
func (s *State) Token(id string) (t *fsm.Token) {
	s.replica.read(func(m *fsm.Machine) { t = m.Token(id) })
	return t
}

// TokensEnded returns a channel that is closed when the applied state loses a token, or is
// replaced.
func (s *State) TokensEnded() <-chan struct{} { return s.tokens.Ended() }

// AccountUsage returns how many jobs of a producer's account have not ended in the applied
// state, and the bytes of their payloads.
func (s *State) AccountUsage(name string) (jobs, bytes int64) {
	s.replica.read(func(m *fsm.Machine) { jobs, bytes = m.AccountUsage(name) })
	return jobs, bytes
}

// Level returns the feature level of the applied state.
func (s *State) Level() (level uint32) {
	s.replica.read(func(m *fsm.Machine) { level = m.Level() })
	return level
}

// View returns a frozen view of the applied state.
func (s *State) View() *fsm.View { return s.replica.freeze() }

// TypeStats returns the statistics of one job type.
func (s *State) TypeStats(name string) (stats fsm.TypeStats) {
	s.replica.read(func(m *fsm.Machine) { stats = m.TypeStats(name) })
	return stats
}

// LimitUse returns the use of a limit by key.
func (s *State) LimitUse(name string) (use fsm.LimitUse) {
	s.replica.read(func(m *fsm.Machine) { use = m.LimitUse(name) })
	return use
}

// LimitUses returns the use of up to n limits, in the order of names, from one on.
func (s *State) LimitUses(from string, n int) (uses []fsm.LimitUse) {
	s.replica.read(func(m *fsm.Machine) { uses = m.LimitUses(from, n) })
	return uses
}

// AllTypeStats returns the statistics of every type that has jobs.
func (s *State) AllTypeStats() map[string]fsm.TypeStats {
	stats := make(map[string]fsm.TypeStats)
	s.replica.read(func(m *fsm.Machine) {
		for name, t := range m.Types {
			stats[name] = t
		}
	})
	return stats
}

// Remembers reports whether the machine remembers the answer to a claim request, so that
// a repeated request would get the same answer.
func (s *State) Remembers(worker, requestID string) (known bool) {
	s.replica.read(func(m *fsm.Machine) { known = m.Remembers(worker, requestID) })
	return known
}

// Events returns the history of the events that this node has applied. After a start it
// begins with the node's newest snapshot.
func (s *State) Events() *notify.History { return s.events }

// ProgressOf returns the progress that a job has reported in the entries that this node has
// applied since its start, oldest first.
func (s *State) ProgressOf(id string) []notify.ProgressPoint { return s.progress.Progress(id) }

// ActionsOn returns the changes of a job that requests made in the entries that this node has
// applied, oldest first.
func (s *State) ActionsOn(id string) []notify.Action { return s.progress.Actions(id) }

// admitted returns the record of a node that may be a member.
func (s *State) admitted(name string) (a membership.Admission, ok bool) {
	t := s.Token(enroll.PeerRecord(name))
	return membership.Admission(enroll.PeerOf(t)), t != nil
}

// stays reports whether a node stays without a vote.
func (s *State) stays(name string) bool {
	a, _ := s.admitted(name)
	return a.NonVoter
}

// admissions returns the records of all nodes that may be members.
func (s *State) admissions() (all []membership.Admission) {
	for _, p := range enroll.Peers(s.View()) {
		all = append(all, membership.Admission(p))
	}
	return all
}

// revokedAt returns the time in ms up to which the issued certificates of a node are revoked;
// 0 if none is revoked.
func (s *State) revokedAt(name string) int64 {
	if t := s.Token(fsm.RevokedMark(name)); t != nil {
		return t.CreatedMs
	}
	return 0
}
