package leader

import (
	"fmt"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/crontab"
)

// Schedules fire through the log. The leader computes the times and proposes a FireCron.
// The machine applies it only if it was proposed for the schedule's next time. So each
// time fires once, even if two leaders propose it, or one leader proposes it twice.

// firesMax bounds the schedules that fire in one log entry.
const firesMax = 500

// schedulesKept bounds the number of parsed specs in memory.
const schedulesKept = 4096

// fires proposes the schedules that are due. It is not safe for concurrent use.
type fires struct {
	term *Term
	read map[[2]string]*crontab.Schedule // parsed, by spec and zone
}

// due returns the mutations for the schedules that are due at now, the earliest first, at
// most as many as fit into one entry.
func (f *fires) due(now int64) (proposal, error) {
	var crons []*fsm.Cron
	f.term.do.Read(func(m *fsm.Machine) {
		m.DueCrons(now, func(c *fsm.Cron) bool {
			if f.term.unreadable(c) {
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
		id, err := crontab.NewID(fire.AtMs)
		if err != nil {
			return nil, fmt.Errorf("make an id for the job of schedule %q: %w", c.Name, err)
		}
		fire.JobId = id
		p = append(p, &fsmpb.Mutation{Op: &fsmpb.Mutation_FireCron{FireCron: fire}})
	}
	return p, nil
}

// fire computes the times of one schedule. If this version cannot read the schedule,
// because a newer release created it, fire returns nil, and a leader that can read it
// will fire it.
func (f *fires) fire(c *fsm.Cron, now int64) *fsmpb.FireCron {
	s, err := f.schedule(c.Spec, c.TimeZone)
	if err != nil {
		f.term.strange.Store([2]string{c.Spec, c.TimeZone}, struct{}{})
		f.term.log.Error("cannot read a schedule of another release; it fires when a node of that release leads, or when "+
			"you put it again",
			"schedule", c.Name, "spec", c.Spec, "zone", c.TimeZone, "reason", err)
		return nil
	}
	fire := &fsmpb.FireCron{Name: c.Name, DueMs: c.NextAt, Spec: &c.Spec, TimeZone: &c.TimeZone}
	fire.AtMs, fire.Missed = s.Latest(max(c.LastAt, c.UpdatedAt), c.NextAt, now)
	fire.NextMs = s.Next(fire.AtMs)
	return fire
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
