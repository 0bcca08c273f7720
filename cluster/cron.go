package cluster

import (
	"fmt"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/cronid"
	"osqueue/internal/crontab"
)

// Schedules fire through the log: the leader reckons the times and proposes a
// FireCron, and the machine lets it count only if the schedule's next time is
// the one that it was proposed for. So each time fires once, though two leaders
// may propose it, or one leader twice.

// ErrSpec and ErrTimeZone are wrapped by the errors of NextTime.
var (
	ErrSpec     = crontab.ErrSpec
	ErrTimeZone = crontab.ErrZone
)

// NextTime is the first time of a schedule after a moment, in ms; 0 is never.
// Package crontab describes specs. The error says what is wrong with the spec or
// the time zone.
func NextTime(spec, timeZone string, after int64) (int64, error) {
	s, err := crontab.Parse(spec, timeZone)
	if err != nil {
		return 0, err
	}
	return s.Next(after), nil
}

// firesMax bounds the schedules that fire in one log entry.
const firesMax = 500

// schedulesKept bounds the specs that are kept as read.
const schedulesKept = 4096

// fires makes the mutations for schedules that are due. It is not safe for
// concurrent use.
type fires struct {
	reign *reign
	read  map[[2]string]*crontab.Schedule // by spec and zone
}

// due are the fires of the schedules whose time has come, the earliest first, as
// many as one entry may have.
func (f *fires) due(now int64) (proposal, error) {
	var crons []*fsm.Cron
	f.reign.node.replica.read(func(m *fsm.Machine) {
		m.DueCrons(now, func(c *fsm.Cron) bool {
			if f.reign.unreadable(c) {
				return true
			}
			crons = append(crons, c)
			return len(crons) < firesMax
		})
	})
	var p proposal
	for _, c := range crons {
		fire := f.fire(c, now)
		if fire == nil {
			continue
		}
		id, err := cronid.New(fire.AtMs)
		if err != nil {
			return nil, fmt.Errorf("make an id for the job of schedule %q: %w", c.Name, err)
		}
		fire.JobId = id
		p = append(p, &fsmpb.Mutation{Op: &fsmpb.Mutation_FireCron{FireCron: fire}})
	}
	return p, nil
}

// fire computes the times. A schedule that this version cannot read, because a newer
// release put it, is left to a leader that can: the result is nil.
func (f *fires) fire(c *fsm.Cron, now int64) *fsmpb.FireCron {
	s, err := f.schedule(c.Spec, c.TimeZone)
	if err != nil {
		f.reign.strange.Store([2]string{c.Spec, c.TimeZone}, struct{}{})
		f.reign.log.Error("this version of the program cannot read a schedule; it fires when a node that can read it leads, or when it is put again",
			"schedule", c.Name, "spec", c.Spec, "zone", c.TimeZone, "reason", err)
		return nil
	}
	fire := &fsmpb.FireCron{Name: c.Name, DueMs: c.NextAt, Spec: &c.Spec, TimeZone: &c.TimeZone}
	fire.AtMs, fire.Missed = s.Latest(c.NextAt, now)
	fire.NextMs = s.Next(fire.AtMs)
	return fire
}

// unreadable reports whether fire has found that this version cannot read the schedule.
func (r *reign) unreadable(c *fsm.Cron) bool {
	_, found := r.strange.Load([2]string{c.Spec, c.TimeZone})
	return found
}

func (f *fires) schedule(spec, zone string) (*crontab.Schedule, error) {
	key := [2]string{spec, zone}
	if s := f.read[key]; s != nil {
		return s, nil
	}
	s, err := crontab.Parse(spec, zone)
	if err != nil {
		return nil, err
	}
	if f.read == nil || len(f.read) >= schedulesKept {
		f.read = make(map[[2]string]*crontab.Schedule)
	}
	f.read[key] = s
	return s, nil
}
