package fsm

import (
	"slices"

	"osqueue/fsm/fsmpb"
	"osqueue/fsm/tenants"
)

// For returns the job as a caller of a tenant sees it, with tenants.NameFor of each name.
func (j *Job) For(tenant string) *Job {
	o := j.Options()
	if !tenants.Owns(j.Execution().Worker) && !tenants.Owns(o.Batch) && !tenants.Owns(o.Cron) && !tenants.Owns(o.Unique.Key) &&
		!slices.ContainsFunc(j.Details().History, func(a Attempt) bool { return tenants.Owns(a.Worker) }) {
		return j
	}
	out := *j
	if out.Exec != nil {
		x := *out.Exec
		x.Worker = tenants.NameFor(tenant, x.Worker)
		out.Exec = &x
	}
	if out.Opt != nil {
		o := *out.Opt
		o.Batch, o.Cron, o.Unique.Key = tenants.NameFor(tenant, o.Batch), tenants.NameFor(tenant, o.Cron), tenants.NameFor(tenant, o.Unique.Key)
		out.Opt = &o
	}
	if out.Det != nil && len(out.Det.History) > 0 {
		d := *out.Det
		d.History = slices.Clone(d.History)
		for i := range d.History {
			d.History[i].Worker = tenants.NameFor(tenant, d.History[i].Worker)
		}
		out.Det = &d
	}
	return &out
}

// CronFor is Job.For for a schedule.
func CronFor(c *Cron, tenant string) *Cron {
	key := c.Job.GetUnique().GetKey()
	if !tenants.Owns(c.Name) && !tenants.Owns(key) {
		return c
	}
	out := fsmpb.Copy(c)
	out.Name, out.Job = tenants.NameFor(tenant, c.Name), fsmpb.Clone(c.Job)
	if u := out.Job.GetUnique(); u != nil {
		out.Job.Unique = &fsmpb.Unique{Key: tenants.NameFor(tenant, u.Key), Scope: u.Scope, PeriodMs: u.PeriodMs}
	}
	return out
}
